"""Five calls and TCP behind an ordinary bottleneck, without and with the gateway, in network namespaces (as root).

    server - gateway - bottleneck (2 Mb/s, 200 packets each way) - client        --at mesh, the default
    server - bottleneck - gateway - client                                       --at internet

Calls are those of `fairhop call`: G.729A both ways, RTCP every 5 s, a playout buffer of 60 ms over the fastest packet.
A second is good if its MOS is at least 3.6. TCP is the kernel's.
No capacity is configured.

    python3 bench/gateway/bottleneck.py --program target/release/fairhop [--at internet] [--flows 1 3 10] [--seconds 40]
        [--without] [--live-after 12] [--pacing polling]

With --live-after, the gateway is in a dry run at first, as in the guide. Seconds count from SETTLE after its end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from network import Daemon, add, forward, inside, remove, run

CALLS = 5
RATE = 2_000_000
PACKETS = 200
SETTLE = 10.0
NAMES = ("fhb-server", "fhb-gateway", "fhb-middle", "fhb-client")
SERVER, CLIENT = "10.9.1.1", "10.9.3.2"
CONFIG = """\
mode = "{mode}"
[[gateway]]
name = "bench"
mesh = "mesh"
wired = "wired"
pacing = "{pacing}"
{settings}
[control]
kind = "adaptive"
[journal]
folder = "{folder}"
[api]
token_file = "{folder}/token"
"""


def start(namespace: str, *command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(inside(namespace, *command), stdout=subprocess.PIPE)


def set_up(at: str) -> None:
    add(NAMES)
    first, second = ("fhb-gateway", "fhb-middle") if at == "mesh" else ("fhb-middle", "fhb-gateway")
    devices = {"fhb-gateway": ("wired", "mesh"), "fhb-middle": ("near", "far")}
    ends = [
        ("fhb-server", "wired", f"{SERVER}/24", first, devices[first][0], "10.9.1.2/24"),
        (first, devices[first][1], "10.9.2.1/24", second, devices[second][0], "10.9.2.2/24"),
        (second, devices[second][1], "10.9.3.1/24", "fhb-client", "mesh", f"{CLIENT}/24"),
    ]
    for left, left_name, left_address, right, right_name, right_address in ends:
        run("ip", "link", "add", left_name, "netns", left, "type", "veth", "peer", "name", right_name, "netns", right)
        for name, device, address in ((left, left_name, left_address), (right, right_name, right_address)):
            run("ip", "-n", name, "addr", "add", address, "dev", device)
            run("ip", "-n", name, "link", "set", device, "gso_max_segs", "1", "up")
    for name in ("fhb-gateway", "fhb-middle"):
        forward(name)
    run("ip", "-n", "fhb-server", "route", "add", "default", "via", "10.9.1.2")
    run("ip", "-n", first, "route", "add", "10.9.3.0/24", "via", "10.9.2.2")
    run("ip", "-n", second, "route", "add", "10.9.1.0/24", "via", "10.9.2.1")
    run("ip", "-n", "fhb-client", "route", "add", "default", "via", "10.9.3.1")
    for device in ("near", "far"):
        run(
            *("tc", "-n", "fhb-middle", "qdisc", "add", "dev", device, "root", "tbf"),
            *("rate", str(RATE), "burst", "1540", "limit", str(PACKETS * 1514)),
        )


def judge(lines: str, settled: float) -> list[dict[str, int]]:
    """For each call that an end of `fairhop call --json` has heard: the good and all seconds after `settled`."""
    figures = []
    for line in lines.splitlines():
        call = json.loads(line)
        seconds = range(round(settled), call["whole_seconds"])
        good = len(seconds) - sum(second in seconds for second in call["bad_seconds"])
        missing = call["lost"] + call["late"]
        figures.append({"good": good, "seconds": len(seconds), "missing": missing, "expected": call["expected"]})
    return figures


def sink(address: str, seconds: float, settled: float) -> None:
    """Accepts TCP and prints the bytes that came after `settled`."""
    chooser = selectors.DefaultSelector()
    listener = socket.create_server((address, 5001), backlog=64)
    listener.setblocking(False)
    chooser.register(listener, selectors.EVENT_READ)
    began, received = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        for key, _ in chooser.select(0.1):
            if key.fileobj is listener:
                chooser.register(listener.accept()[0], selectors.EVENT_READ)
                continue
            data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
            if not data:
                chooser.unregister(key.fileobj)
            elif time.monotonic() > began + settled:
                received += len(data)
    print(json.dumps({"kbps": 8 * received / (seconds - settled) / 1e3}))


def source(address: str, flows: int, seconds: float) -> None:
    """Sends on TCP flows for some seconds."""
    chooser = selectors.DefaultSelector()
    for _ in range(flows):
        sock = socket.create_connection((address, 5001))
        sock.setblocking(False)
        chooser.register(sock, selectors.EVENT_WRITE)
    chunk = bytes(16384)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for key, _ in chooser.select(0.1):
            with contextlib.suppress(BlockingIOError):
                key.fileobj.send(chunk)  # type: ignore[union-attr]


def measure(
    program: Path,
    at: str,
    flows: int,
    direction: str,
    seconds: float,
    with_gateway: bool,
    keep: Path | None = None,
    live_after: float = 0.0,
    pacing: str = "auto",
) -> dict[str, float]:
    settled = live_after + SETTLE
    me = [sys.executable, str(Path(__file__).resolve())]
    remove(NAMES)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.callback(remove, NAMES)
        set_up(at)
        if with_gateway:
            recording = []
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                recording = ["--record", str(keep / f"{flows}-{direction}.recording")]
            config = CONFIG.format(folder=folder, mode="dry-run" if live_after else "live", pacing=pacing, settings="")
            stack.enter_context(Daemon(program, "fhb-gateway", folder, config, recording))
        to, fro = ("fhb-client", "fhb-server") if direction == "down" else ("fhb-server", "fhb-client")
        address = CLIENT if direction == "down" else SERVER
        sinks = start(to, *me, "--sink", address, str(settled), "--seconds", str(seconds + 2))
        time.sleep(0.5)
        phone = [str(program), "call"]
        answers = start("fhb-client", *phone, "answer", "--bind", CLIENT, "--json")
        time.sleep(0.2)
        words = ["--count", str(CALLS), "--duration", str(seconds), "--json"]
        makes = start("fhb-server", *phone, "make", CLIENT, *words)
        sources = start(fro, *me, "--source", address, str(flows), "--seconds", str(seconds + 1))
        if live_after and with_gateway:
            time.sleep(live_after)
            run(*inside("fhb-gateway", str(program), "gateway", "mode", "live", "--token-file", f"{folder}/token"))
        heard = makes.communicate()[0]
        answers.send_signal(signal.SIGINT)
        calls = [figures for lines in (heard, answers.communicate()[0]) for figures in judge(lines.decode(), settled)]
        tcp = json.loads(sinks.communicate()[0])
        sources.kill()
        sources.wait()
        if keep is not None and with_gateway:
            (keep / f"{flows}-{direction}.log").write_text((folder / "log").read_text())
    if len(calls) != 2 * CALLS:
        sys.exit(f"{len(calls)} of {2 * CALLS} ends of calls have figures")
    return {
        "worst": min(call["good"] / call["seconds"] for call in calls),
        "mean": sum(call["good"] for call in calls) / sum(call["seconds"] for call in calls),
        "missing": sum(call["missing"] for call in calls) / sum(call["expected"] for call in calls),
        "kbps": tcp["kbps"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("target/release/fairhop"))
    parser.add_argument("--at", choices=["mesh", "internet"], default="mesh", help="side of the bottleneck")
    parser.add_argument("--flows", type=int, nargs="+", default=[1, 3, 10, 30])
    parser.add_argument("--directions", nargs="+", default=["down", "up"])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--without", action="store_true", help="also measure without the gateway")
    parser.add_argument("--keep", type=Path, help="folder for the gateway's logs and recordings")
    parser.add_argument("--live-after", type=float, default=0.0, metavar="S", help="seconds of a dry run at first")
    parser.add_argument("--pacing", default="auto", help="of the gateway: auto, departure-times, polling or classes")
    parser.add_argument("--sink", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--source", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.sink:
        sink(args.sink[0], args.seconds, float(args.sink[1]))
    elif args.source:
        source(args.source[0], int(args.source[1]), args.seconds)
    else:
        print("| TCP | gateway | good seconds, worst call | all calls | packets lost or late | TCP goodput |")
        print("|---|---|---|---|---|---|")
        for direction in args.directions:
            for flows in args.flows:
                for with_gateway in [False, True] if args.without else [True]:
                    program = args.program.resolve()
                    m = measure(
                        *(program, args.at, flows, direction, args.seconds, with_gateway),
                        *(args.keep, args.live_after, args.pacing),
                    )
                    print(
                        f"| {flows} {direction} | {'live' if with_gateway else 'none'} | {100 * m['worst']:.0f} % "
                        f"| {100 * m['mean']:.1f} % | {100 * m['missing']:.2f} % | {m['kbps']:.0f} kb/s |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()

"""Five calls and TCP behind an ordinary bottleneck, without and with the gateway, in network namespaces (as root).

    server - gateway - bottleneck (2 Mb/s, 200 packets each way) - client

Calls are RTP with G.729A, both ways; a second is clear if at most one of its 50 packets is lost or over 60 ms later
than the fastest packet of the call (two lost packets put the MOS of a second under 3.6). TCP is the kernel's.
No capacity is configured.

    python3 bench/gateway/bottleneck.py --program target/release/fairhop [--flows 1 3 10] [--seconds 40] [--without]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CALLS = 5
RATE = 2_000_000
PACKETS = 200
INTERVAL = 0.02
PLAYOUT = 0.06
SETTLE = 10.0
NAMES = ("fhb-server", "fhb-gateway", "fhb-middle", "fhb-client")
SERVER, CLIENT = "10.9.1.1", "10.9.3.2"
CONFIG = """\
mode = "live"
[[gateway]]
name = "bench"
mesh = "mesh"
wired = "wired"
[control]
kind = "adaptive"
[journal]
folder = "{folder}"
[api]
token_file = "{folder}/token"
"""


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def inside(name: str, *command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["ip", "netns", "exec", name, *command], stdout=subprocess.PIPE)


def set_up() -> None:
    for name in NAMES:
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
    ends = [
        ("fhb-server", "wired", f"{SERVER}/24", "fhb-gateway", "wired", "10.9.1.2/24"),
        ("fhb-gateway", "mesh", "10.9.2.1/24", "fhb-middle", "near", "10.9.2.2/24"),
        ("fhb-middle", "far", "10.9.3.1/24", "fhb-client", "mesh", f"{CLIENT}/24"),
    ]
    for left, left_name, left_address, right, right_name, right_address in ends:
        run("ip", "link", "add", left_name, "netns", left, "type", "veth", "peer", "name", right_name, "netns", right)
        for name, device, address in ((left, left_name, left_address), (right, right_name, right_address)):
            run("ip", "-n", name, "addr", "add", address, "dev", device)
            run("ip", "-n", name, "link", "set", device, "gso_max_segs", "1", "up")
    for name in ("fhb-gateway", "fhb-middle"):
        run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    run("ip", "-n", "fhb-server", "route", "add", "default", "via", "10.9.1.2")
    run("ip", "-n", "fhb-gateway", "route", "add", "10.9.3.0/24", "via", "10.9.2.2")
    run("ip", "-n", "fhb-middle", "route", "add", "10.9.1.0/24", "via", "10.9.2.1")
    run("ip", "-n", "fhb-client", "route", "add", "default", "via", "10.9.3.1")
    for device in ("near", "far"):
        run(
            *("tc", "-n", "fhb-middle", "qdisc", "add", "dev", device, "root", "tbf"),
            *("rate", str(RATE), "burst", "1540", "limit", str(PACKETS * 1514)),
        )


def tear_down() -> None:
    for name in NAMES:
        subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def phones(local: str, peer: str, seconds: float) -> None:
    """One end of all calls: sends RTP and prints, for each call, the clear seconds and all seconds after SETTLE."""
    chooser = selectors.DefaultSelector()
    sockets = []
    for call in range(CALLS):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((local, 20000 + 2 * call))
        sock.setblocking(False)
        chooser.register(sock, selectors.EVENT_READ, call)
        sockets.append(sock)
    began = time.monotonic()
    heard: list[list[tuple[int, float, float]]] = [[] for _ in range(CALLS)]
    # Calls have phases of their own.
    due = [began + 0.5 + INTERVAL * call / CALLS for call in range(CALLS)]
    number = [0] * CALLS
    while time.monotonic() < began + seconds + 1:
        now = time.monotonic()
        for call in range(CALLS):
            if due[call] <= now and number[call] * INTERVAL < seconds:
                head = struct.pack("!BBHII", 0x80, 18, number[call] & 0xFFFF, 160 * number[call], 1000 + call)
                body = struct.pack("!Id", number[call], now).ljust(20, b"\0")
                with contextlib.suppress(OSError):
                    sockets[call].sendto(head + body, (peer, 20000 + 2 * call))
                number[call] += 1
                due[call] += INTERVAL
        for key, _ in chooser.select(max(0.0, min(due) - time.monotonic())):
            data = key.fileobj.recv(2048)  # type: ignore[union-attr]
            sent_number, sent = struct.unpack("!Id", data[12:24])
            heard[key.data].append((sent_number, sent, time.monotonic() - sent))
    figures = []
    for packets in heard:
        fastest = min((delay for _, _, delay in packets), default=0.0)
        in_time = {n for n, _, delay in packets if delay <= fastest + PLAYOUT}
        per_second = round(1 / INTERVAL)
        starts = range(round(SETTLE / INTERVAL), round(seconds / INTERVAL) - per_second + 1, per_second)
        missing = [sum(n not in in_time for n in range(start, start + per_second)) for start in starts]
        figures.append({"clear": sum(m <= 1 for m in missing), "seconds": len(missing), "missing": sum(missing)})
    print(json.dumps(figures))


def sink(address: str, seconds: float) -> None:
    """Accepts TCP and prints the bytes that came after SETTLE."""
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
            elif time.monotonic() > began + SETTLE:
                received += len(data)
    print(json.dumps({"kbps": 8 * received / (seconds - SETTLE) / 1e3}))


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
    program: Path, flows: int, direction: str, seconds: float, with_gateway: bool, keep: Path | None = None
) -> dict[str, float]:
    me = [sys.executable, str(Path(__file__).resolve())]
    tear_down()
    daemon = None
    with tempfile.TemporaryDirectory() as folder:
        try:
            set_up()
            if with_gateway:
                config = Path(folder) / "gateway.toml"
                config.write_text(CONFIG.format(folder=folder))
                log = (Path(folder) / "log").open("wb")
                command = ["ip", "netns", "exec", "fhb-gateway", str(program), "gateway", "run", str(config)]
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    command += ["--record", str(keep / f"{flows}-{direction}.recording")]
                daemon = subprocess.Popen(command, stderr=log)
                deadline = time.monotonic() + 20
                while "event=ready" not in (Path(folder) / "log").read_text():
                    if daemon.poll() is not None or time.monotonic() > deadline:
                        sys.exit((Path(folder) / "log").read_text())
                    time.sleep(0.1)
            to, fro = ("fhb-client", "fhb-server") if direction == "down" else ("fhb-server", "fhb-client")
            address = CLIENT if direction == "down" else SERVER
            sinks = inside(to, *me, "--sink", address, "--seconds", str(seconds + 2))
            time.sleep(0.5)
            ends = [
                inside("fhb-server", *me, "--phones", SERVER, CLIENT, "--seconds", str(seconds)),
                inside("fhb-client", *me, "--phones", CLIENT, SERVER, "--seconds", str(seconds)),
            ]
            sources = inside(fro, *me, "--source", address, str(flows), "--seconds", str(seconds + 1))
            calls = [figures for end in ends for figures in json.loads(end.communicate()[0])]
            tcp = json.loads(sinks.communicate()[0])
            sources.kill()
            sources.wait()
            if keep is not None and with_gateway:
                (keep / f"{flows}-{direction}.log").write_text((Path(folder) / "log").read_text())
        finally:
            if daemon is not None:
                daemon.send_signal(signal.SIGTERM)
                daemon.wait(10)
            tear_down()
    packets = sum(call["seconds"] for call in calls) / INTERVAL
    return {
        "worst": min(call["clear"] / call["seconds"] for call in calls),
        "mean": sum(call["clear"] for call in calls) / sum(call["seconds"] for call in calls),
        "missing": sum(call["missing"] for call in calls) / packets,
        "kbps": tcp["kbps"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("target/release/fairhop"))
    parser.add_argument("--flows", type=int, nargs="+", default=[1, 3, 10, 30])
    parser.add_argument("--directions", nargs="+", default=["down", "up"])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--without", action="store_true", help="also measure without the gateway")
    parser.add_argument("--keep", type=Path, help="folder for the gateway's logs and recordings")
    parser.add_argument("--phones", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--sink", help=argparse.SUPPRESS)
    parser.add_argument("--source", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.phones:
        phones(args.phones[0], args.phones[1], args.seconds)
    elif args.sink:
        sink(args.sink, args.seconds)
    elif args.source:
        source(args.source[0], int(args.source[1]), args.seconds)
    else:
        print("| TCP | gateway | clear seconds, worst call | all calls | packets lost or late | TCP goodput |")
        print("|---|---|---|---|---|---|")
        for direction in args.directions:
            for flows in args.flows:
                for with_gateway in [False, True] if args.without else [True]:
                    m = measure(args.program.resolve(), flows, direction, args.seconds, with_gateway, args.keep)
                    print(
                        f"| {flows} {direction} | {'live' if with_gateway else 'none'} | {100 * m['worst']:.0f} % "
                        f"| {100 * m['mean']:.1f} % | {100 * m['missing']:.2f} % | {m['kbps']:.0f} kb/s |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()

"""A video call of two browsers beside downloads or uploads, in namespaces (as root).

    server - gateway - bottleneck (2 Mb/s, 200 packets each way) - client
    server and gateway - emulated mesh (802.11a at 12 Mb/s) - client              --hops N

Chromium without a window sends sound (Opus) and video (640 by 360, 15 pictures a second) of its fake devices both ways,
and adapts the video's rate as it always does; only sound with --sound. With --relay the client's packets go through a
TURN server beside the server (coturn). Each case is measured without and with the gateway. Figures are those of the
browsers (W3C, Identifiers for WebRTC's Statistics API), from 15 s of the call on. Sound that a browser made up, since
its packet was lost or late, is *concealed*.

    python3 bench/gateway/browser.py --program target/release/fairhop [--flows 1 3 10] [--directions down up] [--sound]
        [--relay] [--hops 3 [--config FILE]]

Needs the packages chromium and, with --relay, coturn.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import itertools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bottleneck import CLIENT, CONFIG, NAMES, SERVER, set_up
from network import Daemon, inside, need_root, remove, started, status

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parents[1] / "scenarios" / "adaptive-grid.toml"
BOTTLENECK = HERE / "bottleneck.py"
PORT = 8000
ROLES = {"offer": "server", "answer": "client"}
#: The call's seconds before the judged ones: downloads begin after the first, and learning takes 10 s.
CALM_S, SETTLED_S = 5.0, 15.0
#: How long browsers may take, beside the call, until it is over.
BEGIN_S = 30.0

Totals = dict[str, float]


@dataclass(frozen=True)
class Network:
    """The namespaces of the server, the client and the gateway's daemon, and the addresses of the first two."""

    server: str
    client: str
    gateway: str
    server_address: str
    client_address: str

    def data(self, direction: str) -> tuple[str, str, str]:
        """The namespaces to which and from which TCP goes, and the address of the first: `down` or `up`."""
        if direction == "up":
            return self.server, self.client, self.server_address
        return self.client, self.server, self.client_address


@contextlib.contextmanager
def bottleneck(program: Path, with_gateway: bool, settings: str = "") -> Iterator[Network]:
    """An ordinary bottleneck, and a gateway with more settings."""
    remove(NAMES)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.callback(remove, NAMES)
        set_up("mesh")
        if with_gateway:
            config = CONFIG.format(folder=folder, mode="live", pacing="auto", settings=settings)
            stack.enter_context(Daemon(program, "fhb-gateway", folder, config))
        yield Network("fhb-server", "fhb-client", "fhb-gateway", SERVER, CLIENT)


@contextlib.contextmanager
def mesh(program: Path, hops: int, with_gateway: bool, config: Path | None) -> Iterator[Network]:
    """The emulated mesh, in real time, with a config of the gateway or adaptive control."""
    settings = ("traffic=[]", 'control={ kind = "none" }', f"topology.hops={hops}", "internet.delay_ms=10")
    command = [
        *(str(program), "emulate", str(SCENARIO), "--attach", "internet", "--attach", str(hops), "--duration", "none"),
        *(word for setting in settings for word in ("--set", setting)),
        *([f"--gateway={config}" if config else "--gateway"] if with_gateway else []),
    ]
    network = Network("fh-internet", f"fh-{hops}", "fh-internet", "10.78.0.1", f"10.77.0.{hops}")
    ping = inside(network.server, "ping", "-c", "1", "-W", "1", network.client_address)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as emulation:
        try:
            while subprocess.run(ping, check=False, capture_output=True).returncode:
                if emulation.poll() is not None:
                    assert emulation.stderr is not None
                    raise RuntimeError(emulation.stderr.read().decode())
                time.sleep(0.2)
            yield network
        finally:
            emulation.send_signal(signal.SIGINT)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves the page, keeps what one browser says to the other, and prints figures."""

    kept: dict[str, bytes] = {}  # noqa: RUF012

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        body = (HERE / "browser.html").read_bytes() if path == "/" else self.kept.get(path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Type", "text/html" if path == "/" else "application/json")
        self.end_headers()
        self.wfile.write(body or b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        role = self.path.removeprefix("/figures/")
        if role in ROLES:
            line = json.dumps({"role": role, **json.loads(body)})
            # In one piece: both browsers have a thread here.
            os.write(1, f"{line}\n".encode())
        else:
            self.kept[self.path] = body
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def browser(role: str, folder: Path, server: str, relay: bool, sound: bool) -> list[str]:
    origin = f"http://{server}:{PORT}"
    via = f"&relay={server}:3478" if relay and role == "answer" else ""
    only = "&sound" if sound else ""
    return [
        *("chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / role}"),
        *("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"),
        *("--autoplay-policy=no-user-gesture-required", f"--unsafely-treat-insecure-origin-as-secure={origin}"),
        f"{origin}/?role={role}{via}{only}",
    ]


def relay_server(address: str) -> list[str]:
    return [
        *("turnserver", "-n", "-L", address, "-p", "3478", "--lt-cred-mech", "-u", "bench:bench", "-r", "fairhop"),
        *("--no-tls", "--no-dtls", "--no-cli", "--log-file", "/dev/null", "--no-software-attribute"),
    ]


def heard(reports: list[Totals]) -> Totals:
    """What a browser heard and saw between its first and last report."""
    first, last = reports[0], reports[-1]
    d = {name: last[name] - first.get(name, 0.0) for name in last}
    return {
        "concealed": d["concealed"] / max(d["samples"], 1.0),
        "lost": d["lost"] / max(d["lost"] + d["received"], 1.0),
        "delay_ms": 1000 * d["delay_s"] / max(d["emitted"], 1.0),
        "round_trip_ms": 1000 * statistics.mean(report.get("round_trip_s", 0.0) for report in reports),
        "frames_s": d.get("frames", 0.0) / d["at_s"],
        "frozen": d.get("frozen_s", 0.0) / d["at_s"],
        "video_kbps": 8 * d.get("video_bytes", 0.0) / d["at_s"] / 1000,
    }


def measure(
    network: Network, flows: int, direction: str, seconds: float, relay: bool, sound: bool = False
) -> dict[str, Any]:
    """One call: for each end what `heard` says, and the TCP goodput."""
    to, fro, address = network.data(direction)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))

        if relay:
            started(stack, network.server, *relay_server(network.server_address), output=subprocess.DEVNULL)
        signals = started(stack, network.server, sys.executable, __file__, "--serve")
        time.sleep(0.5)
        for role, end in ROLES.items():
            command = browser(role, folder, network.server_address, relay, sound)
            started(stack, getattr(network, end), *command, output=subprocess.DEVNULL)
        reports: dict[str, list[Totals]] = {role: [] for role in ROLES}
        sinks = None
        # Ends the loop if a browser says nothing, or not any more.
        watchdog = threading.Timer(BEGIN_S + seconds, signals.kill)
        watchdog.daemon = True
        watchdog.start()
        stack.callback(watchdog.cancel)
        assert signals.stdout is not None
        for line in signals.stdout:
            report = json.loads(line)
            if "error" in report:
                raise RuntimeError(f"a browser says: {report['error']}")
            of_role = reports[report.pop("role")]
            if "samples" in report and (sound or "frames" in report):
                of_role.append(report)
            both = min(reports.values(), key=len)
            elapsed = both[-1]["at_s"] - both[0]["at_s"] if both else 0.0
            if elapsed >= CALM_S and sinks is None:
                me, left = (sys.executable, str(BOTTLENECK)), seconds - CALM_S
                settled = str(SETTLED_S - CALM_S)
                sinks = started(stack, to, *me, "--sink", address, settled, "--seconds", str(left + 2))
                time.sleep(0.3)
                started(stack, fro, *me, "--source", address, str(flows), "--seconds", str(left + 1))
            if elapsed >= seconds:
                break
        else:
            raise RuntimeError(f"the browsers have had no call of {seconds:.0f} s after {BEGIN_S + seconds:.0f} s")
        figures: dict[str, Any] = {}
        for role, of_role in reports.items():
            figures[role] = heard([report for report in of_role if report["at_s"] >= of_role[0]["at_s"] + SETTLED_S])
        assert sinks is not None
        figures["kbps"] = json.loads(sinks.communicate()[0])["kbps"]
        return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("target/release/fairhop"))
    parser.add_argument("--flows", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--directions", nargs="+", choices=["down", "up"], default=["down", "up"])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--sound", action="store_true", help="calls without video")
    parser.add_argument("--relay", action="store_true", help="through a TURN server")
    parser.add_argument("--hops", type=int, help="over an emulated mesh of so many hops")
    parser.add_argument("--config", type=Path, help="of the gateway, with --hops")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        http.server.ThreadingHTTPServer(("", PORT), Handler).serve_forever()
        return
    for tool in ("chromium", *(["turnserver"] if args.relay else [])):
        if shutil.which(tool) is None:
            sys.exit(f"error: {tool} is not installed\n  help: apt install chromium coturn")
    need_root()
    columns = (
        *("TCP", "gateway", "calls known", "end", "sound concealed", "lost", "buffered for", "round trip"),
        *("pictures a second", "frozen", "video", "TCP goodput"),
    )
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    program = args.program.resolve()
    for flows, direction, with_gateway in itertools.product(args.flows, args.directions, (False, True)):
        way = mesh(program, args.hops, with_gateway, args.config) if args.hops else bottleneck(program, with_gateway)
        with way as network:
            figures = measure(network, flows, direction, args.seconds, args.relay, args.sound)
            gateways = status(program, network.gateway)["gateways"] if with_gateway else []
        known = sum(len(gateway["calls"]) for gateway in gateways)
        for role, name in ROLES.items():
            end = figures[role]
            row = (
                *(f"{flows} {direction}", "live" if with_gateway else "none", str(known)),
                *(name, f"{100 * end['concealed']:.1f} %", f"{100 * end['lost']:.1f} %"),
                *(f"{end['delay_ms']:.0f} ms", f"{end['round_trip_ms']:.0f} ms", f"{end['frames_s']:.1f}"),
                *(f"{100 * end['frozen']:.0f} %", f"{end['video_kbps']:.0f} kb/s", f"{figures['kbps']:.0f} kb/s"),
            )
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()

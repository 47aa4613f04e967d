"""Calls in a WireGuard tunnel beside downloads or uploads, in namespaces (as root).

    server - gateway - bottleneck (2 Mb/s, 200 packets each way) - client
    server and gateway - emulated mesh (802.11a at 12 Mb/s) - client              --hops N

As a telephone at home reaches the exchange of its company: the gateway sees UDP whose content is encrypted. The client
makes one call of `fairhop call` through the tunnel, beside TCP outside it, which begins 8 s later. Each case is
measured without and with the gateway. A second of the call is good if its MOS is at least 3.6 both ways; those from
18 s of the call on count. What is lost or late is that of the whole call.

    python3 bench/gateway/tunnel.py --program target/release/fairhop [--flows 1 3] [--directions down up] [--codec opus]
        [--hops 3 [--config FILE] | --probes] [--inside]

Needs the packages wireguard-go and wireguard-tools.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from browser import BOTTLENECK, Network, bottleneck, mesh
from network import need_root, run, started, wireguard_key, wireguard_peer

#: Addresses in the tunnel, and its port outside.
INNER = {"server": "10.99.0.1", "client": "10.99.0.2"}
PORT = 51_820
#: TCP begins that long after the call, and is judged so much later, in seconds.
CALM_S, SETTLED_S = 8.0, 10.0


@contextlib.contextmanager
def tunnel(network: Network, folder: Path) -> Iterator[None]:
    """WireGuard between server and client."""
    keys = {end: folder / f"{end}.key" for end in INNER}
    public = {end: wireguard_key(key) for end, key in keys.items()}
    with contextlib.ExitStack() as stack:
        for end, far in (("server", "client"), ("client", "server")):
            namespace, device = getattr(network, end), f"wg-{end}"
            process = started(stack, namespace, "wireguard-go", "-f", device, output=subprocess.DEVNULL)
            while not Path(f"/var/run/wireguard/{device}.sock").exists():
                if process.poll() is not None:
                    raise RuntimeError("wireguard-go has ended; it needs /dev/net/tun")
                time.sleep(0.05)
            place = f"{getattr(network, f'{far}_address')}:{PORT}"
            wireguard_peer(namespace, device, keys[end], public[far], f"{INNER[far]}/32", place)
            run("ip", "-n", namespace, "address", "add", f"{INNER[end]}/24", "dev", device)
            run("ip", "-n", namespace, "link", "set", device, "up")
        yield


def measure(
    program: Path, network: Network, flows: int, direction: str, seconds: float, codec: str, is_inside: bool
) -> dict[str, Any]:
    """One call: for each end what `fairhop call --json` says, and the TCP goodput."""
    to, fro, address = network.data(direction)
    if is_inside:
        address = INNER["client" if direction == "down" else "server"]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(tunnel(network, folder))

        phone = (str(program), "call")
        ends = {"server": started(stack, network.server, *phone, "answer", "--bind", INNER["server"], "--json")}
        time.sleep(0.5)
        options = ("--codec", codec, "--duration", str(seconds), "--json")
        ends["client"] = started(stack, network.client, *phone, "make", INNER["server"], *options)
        time.sleep(CALM_S)
        me, left = (sys.executable, str(BOTTLENECK)), seconds - CALM_S
        sinks = started(stack, to, *me, "--sink", address, str(SETTLED_S), "--seconds", str(left))
        time.sleep(0.3)
        started(stack, fro, *me, "--source", address, str(flows), "--seconds", str(left - 1))
        figures: dict[str, Any] = {"kbps": json.loads(sinks.communicate()[0])["kbps"]}
        ends["client"].wait()
        ends["server"].terminate()
        for name, end in ends.items():
            figures[name] = json.loads(end.communicate()[0].splitlines()[-1])
        return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("target/release/fairhop"))
    parser.add_argument("--flows", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--directions", nargs="+", choices=["down", "up"], default=["down", "up"])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--codec", default="opus", help="of the call, as in `fairhop call make`")
    parser.add_argument("--hops", type=int, help="over an emulated mesh of so many hops")
    parser.add_argument("--config", type=Path, help="of the gateway, with --hops")
    parser.add_argument("--probes", action="store_true", help="of the call's host, behind the bottleneck")
    parser.add_argument("--inside", action="store_true", help="TCP goes through the tunnel as well")
    args = parser.parse_args()
    for tool in ("wireguard-go", "wg"):
        if shutil.which(tool) is None:
            sys.exit(f"error: {tool} is not installed\n  help: apt install wireguard-go wireguard-tools")
    need_root()
    columns = ("TCP", "gateway", "good seconds", "lost or late, into the mesh", "out of it", "TCP goodput")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    program = args.program.resolve()
    judged = range(int(CALM_S + SETTLED_S), int(args.seconds))
    for flows, direction, with_gateway in itertools.product(args.flows, args.directions, (False, True)):
        if args.hops:
            way = mesh(program, args.hops, with_gateway, args.config)
        else:
            way = bottleneck(program, with_gateway, "probe = { calls = true }" if args.probes else "")
        with way as network:
            figures = measure(program, network, flows, direction, args.seconds, args.codec, args.inside)
        bad = {second for end in INNER for second in figures[end]["bad_seconds"]}
        streams = [figures[end] for end in ("client", "server")]
        missing = [(stream["lost"] + stream["late"]) / stream["expected"] for stream in streams]
        row = (
            *(f"{flows} {direction}", "live" if with_gateway else "none"),
            f"{100 * (1 - len(bad & set(judged)) / len(judged)):.0f} %",
            *(f"{100 * part:.1f} %" for part in missing),
            f"{figures['kbps']:.0f} kb/s",
        )
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()

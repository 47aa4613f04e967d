"""What the gateway's datapath costs: packets per CPU-second against plain forwarding, in network namespaces (as root).

    generator - wired - gateway - mesh - drop

10,000 TCP flows of 250 hosts, two full segments into the mesh for an ACK out of it, from raw sockets; each flow has had
its SYNs. Packets come in bursts at a stated rate. The CPU time is that of the generator's process: forwarding happens
in its context (softirq), on a kernel without CONFIG_IRQ_TIME_ACCOUNTING. The generator's own share is measured with
packets that a device drops at once, and taken off. Each round measures own share, plain forwarding and the gateway, and
the ratio is that of each round. The daemon's time is not part of the ratio, but a column of its own.

    python3 bench/gateway/cost.py --program target/release/fairhop [--rounds 9] [--rate 20000] [--flows 10000]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from network import Daemon, add, firewall, forward, inside, remove, run

NAMES = GENERATOR, GATEWAY = "fhc-generator", "fhc-gateway"
WIRED_MAC, MESH_MAC, NOBODY = b"\x02\0\0\0\0\x01", b"\x02\0\0\0\0\x02", b"\x02\0\0\0\0\x09"
BURST = 512
HOSTS = 250
#: What the gateway of a home or a village has: connections are tracked, and their addresses translated.
FIREWALL = """\
table inet firewall {
    chain forward {
        type filter hook forward priority filter; policy drop;
        ct state established,related accept
        iifname { "mesh", "wired" } ct state new accept
    }
    chain postrouting {
        type nat hook postrouting priority srcnat;
        oifname "wired" masquerade
    }
}
"""
CONFIG = """\
mode = "{mode}"
[[gateway]]
name = "cost"
mesh = "mesh"
wired = "wired"
pacing = "{pacing}"
[control]
{control}
[limits]
flows = {flows}
[journal]
folder = "{folder}"
[api]
token_file = "{folder}/token"
"""


class Variant(NamedTuple):
    """A way to run the gateway: its mode, pacing and control."""

    mode: str
    pacing: str
    control: str


# Rates are far above what is sent: nothing waits, so that all work is done where it is counted.
VARIANTS = {
    "observe": Variant("observe", "off", 'kind = "none"'),
    "dry run": Variant("dry-run", "off", 'kind = "adaptive"'),
    "windows": Variant("live", "off", 'kind = "window"\nwindow_packets = 4'),
    **{
        pacing.replace("-", " "): Variant(
            "live", pacing, 'kind = "combined"\nwindow_packets = 4\nrate_kbps = 9000000\nqueue_packets = 10000'
        )
        for pacing in ("departure-times", "polling", "classes")
    },
}


def mac(address: bytes) -> str:
    return address.hex(":")


def set_up(rules: str | None) -> None:
    add(NAMES)
    ends = (("server", "wired", WIRED_MAC, "10.9.1"), ("client", "mesh", MESH_MAC, "10.9.2"))
    for near, far, address, network in ends:
        run("ip", "link", "add", near, "netns", GENERATOR, "type", "veth", "peer", "name", far, "netns", GATEWAY)
        run("ip", "-n", GATEWAY, "link", "set", far, "address", mac(address), "up")
        run("ip", "-n", GENERATOR, "link", "set", near, "up")
        run("ip", "-n", GATEWAY, "addr", "add", f"{network}.1/24", "dev", far)
        # Nobody has this address: the other end drops packets as soon as it has them.
        run("ip", "-n", GATEWAY, "neigh", "add", f"{network}.2", "lladdr", mac(NOBODY), "dev", far, "nud", "permanent")
    run("ip", "-n", GATEWAY, "route", "add", "10.1.0.0/16", "via", "10.9.2.2")
    run("ip", "-n", GATEWAY, "route", "add", "192.0.2.0/24", "via", "10.9.1.2")
    # It drops what no other device has sent to it.
    run("ip", "-n", GENERATOR, "link", "add", "nowhere", "type", "ifb")
    run("ip", "-n", GENERATOR, "link", "set", "nowhere", "up")
    forward(GATEWAY, "net.ipv4.conf.all.rp_filter=0")
    if rules is not None:
        firewall(GATEWAY, rules)


def checksum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def packet(flow: int, *, to_mesh: bool, flags: int, seq: int, ack: int, payload: int) -> bytes:
    """A segment of a flow, with checksums that are right (those of data leave the payload's zeros out of account)."""
    host, server = bytes((10, 1, 0, 1 + flow % HOSTS)), bytes((192, 0, 2, 1))
    ports = struct.pack("!HH", 443, 10000 + flow // HOSTS)
    source, destination = (server, host) if to_mesh else (host, server)
    if not to_mesh:
        ports = ports[2:] + ports[:2]
    options = b"\2\4\5\xb4\1\3\3\7" if flags & 2 else b""
    words = (20 + len(options)) // 4
    head = ports + struct.pack("!IIBBHHH", seq, ack, words << 4, flags, 502, 0, 0) + options
    length = len(head) + payload
    pseudo = source + destination + struct.pack("!BBH", 0, 6, length)
    head = head[:16] + struct.pack("!H", checksum(pseudo + head)) + head[18:]
    outer = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + length, 0, 0x4000, 64, 6, 0, source, destination)
    outer = outer[:10] + struct.pack("!H", checksum(outer)) + outer[12:]
    ethernet = (WIRED_MAC if to_mesh else MESH_MAC) + NOBODY + b"\x08\0"
    return ethernet + outer + head + bytes(payload)


class Vector(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Message(ctypes.Structure):
    """`struct mmsghdr` with its `struct msghdr`."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("vectors", ctypes.POINTER(Vector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("sent", ctypes.c_uint),
        ("end", ctypes.c_uint),
    )


class Train:
    """Packets that are sent in their order, again and again, without work for each in this program."""

    def __init__(self, packets: list[bytes]) -> None:
        self.buffers = [ctypes.create_string_buffer(data, len(data)) for data in packets]
        self.vectors = (Vector * len(packets))()
        self.messages = (Message * len(packets))()
        for vector, message, buffer in zip(self.vectors, self.messages, self.buffers, strict=True):
            vector.base, vector.length = ctypes.addressof(buffer), len(buffer)
            message.vectors, message.vector_count = ctypes.pointer(vector), 1
        self.next = 0

    def send(self, sock: socket.socket, count: int) -> None:
        while count > 0:
            some = min(count, len(self.messages) - self.next, 1024)
            at = ctypes.byref(self.messages, self.next * ctypes.sizeof(Message))
            sent = LIBC.sendmmsg(sock.fileno(), at, some, 0)
            if sent < 0:
                raise OSError(ctypes.get_errno(), "sendmmsg")
            count -= sent
            self.next = (self.next + sent) % len(self.messages)


LIBC = ctypes.CDLL(None, use_errno=True)


def raw_socket(interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.bind((interface, 0))
    # PACKET_QDISC_BYPASS: the cost of a queue is not that of a gateway.
    sock.setsockopt(263, 20, 1)
    return sock


def generate(flows: int, rate: float) -> None:
    """Obeys lines on standard input: `open`, or `forward SECONDS` and `drop SECONDS`.

    The last two answer with nanoseconds of CPU time a packet and the packets that came through.
    """
    opening = [
        (packet(flow, to_mesh=True, flags=2, seq=0, ack=0, payload=0),
         packet(flow, to_mesh=False, flags=18, seq=0, ack=1, payload=0),
         packet(flow, to_mesh=True, flags=16, seq=1, ack=1, payload=0))
        for flow in range(flows)
    ]  # fmt: skip
    data = Train([packet(flow, to_mesh=True, flags=16, seq=1, ack=1, payload=1460) for flow in range(flows)])
    acks = Train([packet(flow, to_mesh=False, flags=16, seq=1, ack=1, payload=0) for flow in range(flows)])
    server, client, nowhere = (raw_socket(name) for name in ("server", "client", "nowhere"))

    def received() -> int:
        return sum(
            int(Path(f"/sys/class/net/{name}/statistics/rx_packets").read_text()) for name in ("server", "client")
        )

    for line in sys.stdin:
        word, *rest = line.split()
        if word == "open":
            for number, (syn, answer, last) in enumerate(opening):
                server.send(syn)
                client.send(answer)
                server.send(last)
                if number % 100 == 0:
                    time.sleep(0.01)
            print("done", flush=True)
            continue
        to, back = (server, client) if word == "forward" else (nowhere, nowhere)
        before, packets, began = received(), 0, time.monotonic()
        used = time.process_time_ns()
        while time.monotonic() < began + float(rest[0]):
            data.send(to, BURST * 2 // 3)
            acks.send(back, BURST // 3)
            packets += BURST * 2 // 3 + BURST // 3
            due = began + packets / rate
            time.sleep(max(0.0, due - time.monotonic()))
        used = time.process_time_ns() - used
        print(json.dumps({"ns": used / packets, "sent": packets, "received": received() - before}), flush=True)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def measure(program: Path, names: list[str], flows: int, rate: float, rounds: int, seconds: float) -> None:
    me = [sys.executable, str(Path(__file__).resolve()), "--generate", "--flows", str(flows), "--rate", str(rate)]
    generator = subprocess.Popen(inside(GENERATOR, *me), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(line: str) -> str:
        assert generator.stdin is not None and generator.stdout is not None
        generator.stdin.write(line + "\n")
        generator.stdin.flush()
        answer = generator.stdout.readline()
        if not answer:
            raise RuntimeError("the generator has ended")
        return answer

    def cost() -> float:
        answer = json.loads(ask(f"forward {seconds}"))
        if answer["received"] < 0.999 * answer["sent"]:
            raise RuntimeError(f"packets are lost: {answer}")
        return float(answer["ns"])

    def own() -> float:
        return float(json.loads(ask(f"drop {seconds}"))["ns"])

    columns = (
        "CPU a packet | plain | own share | ratio (minimum to maximum) | with own share | programs, a run | daemon"
    )
    print(f"| gateway | {columns} |")
    print("|---|---|---|---|---|---|---|---|")
    ask("open")
    for name in names:
        plain, with_gateway, share, ratios = [], [], [], []
        daemon_share, daemon_memory, run_ns, lost = [], 0.0, [], 0.0
        for _ in range(rounds):
            share.append(own())
            plain.append(cost())
            with tempfile.TemporaryDirectory() as folder:
                config = CONFIG.format(folder=folder, flows=flows, **VARIANTS[name]._asdict())
                try:
                    daemon = Daemon(program, GATEWAY, Path(folder), config)
                except RuntimeError as error:
                    print(f"| {name} | not possible here: {str(error).strip().splitlines()[-1]} |")
                    break
                with daemon:
                    ask("open")
                    pid = daemon.process.pid
                    cpu, before = cpu_seconds(pid), time.monotonic()
                    with_gateway.append(cost())
                    daemon_share.append((cpu_seconds(pid) - cpu) / (time.monotonic() - before))
                    daemon_memory = max(daemon_memory, memory_mb(pid))
                    time.sleep(0.6)
                    counters = daemon.status()["gateways"][0]["counters"]
                    run_ns.append(1e9 * counters["run_s"] / max(counters["runs"], 1))
                    lost += counters["digests_lost"]
            ratios.append((plain[-1] - share[-1]) / (with_gateway[-1] - share[-1]))
        if ratios:
            whole = statistics.median(plain) / statistics.median(with_gateway)
            programs = f"{statistics.median(run_ns):.0f} ns" if max(run_ns) > 0 else "not measured"
            print(
                f"| {name} | {statistics.median(with_gateway):.0f} ns | {statistics.median(plain):.0f} ns "
                f"| {statistics.median(share):.0f} ns "
                f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) "
                f"| {whole:.2f} | {programs} | {100 * statistics.median(daemon_share):.1f} %, "
                f"{daemon_memory:.1f} MB, {lost:.0f} digests lost |",
                flush=True,
            )
    generator.kill()
    generator.wait()


def with_statistics(act: Callable[[], None]) -> None:
    """Lets the kernel measure programs (`kernel.bpf_stats_enabled`), which costs some 20 ns a run."""
    switch = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text()
    switch.write_text("1")
    try:
        act()
    finally:
        switch.write_text(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("target/release/fairhop"))
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--flows", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=20_000, help="packets a second, both directions together")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a measurement")
    parser.add_argument(
        "--firewall", action="store_true", help="forward through a firewall that tracks connections (nftables)"
    )
    parser.add_argument("--statistics", action="store_true", help="time of the programs too; the ratio is lower then")
    parser.add_argument("--generate", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.generate:
        generate(args.flows, args.rate)
        return
    remove(NAMES)
    try:
        set_up(FIREWALL if args.firewall else None)

        def act() -> None:
            measure(args.program.resolve(), args.variants, args.flows, args.rate, args.rounds, args.seconds)

        if args.statistics:
            with_statistics(act)
        else:
            act()
    finally:
        remove(NAMES)


if __name__ == "__main__":
    main()

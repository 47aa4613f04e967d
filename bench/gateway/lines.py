"""Calls and TCP over drawn access lines, without and with the gateway, on Debian's kernel in virtual time.

    server - wan (half of the round trip each way) - gateway - line (two rates, a size of buffer) - client   "mesh"
    server - wan - line - gateway - client                                                                   "internet"

Line 17 of a split is always the same: rates, buffer, round trip, place, calls with their codec, TCP flows in either
direction with their variant, window scale, and whether senders hand several segments to their interface at once. No
capacity is configured. A call's second is good if its MOS is at least 3.6; the first ten seconds do not count. TCP is
given as a part of what the calls leave of its direction of the line.

    python3 bench/gateway/lines.py --program target/release/fairhop --split unseen --count 30 --jobs 2

The way "duplex" is the gateway with `duplex = true` in its config, which says that links of the mesh carry both
directions independently, as these lines do.

With --bursts, packets cross the wide-area network in bursts, as with LTE, cable or Wi-Fi.

The split train was used for development. Results are kept in out/gateway/lines.jsonl by program, so that an interrupted
bench goes on. A line takes about a minute of one processor.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import bottleneck
from bottleneck import SETTLE, judge, start
from kept import Store
from network import Daemon, add, forward, inside, remove, run
from simulator import ROOT, table

FOLDER = Path(__file__).resolve().parent
NAMES = ("fhb-server", "fhb-wan", "fhb-gateway", "fhb-line", "fhb-client")
SERVER, CLIENT = "10.9.0.1", "10.9.3.2"
SECONDS = 40.0
#: What a call takes of a direction of the line, with Ethernet, in bits per second.
CODECS = {"g729a": 8 * 50 * (60 + 14), "g711": 8 * 50 * (200 + 14), "opus": 8 * 50 * (100 + 14)}
#: At most this part of the slower direction is for calls.
CALLS_PART = 0.4
#: A full packet on the wire over the payload of TCP with timestamps.
OVERHEAD = 1514 / 1448
#: Part of the seconds that makes a call good.
GOOD = 0.95


@dataclass(frozen=True)
class Line:
    """Rates in Mb/s, the buffer of each direction in full packets, the round trip beyond the line in ms."""

    split: str
    number: int
    at: str
    down: float
    up: float
    buffer: int
    rtt_ms: int
    calls: int
    codec: str
    downloads: int
    uploads: int
    tcp: str
    gso: bool
    window_scale: int
    #: Packets cross the wide-area network in bursts, half to three halves of this many ms apart; 0 for none.
    bursts_ms: int = 0

    @classmethod
    def drawn(cls, split: str, number: int, has_bursts: bool = False) -> Line:
        def axis(name: str) -> random.Random:
            """Each axis has a stream of its own, so that a new one leaves the others as they are."""
            return random.Random(f"{split}/{number}/{name}")

        down = round(10 ** axis("down").uniform(-0.3, 1.7), 2)
        up = round(max(0.3, down * axis("up").choice([1, 1, 0.5, 0.2])), 2)
        room = CALLS_PART * 1e6 * min(down, up)
        codec = axis("codec").choice(["g729a", "g729a", "g711", "opus"])
        if CODECS[codec] > room:
            codec = "g729a"
        flows = axis("flows")
        kind = flows.choice(["down", "down", "up", "both"])
        return cls(
            split=split,
            number=number,
            at="mesh" if axis("at").random() < 0.6 else "internet",
            down=down,
            up=up,
            buffer=round(10 ** axis("buf").uniform(1.3, 3)),
            rtt_ms=round(10 ** axis("rtt").uniform(0.3, 2)),
            calls=min(max(1, int(room / CODECS[codec])), axis("calls").choice([1, 2, 3, 5, 8, 12])),
            codec=codec,
            downloads=flows.choice([1, 3, 10, 30]) if kind != "up" else 0,
            uploads=flows.choice([1, 3, 10, 30]) if kind != "down" else 0,
            tcp=axis("tcp").choice(["cubic", "cubic", "bbr", "reno"]),
            gso=axis("gso").random() < 0.4,
            window_scale=axis("scale").choice([7, 7, 10]),
            bursts_ms=round(10 ** axis("bursts").uniform(0.6, 1.5)) if has_bursts else 0,
        )

    def flows(self) -> dict[str, int]:
        """Flows by direction."""
        both = {"down": self.downloads, "up": self.uploads}
        return {direction: count for direction, count in both.items() if count}

    def __str__(self) -> str:
        flows = " + ".join(f"{count} {direction}" for direction, count in self.flows().items())
        bursts = f" in bursts of {self.bursts_ms} ms" if self.bursts_ms else ""
        return (
            f"{self.at}, {self.down:g}/{self.up:g} Mb/s, {self.buffer} packets, {self.rtt_ms} ms{bursts}; "
            f"{self.calls} {self.codec}; {flows} {self.tcp}"
        )


def set_up(line: Line) -> None:
    add(NAMES)
    order = list(NAMES)
    if line.at == "internet":
        order[2:4] = order[3:1:-1]
    for place, (left, right) in enumerate(pairwise(order)):
        left_name = "mesh" if left == "fhb-gateway" else "out"
        right_name = "wired" if right == "fhb-gateway" else "in"
        run("ip", "link", "add", left_name, "netns", left, "type", "veth", "peer", "name", right_name, "netns", right)
        for name, device, end in ((left, left_name, 1), (right, right_name, 2)):
            run("ip", "-n", name, "addr", "add", f"10.9.{place}.{end}/24", "dev", device)
            if line.gso and name in (order[0], order[-1]):
                # A sender hands several segments to its interface, which sends them as packets of their own.
                run(*inside(name, "ethtool", "-K", device, "tso", "off", "gso", "on"))
            else:
                run("ip", "-n", name, "link", "set", device, "gso_max_segs", "1")
            run("ip", "-n", name, "link", "set", device, "up")
    for place, name in enumerate(order):
        if 0 < place < len(order) - 1:
            forward(name)
        for network in range(len(order) - 1):
            if network > place:
                run("ip", "-n", name, "route", "add", f"10.9.{network}.0/24", "via", f"10.9.{place}.2")
            elif network < place - 1:
                run("ip", "-n", name, "route", "add", f"10.9.{network}.0/24", "via", f"10.9.{place - 1}.1")
    for device in ("in", "out"):
        delay = ["netem", "delay", f"{line.rtt_ms / 2}ms", "limit", "20000"]
        if line.bursts_ms:
            delay += ["slot", f"{line.bursts_ms / 2}ms", f"{line.bursts_ms * 3 / 2}ms"]
        run("tc", "-n", "fhb-wan", "qdisc", "add", "dev", device, "root", *delay)
    for device, mbps in (("out", line.down), ("in", line.up)):
        # A millisecond at once, as shapers of providers let through, and at least a packet.
        burst = max(1540, round(mbps * 1e6 / 8 * 1e-3))
        shape = ("rate", str(round(mbps * 1e6)), "burst", str(burst), "limit", str(line.buffer * 1514))
        run("tc", "-n", "fhb-line", "qdisc", "add", "dev", device, "root", "tbf", *shape)
    # The window scale follows from the largest buffer of a receiver: 6 MB or 32 MB.
    largest = {7: 6 << 20, 10: 32 << 20}[line.window_scale]
    for name in ("fhb-server", "fhb-client"):
        settings = (f"tcp_congestion_control={line.tcp}", "tcp_no_metrics_save=1", f"tcp_rmem=4096 131072 {largest}")
        run(*inside(name, "sysctl", "-qw", *(f"net.ipv4.{setting}" for setting in settings)))


def measure(line: Line, way: str, program: Path) -> dict[str, Any]:
    me = [sys.executable, str(FOLDER / "bottleneck.py")]
    ends = {"down": ("fhb-server", "fhb-client", CLIENT), "up": ("fhb-client", "fhb-server", SERVER)}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.callback(remove, NAMES)
        set_up(line)
        if way != "none":
            config = bottleneck.CONFIG.format(folder=folder, mode="live", pacing="auto")
            if way == "duplex":
                config = config.replace("[control]\n", "[control]\nduplex = true\n")
            stack.enter_context(Daemon(program, "fhb-gateway", folder, config))
        sinks = {}
        for direction in line.flows():
            _, receiver, address = ends[direction]
            words = ["--sink", address, str(SETTLE), "--seconds", str(SECONDS + 2)]
            sinks[direction] = start(receiver, *me, *words)
        time.sleep(0.5)
        phone = [str(program), "call"]
        answers = start("fhb-client", *phone, "answer", "--bind", CLIENT, "--json")
        time.sleep(0.2)
        words = ["--codec", line.codec, "--count", str(line.calls), "--duration", str(SECONDS), "--json"]
        makes = start("fhb-server", *phone, "make", CLIENT, *words)
        time.sleep(0.3)
        sources = []
        for direction, count in line.flows().items():
            sender, _, address = ends[direction]
            words = ["--source", address, str(count), "--seconds", str(SECONDS + 1)]
            sources.append(start(sender, *me, *words))
        heard = makes.communicate()[0]
        answers.send_signal(signal.SIGINT)
        calls = [call for lines in (heard, answers.communicate()[0]) for call in judge(lines.decode(), SETTLE)]
        kbps = {direction: json.loads(sink.communicate()[0])["kbps"] for direction, sink in sinks.items()}
        for source in sources:
            source.kill()
            source.wait()
    taken = line.calls * CODECS[line.codec] / 1e3
    left = {"down": 1e3 * line.down - taken, "up": 1e3 * line.up - taken}
    return {
        "ends": len(calls),
        "good": sum(call["good"] for call in calls) / sum(call["seconds"] for call in calls),
        "worst": min(call["good"] / call["seconds"] for call in calls),
        "tcp": {direction: OVERHEAD * rate / left[direction] for direction, rate in kbps.items()},
    }


def report(store: Store, lines: list[Line], ways: list[str], kernel: str, jobs: int) -> str:
    def found(one: tuple[Line, str]) -> dict[str, Any]:
        line, way = one
        options = ("--set", "traffic=[]", "--set", "warmup_s=0", "--virtual", "--kernel", kernel, "--host-files")
        command = (sys.executable, "lines.py", "--inside", way, json.dumps(asdict(line)))
        said = store.run("emulate", "k-mix", "--attach", "0", *options, "--", *command)["said"]
        result: dict[str, Any] = json.loads(next(text for text in said.splitlines() if text.startswith('{"ends"')))
        return result

    with ThreadPoolExecutor(jobs) as pool:
        all_ = {way: list(pool.map(found, [(line, way) for line in lines])) for way in ways}

    def cell(of: dict[str, Any]) -> str:
        tcp = ", ".join(f"{direction} {part:.2f}" for direction, part in of["tcp"].items())
        return f"{100 * of['good']:.0f} %, {tcp}"

    rows = [(f"{line.number}: {line}", *(cell(all_[way][at]) for way in ways)) for at, line in enumerate(lines)]
    text = table(("line", *ways), rows)
    sums = []
    for way in ways:
        parts = [part for of in all_[way] for part in of["tcp"].values()]
        good = sum(of["good"] >= GOOD for of in all_[way])
        worst_good = sum(of["worst"] >= GOOD for of in all_[way])
        clear = statistics.fmean(of["good"] for of in all_[way])
        sums.append(
            (
                way,
                f"{good} of {len(lines)}",
                f"{worst_good} of {len(lines)}",
                f"{100 * clear:.1f} %",
                f"{statistics.median(parts):.2f}",
            )
        )
    heads = ("", "calls good", "worst call good", "good seconds", "TCP of a direction, median")
    return text + "\n" + table(heads, sums)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "target" / "release" / "fairhop")
    parser.add_argument("--split", default="unseen", help="train or unseen; any other word is a split of its own")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument(
        "--bursts", action="store_true", help="the way to the server has jitter, as with LTE, cable or Wi-Fi"
    )
    parser.add_argument("--ways", nargs="+", choices=["gateway", "duplex", "none"], default=["none", "gateway"])
    parser.add_argument("--both", action="store_true", help="only lines in the mesh with flows in both directions")
    parser.add_argument("--kernel", default="6.12", help="Debian's kernel of the guest: 5.10, 6.1 or 6.12")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        way, text = args.inside
        print(json.dumps(measure(Line(**json.loads(text)), way, Path(os.environ["FAIRHOP"]))), file=sys.stderr)
        return
    store = Store(args.program.resolve(), ROOT / "out" / "gateway" / "lines.jsonl", FOLDER)
    lines = [Line.drawn(args.split, number, args.bursts) for number in range(args.first, args.first + args.count)]
    if args.both:
        lines = [line for line in lines if line.at == "mesh" and len(line.flows()) == 2]
    print(report(store, lines, args.ways, args.kernel, args.jobs))


if __name__ == "__main__":
    main()

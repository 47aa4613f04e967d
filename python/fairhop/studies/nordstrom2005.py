"""nordstrom2005: E. Nordström, C. Rohner, "Interaction between TCP and UDP flows in wireless multi-hop ad hoc
networks":
claims N-*.

The paper measured on a testbed of 802.11b cards; it names neither rates, nor RTS, nor preamble, nor places. These are
choices of the scenarios: 11 Mb/s, no RTS, long preamble, log-distance loss with exponent 4, and error rates from SINR.
The second link is as weak as N-STATIC needs it; this one number is fitted, and everything else follows from it.

What the paper read from captures is read from captures here: tshark prints fields of the pcapng files of the nodes.
"""

from __future__ import annotations

import dataclasses
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from fairhop.studies.lab import Lab, Result, Sets
from fairhop.studies.model import (
    HEADS,
    Claim,
    Estimate,
    Figure,
    Line,
    Measurement,
    Panel,
    Part,
    Section,
    Study,
    Table,
    line,
    verdict,
)
from fairhop.studies.rows.nordstrom2005 import (
    ABOUT,
    HANDOVER_STALL_S,
    LATE_START_S,
    ON_SECOND_LINK,
    ONE_HOP,
    ONE_HOP_MBPS,
    REASONS,
    ROAMING,
    ROAMING_MBPS,
    ROWS,
    STATIC,
    TITLE,
    TRANSMITTED_MBPS,
)

#: Offered by node 2, in Mb/s.
OFFERED = (0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 10)
#: The paper has five runs of each scenario.
RUNS = 5
#: IP payload of a datagram: 1470 B of data.
DATA_BYTES = 1470
#: Silence in seconds that counts as a stall.
STALL_S = 1.0
#: When the walker of N-ROAM loses the direct link, and the path over node 1; and when it hears node 0 again.
HANDOVERS_S = ((20.0, 38.0), (42.0, 62.0))
INWARD_S = (85.0, 110.0)


# ---- figures of one run ---------------------------------------------------------------------------------------------


def flow(result: Result, name: str) -> Result:
    found: Result = next(flow for flow in result["flows"] if str(flow["name"]).startswith(name))
    return found


def delivery(result: Result) -> float:
    return 1 - float(flow(result, "udp")["loss"])


def tcp_mbps(result: Result) -> float:
    return float(flow(result, "tcp")["goodput_mbps"])


@dataclass(frozen=True)
class Seen:
    """A data frame in a capture: time in seconds, number of the IP packet, sender and receiver as nodes, protocol."""

    at_s: float
    number: int
    sender: int
    receiver: int
    source: str
    is_tcp: bool
    payload: int


FIELDS = ("frame.time_epoch", "ip.id", "wlan.ta", "wlan.ra", "ip.src", "ip.proto", "tcp.len")


def capture(path: Path) -> list[Seen]:
    """The unicast data frames of a node's capture, retries included."""
    fields = [word for field in FIELDS for word in ("-e", field)]
    command = ["tshark", "-r", str(path), "-Y", "ip && !icmp && wlan.ra != ff:ff:ff:ff:ff:ff", "-T", "fields", *fields]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    frames: list[Seen] = []
    for frame in printed:
        at, number, sender, receiver, source, proto, length = frame.split("\t")
        one, other = (int(address.rsplit(":", 1)[1], 16) for address in (sender, receiver))
        frames.append(Seen(float(at), int(number, 16), one, other, source, proto == "6", int(length or 0)))
    return frames


@dataclass(frozen=True)
class Captured:
    """A run with its captures: UDP packets over each link by first arrival, and TCP data at node 0.

    What needs the capture of a node that was not read is empty.
    """

    result: Result
    sent: list[float]
    over_first: list[float]
    over_second: list[float]
    tcp_data: list[float]

    @classmethod
    def of(cls, result: Result, out: Path, read: Sequence[int]) -> Captured:
        """Reads the captures of some nodes from the folder of a run."""
        nodes = [capture(out / "pcap" / f"node-{node}.pcapng") if node in read else [] for node in range(3)]

        def firsts(node: int, sender: int, receiver: int) -> list[float]:
            seen: dict[int, float] = {}
            for frame in nodes[node]:
                ends = (frame.sender, frame.receiver) == (sender, receiver)
                if ends and not frame.is_tcp and frame.source == "10.1.0.2":
                    seen.setdefault(frame.number, frame.at_s)
            return sorted(seen.values())

        data = [frame.at_s for frame in nodes[0] if frame.is_tcp and frame.payload and frame.source == "10.1.0.3"]
        return cls(result, firsts(2, 2, 1), firsts(1, 2, 1), firsts(0, 1, 0), data)


def captured(lab: Lab, scenario: str, sets: Sets = (), read: Sequence[int] = (0, 1, 2)) -> list[Captured]:
    """Runs with the captures of some nodes; tshark takes 13 s for one of 60,000 frames."""
    name = f"captures of {', '.join(map(str, read))}"
    found = lab.few(RUNS).files(
        scenario, sets, ["--pcap"], name, lambda result, out: dataclasses.asdict(Captured.of(result, out, read))
    )
    return [Captured(**one) for one in found]


def gaps(times: Sequence[float], end_s: float) -> list[tuple[float, float]]:
    """Begin and length of each silence of at least a second."""
    edges = [0.0, *times, end_s]
    return [(a, b - a) for a, b in pairwise(edges) if b - a >= STALL_S]


def spread_ms(times: Sequence[float], since_s: float = 0.0, until_s: float = 1e9) -> float:
    """p95 - p50 of the times between packets."""
    chosen = [at for at in times if since_s <= at < until_s]
    between = sorted(b - a for a, b in pairwise(chosen))
    if len(between) < 20:
        return 0.0
    return 1e3 * (between[int(0.95 * len(between))] - statistics.median(between))


def one_row(name: str, seeds: str, found: str, judged: str) -> Claim:
    return Claim(ROWS[name], seeds, [found], [judged])


def seeds_of(lab: Lab) -> str:
    return lab.few(RUNS).seeds_text()


# ---- two hops, UDP --------------------------------------------------------------------------------------------------


def n_static(lab: Lab) -> Section:
    delivered = Estimate.of([delivery(run) for run in lab.run("n-static", ())])
    runs = captured(lab, "n-static", ("warmup_s=0",))
    first = sum(len(run.sent) - len(run.over_first) for run in runs)
    second = sum(len(run.over_first) - len(run.over_second) for run in runs)
    share = second / max(1, first + second)
    enough, there = STATIC.holds(delivered.mean), ON_SECOND_LINK.holds(share)
    found = (
        f"delivery {100 * delivered.mean:.1f} ± {100 * delivered.half:.1f} %; "
        f"{first} packets lost on 2→1, {second} on 1→0"
    )
    static = one_row("N-STATIC", lab.seeds_text(), found, verdict(enough and there, enough or there))
    rows = [
        [str(seed), f"{spread_ms(run.over_first):.1f}", f"{spread_ms(run.over_second):.1f}"]
        for seed, run in zip(lab.seeds, runs, strict=False)
    ]
    heads = ["seed", "2→1: p95 - p50, ms", "1→0"]
    return Section([static], {"N-STATIC: times between UDP packets, from captures": Table(heads, rows)})


def transmitted_mbps(result: Result) -> float:
    """What node 2 gets through its queue, in Mb/s of payload: the paper's transmitted rate."""
    udp = flow(result, "udp")
    dropped = float(result["nodes"][2]["queue_drops"])
    return float(udp["sent_mbps"]) * (1 - dropped / float(udp["sent"]))


def n_cbr(lab: Lab) -> Section:
    rows: list[list[str]] = []
    points: list[tuple[float, float]] = []
    estimates: list[Estimate] = []
    for offered in OFFERED:
        runs = lab.run("n-static", (f"traffic.0.rate_kbps={1000 * offered:g}",))
        sent = Estimate.of([transmitted_mbps(run) for run in runs])
        received = Estimate.of([float(flow(run, "udp")["goodput_mbps"]) for run in runs])
        points.append((sent.mean, received.mean))
        estimates.append(received)
        rows.append([f"{offered:g}", sent.text(), received.text()])
    peak = max(range(len(points)), key=lambda at: points[at][1])
    (sent_at_peak, most), (sent_last, last) = points[peak], points[-1]
    falls = min(received for _, received in points[peak:]) <= 0.8 * most and sent_last > sent_at_peak
    capped = TRANSMITTED_MBPS.holds(max(sent for sent, _ in points))
    found = f"peak of {most:.2f} Mb/s where {sent_at_peak:.2f} are transmitted; {last:.2f} at {sent_last:.2f}"
    claim = one_row("N-CBR", lab.seeds_text(), found, verdict(falls and capped, capped))
    lines = [
        Line("no loss", (0, 5), (0, 5), from_paper=True, dashed=True),
        Line("the paper's peak", (3.5, 3.5), (0, 5), from_paper=True, dashed=True),
        line("received", [sent for sent, _ in points], estimates),
    ]
    figure = Figure(
        "N-CBR: received rate over transmitted rate",
        "Figure 2, with its line of no loss. The text gives the place of the peak, 3.5 Mb/s transmitted, and not its "
        "height.",
        "transmitted by node 2, Mb/s",
        "received by node 0, Mb/s",
        [Panel("", lines)],
    )
    heads = ["offered, Mb/s", "transmitted by node 2", "received by node 0"]
    return Section([claim], {"N-CBR": Table(heads, rows)}, [figure])


# ---- a TCP flow over one hop ----------------------------------------------------------------------------------------


def n_tcp1(lab: Lab) -> Section:
    runs = lab.run("n-tcp1", ())
    udp = Estimate.of([delivery(run) for run in runs])
    tcp = Estimate.of([tcp_mbps(run) for run in runs])
    alone = Estimate.of([delivery(run) for run in lab.run("n-static", ())])
    below = udp.mean < alone.mean
    inside = ONE_HOP.holds(udp.mean) and ONE_HOP_MBPS.holds(tcp.mean)
    found = f"UDP {100 * udp.mean:.1f} ± {100 * udp.half:.1f} %, TCP {tcp.text()} Mb/s"
    return Section([one_row("N-TCP1", lab.seeds_text(), found, verdict(below and inside, below))], {})


def n_jit(lab: Lab) -> Section:
    static = captured(lab, "n-static", ("warmup_s=0",))
    larger = sum(spread_ms(run.over_second) > spread_ms(run.over_first) for run in static)
    walks = captured(lab, "n-tcp1", read=[1])
    # Node 3 comes into contact with node 1 at about 33 s.
    pairs = [(spread_ms(run.over_first, 0, 30), spread_ms(run.over_first, 38, 70)) for run in walks]
    grows = sum(after > before for before, after in pairs)
    holds = (larger > len(static) / 2, grows > len(walks) / 2)
    before, after = (statistics.fmean(pair[k] for pair in pairs) for k in (0, 1))
    found = (
        f"N-STATIC: larger on 1→0 in {larger} of {len(static)} runs; "
        f"N-TCP1: on 2→1 {before:.1f} ms before contact, {after:.1f} after, grows in {grows} of {len(walks)}"
    )
    return Section([one_row("N-JIT", seeds_of(lab), found, verdict(all(holds), any(holds)))], {})


# ---- roaming --------------------------------------------------------------------------------------------------------


def longest(stalls: Sequence[tuple[float, float]], window: tuple[float, float]) -> float:
    return max((length for begin, length in stalls if window[0] <= begin < window[1]), default=0.0)


def n_roam(lab: Lab) -> Section:
    rows: list[list[str]] = []
    claims: list[Claim] = []
    for name, sets in (
        ("HELLO always, no feedback", ()),
        ("with feedback", ("routing.aodv.link_feedback=true",)),
    ):
        runs = captured(lab, "n-roam", sets, read=[0])
        udp = Estimate.of([delivery(run.result) for run in runs])
        tcp = Estimate.of([tcp_mbps(run.result) for run in runs])
        stalls = [gaps(run.tcp_data, 124.0) for run in runs]
        out = [Estimate.of([longest(each, window) for each in stalls]) for window in HANDOVERS_S]
        inward = Estimate.of([longest(each, INWARD_S) for each in stalls])
        silent = [run.over_second[0] if run.over_second else 124.0 for run in runs]
        rows.append([
            name, f"{100 * udp.mean:.1f} ± {100 * udp.half:.1f}", tcp.text(), *(each.text(1) for each in out),
            inward.text(1), ", ".join(f"{at:.1f}" for at in silent),
        ])  # fmt: skip
        if sets:
            continue
        both = all(HANDOVER_STALL_S.holds(each.mean) for each in out)
        smooth = inward.mean < min(each.mean for each in out)
        roam = ROAMING.holds(udp.mean) and ROAMING_MBPS.holds(tcp.mean) and both
        found = f"UDP {100 * udp.mean:.1f} ± {100 * udp.half:.1f} %, TCP {tcp.text()} Mb/s"
        claims.append(one_row("N-ROAM", seeds_of(lab), found, verdict(roam, both)))
        outwards = f"{out[0].mean:.1f} s and {out[1].mean:.1f} s at the handovers outwards"
        found = f"longest silence {outwards}, {inward.mean:.1f} s inwards"
        claims.append(one_row("N-STALL", seeds_of(lab), found, verdict(both and smooth, both)))
        late = [at for at in silent if LATE_START_S.holds(at)]
        found = f"UDP silent for 3 s or more from the start in {len(late)} of {len(silent)} runs"
        claims.append(one_row("N-START", seeds_of(lab), found, verdict(bool(late))))
        static = Estimate.of([delivery(run) for run in lab.run("n-static", ())])
        one = lab.run("n-tcp1", ())
        one_udp, one_tcp = Estimate.of([delivery(run) for run in one]), Estimate.of([tcp_mbps(run) for run in one])

        def above(high: Estimate, low: Estimate) -> bool:
            return high.mean - high.half > low.mean + low.half

        ordered = above(static, one_udp) and above(one_udp, udp) and above(one_tcp, tcp)
        loosely = static.mean > one_udp.mean > udp.mean and one_tcp.mean > tcp.mean
        found = (
            f"delivery {100 * static.mean:.1f} > {100 * one_udp.mean:.1f} > {100 * udp.mean:.1f} %; "
            f"TCP {one_tcp.mean:.2f} > {tcp.mean:.2f}"
        )
        claims.append(one_row("N-ORDER", lab.seeds_text(), found, verdict(ordered, loosely)))
    heads = [
        "AODV", "UDP delivery, %", "TCP, Mb/s", "longest silence of TCP at 20..38 s", "at 42..62 s",
        "inwards, 85..110 s", "first UDP at node 0, s, by seed",
    ]  # fmt: skip
    return Section(claims, {"N-ROAM: from captures": Table(heads, rows)})


STUDY = Study(
    "nordstrom2005",
    'E. Nordström, C. Rohner, "Interaction between TCP and UDP flows in wireless multi-hop ad hoc networks"',
    (
        Part(
            "nordstrom2005",
            TITLE,
            HEADS,
            ROWS,
            (
                Measurement(("N-STATIC",), n_static, 3, needs="tshark"),
                Measurement(("N-CBR",), n_cbr, 3),
                Measurement(("N-TCP1",), n_tcp1, 2),
                Measurement(("N-JIT",), n_jit, 20, needs="tshark"),
                Measurement(("N-ROAM", "N-STALL", "N-START", "N-ORDER"), n_roam, 40, needs="tshark"),
            ),
            ABOUT,
            REASONS,
        ),
    ),
)

"""cai2005: L. Cai, X. Shen, J. W. Mark, J. Pan, "QoS support for multimedia traffic in wireless/IP networks using AIMD
protocols": claims C-*. No 802.11 and so no capture rule: a base station with a channel in slots."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import polars as pl

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
from fairhop.studies.rows.cai2005 import (
    ABOUT,
    BELOW_50,
    LARGE_OUTAGE,
    OUTAGE,
    REASONS,
    ROWS,
    SHARE_FAR_OFF,
    SHARE_OFF,
    TITLE,
    UTILIZATION,
)

#: R and D in slots, and the fraction of packets that may be later than D.
RTT_SLOTS, DELAY_SLOTS, BOUND = 17, 10, 0.01
SLOT_S = 0.005
#: Bytes of an AIMD flow's packet, and of its payload (without the headers of IP and UDP and 12 bytes of AIMD).
PACKET, PAYLOAD = 125, 85
UDP_PAYLOAD = PACKET - 28
TCP_PAYLOAD = 1210
ERRORS = tuple(percent / 100 for percent in range(1, 11))
#: Error rates for which the largest window is searched.
SEARCHED = (0.01, 0.02, 0.04, 0.06, 0.08, 0.1)
#: Seeds of runs with TCP on the backbone, a million packets each.
FEW = 3
#: The link from the base station to the mobile host.
LINK = "wired.links.3"
OPTIMAL = ("--arq", "optimal", "--states", "3", "--memory", "0.35")
#: TCP flows on the backbone. With fewer than 50, each flow's fair share of it is more than a packet per slot.
FLOWS = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
#: Rates of UDP in packets per slot.
UDP_RATES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.1, 1.2)

# ---- figures of one run ---------------------------------------------------------------------------------------------


def flow(result: Result, name: str) -> Result:
    found: Result = next(flow for flow in result["flows"] if flow["name"] == name)
    return found


def per_slot(result: Result, name: str, payload: int) -> float:
    """Packets that a flow delivers per slot."""
    return float(flow(result, name)["goodput_mbps"]) * 1e6 / 8 / payload * SLOT_S


def outage(result: Result, name: str = "aimd-0") -> float:
    return float(flow(result, name)["outage"])


def loss(result: Result, name: str) -> float:
    return float(flow(result, name)["loss"])


def channel(error: float, optimal: bool) -> str:
    memory = "states = 3, memory = 0.35, " if optimal else ""
    arq = "optimal" if optimal else "persistent"
    return f'{LINK}.forward.channel={{ error = {error}, {memory}arq = "{arq}", slot_bytes = {PACKET} }}'


def analysis(lab: Lab, *options: str) -> list[Result]:
    """The rows of `fairhop outage` for 1 to 10 % of errors."""
    rows: list[Result] = lab.fairhop("outage", *options)["rows"]
    return rows


def claim(name: str, lab: Lab, found: str, judged: str) -> Claim:
    return Claim(ROWS[name], lab.seeds_text(), [found], [judged])


# ---- the claims -----------------------------------------------------------------------------------------------------


def c_friend(_: Lab) -> Section:
    worst = max(abs(3 * (1 - beta) / (1 + beta) - alpha) for alpha, beta in ((1.0, 0.5), (0.2, 0.875)))
    found = "AIMD(1, 0.5) and AIMD(0.2, 0.875) satisfy it"
    return Section([Claim(ROWS["C-FRIEND"], "none", [found], [verdict(worst < 1e-12)])], {})


def stage_one(beta: float, buffer: int) -> float:
    """Equation 2: the utilization in stage I."""
    if buffer > (1 - beta) * RTT_SLOTS / beta:
        return 1.0
    return (1 + beta) / 2 + beta * buffer / (2 * RTT_SLOTS)


def utilization(beta: float, buffer: int) -> float:
    """Over a whole cycle of figure 1: stage I of equation 2, and stage II, in which the link is always busy."""
    alpha, r = 3 * (1 - beta) / (1 + beta), RTT_SLOTS
    low = beta * (r + buffer)
    if low >= r:
        return 1.0
    rounds_1 = (r - low) / alpha * r
    rounds_2 = buffer / alpha * (r + buffer / 2)
    return (stage_one(beta, buffer) * rounds_1 + rounds_2) / (rounds_1 + rounds_2)


def column(path: Path, key: str, name: str, value: str) -> list[float]:
    """A column of a trace after the warm-up, of the rows whose `key` is `name`."""
    rows = pl.read_csv(path, schema_overrides={"t_s": pl.Float64, value: pl.Float64}).filter(
        (pl.col(key) == name) & (pl.col("t_s") > WARM_UP_S)
    )
    return rows[value].to_list()


#: Warm-up of `c-util`, in seconds.
WARM_UP_S = 100


def stage_one_of(cwnd: list[float], queue: list[float]) -> float:
    """The link's utilization in stage I, from window and queue sampled once a slot; 1 if the link is never idle.

    In stage I a round is some idle slots and then a window of packets back to back, R slots together. So stage I lasts
    from the first idle slot after a backoff to R - 1 slots after the last one before the next backoff.
    """
    backoffs = [slot for slot, (before, after) in enumerate(pairwise(cwnd), 1) if after < before]
    slots, idle_slots = 0, 0
    for begin, end in pairwise(backoffs):
        idle = [slot for slot in range(begin, end) if queue[slot] == 0]
        if idle:
            slots += idle[-1] - idle[0] + RTT_SLOTS
            idle_slots += len(idle)
    return 1 - idle_slots / slots if slots else 1.0


TRACED = ("--trace", "cwnd", "--trace", "queue", "--trace-interval-ms", f"{1e3 * SLOT_S:g}")


def from_traces(result: Result, out: Path) -> list[float]:
    """Packets per slot of the whole run, and the utilization in stage I."""
    cwnd = column(out / "cwnd.csv", "flow", "aimd-0", "cwnd_packets")
    queue = column(out / "queue.csv", "queue", "bs -> mh", "packets")
    return [per_slot(result, "aimd-0", PAYLOAD), stage_one_of(cwnd, queue)]


#: Buffers of C-UTIL in packets, by β: up to more than the full-use buffer of (1 - β)R/β.
BUFFERS = {0.5: (4, 9, 13, 17, 20), 0.7: (2, 4, 6, 8, 11), 0.875: (1, 2, 3, 6)}


def c_util(lab: Lab) -> Section:
    """The run has nothing random, so one seed is enough. The verdict takes stage I."""
    one = lab.few(1)
    rows: list[list[str]] = []
    off: list[float] = []
    panels: list[Panel] = []
    rises, full = True, True
    for beta, buffers in BUFFERS.items():
        column_1: list[float] = []
        for buffer in buffers:
            # The queue of a link holds the packet that is being sent; B does not.
            sets = (f"traffic.0.beta={beta}", f"wired.links.0.queue.packets={buffer + 1}")
            found, found_1 = one.files("c-util", sets, TRACED, "utilization", from_traces)[0]
            off.append(found_1 / stage_one(beta, buffer) - 1)
            column_1.append(found_1)
            rows.append([
                str(beta), str(buffer), f"{stage_one(beta, buffer):.4f}", f"{found_1:.4f}", f"{100 * off[-1]:+.1f} %",
                f"{utilization(beta, buffer):.4f}", f"{found:.4f}",
            ])  # fmt: skip
        panels.append(
            Panel(
                f"β = {beta}",
                [
                    Line("equation 2", buffers, [stage_one(beta, b) for b in buffers], from_paper=True, dashed=True),
                    Line("stage I", buffers, column_1),
                ],
            )
        )
        rises &= column_1 == sorted(column_1)
        full &= column_1[-1] == 1.0
    worst = max(off, key=abs)
    judged = verdict(abs(worst) <= UTILIZATION, rises and full)
    heads = ["β", "B", "equation 2", "stage I", "off", "whole cycle of figure 1", "whole run"]
    row = claim("C-UTIL", one, f"stage I off by up to {100 * worst:+.1f} %", judged)
    figure = Figure(
        "C-UTIL: use of the link in stage I",
        "Equation 2, which the paper does not draw. The runs have nothing random, so there is no band.",
        "buffer B, packets",
        "fraction of slots in use",
        panels,
    )
    return Section([row], {"C-UTIL": Table(heads, rows)}, [figure])


def largest(lab: Lab, error: float, optimal: bool, start: int, cross: Sets) -> int:
    """The largest rwnd with which at most 1 % of the packets are late, in the mean over seeds."""

    def in_time(rwnd: int) -> bool:
        sets = (channel(error, optimal), f"traffic.0.rwnd_packets={rwnd}", *cross)
        return lab.measure("c-outage", sets, outage).mean <= BOUND

    while start > 1 and not in_time(start):
        start -= 1
    while in_time(start + 1):
        start += 1
    return start


#: Cross traffic: windows of 20 packets, ns-2's default, leave the backbone half empty; without limit TCP fills it; with
#: 100 more flows it is the bottleneck for 30 s.
CROSS: dict[str, Sets] = {
    "light": (),
    "greedy": ("traffic.1.max_window_packets=10000",),
    "heavy": ("traffic.2.count=100", "traffic.2.start_s=30", "traffic.2.stop_s=60"),
}


def c_outage(lab: Lab) -> Section:
    """C-OUTAGE with persistent ARQ and C-OPT with the optimal one."""
    few = lab.few(FEW)
    rows: list[list[str]] = []
    claims: list[Claim] = []
    found: dict[bool, dict[str, list[int]]] = {}
    for optimal in (False, True):
        errors = ("--error", ",".join(map(str, SEARCHED)))
        windows = [int(row["window"]) for row in analysis(lab, *errors, *(OPTIMAL if optimal else ()))]
        found[optimal] = {"analysis": windows}
        for what, cross in CROSS.items():
            found[optimal][what] = [
                largest(few, error, optimal, window, cross) for error, window in zip(SEARCHED, windows, strict=True)
            ]
        arq = "optimal" if optimal else "persistent"
        rows += [[arq, what, *map(str, by_error)] for what, by_error in found[optimal].items()]
    for optimal, name in ((False, "C-OUTAGE"), (True, "C-OPT")):
        of = found[optimal]
        light, heavy = (
            [simulated - window for simulated, window in zip(of[what], of["analysis"], strict=True)]
            for what in ("light", "heavy")
        )
        off = max(map(abs, light))
        less = not optimal or all(o < p for what in of for o, p in zip(of[what], found[False][what], strict=True))
        judged = verdict(off <= 1 and min(heavy) >= 0 and less, off <= 2 and less)
        text = (
            f"light: {of['light'][0]} to {of['light'][-1]} packets, at most {off} from the analysis; "
            f"heavy: {min(heavy):+d} to {max(heavy):+d}"
        )
        if optimal:
            text += "; less than persistent" if less else "; not always less than persistent"
        claims.append(claim(name, few, text, judged))
    heads = ["ARQ", "rwnd", *(f"{100 * e:.0f} %" for e in SEARCHED)]
    percent = [100 * error for error in SEARCHED]
    figure = Figure(
        "C-OUTAGE and C-OPT: the largest window for 1 % of late packets",
        "Figures 3 and 4, light and heavy cross traffic in one panel. The paper's text prints no window; the analysis "
        "is the paper's, computed here. A search finds whole packets, so there is no band.",
        "packet error rate, %",
        "largest rwnd, packets",
        [
            Panel(
                f"{'optimal' if optimal else 'persistent'} ARQ",
                [
                    Line(what, percent, windows, from_paper=what == "analysis", dashed=what == "analysis")
                    for what, windows in found[optimal].items()
                ],
            )
            for optimal in (False, True)
        ],
    )
    return Section(claims, {"C-OUTAGE and C-OPT": Table(heads, rows)}, [figure])


def c_share(lab: Lab) -> Section:
    few = lab.few(FEW)
    rows: list[list[str]] = []
    wireless: list[float] = []
    fair: list[float] = []
    targets: list[Estimate] = []
    means: list[Estimate] = []
    for flows in FLOWS:
        sets = (f"traffic.1.count={flows}",)
        target = few.measure("c-share", sets, lambda result: per_slot(result, "aimd-0", PAYLOAD))

        def mean(result: Result, flows: int = flows) -> float:
            tcp = sum(per_slot(result, f"bulk-{i}", TCP_PAYLOAD) for i in range(flows))
            return (tcp + per_slot(result, "aimd-0", PAYLOAD)) / (flows + 1)

        all_flows = few.measure("c-share", sets, mean)
        late = few.measure("c-share", sets, lambda result: 100 * outage(result))
        rows.append([str(flows), target.text(3), all_flows.text(3), late.text()])
        targets.append(target)
        means.append(all_flows)
        if flows < 50:
            wireless.append(abs(target.mean / BELOW_50.value - 1))
        if flows > 50:
            fair.append(abs(target.mean / all_flows.mean - 1))
    judged = verdict(max(wireless) <= BELOW_50.off and max(fair) <= 0.2, max(wireless) <= 0.2 and max(fair) <= 0.5)
    text = (
        f"under 50 flows within {100 * max(wireless):.0f} % of 0.9; "
        f"over 50 within {100 * max(fair):.0f} % of the mean of all flows"
    )
    row = claim("C-SHARE-BB", few, text, judged)
    heads = ["TCP flows", "AIMD, packets/slot", "mean of all flows", "outage, %"]
    lines = [
        Line("what the wireless link allows", (0, 50), (BELOW_50.value, BELOW_50.value), from_paper=True, dashed=True),
        line("AIMD flow", FLOWS, targets),
        line("mean of all flows", FLOWS, means),
    ]
    figure = Figure(
        "C-SHARE-BB: AIMD beside TCP on the backbone",
        "Figure 5. The text gives 0.9 packets per slot below 50 flows.",
        "TCP flows on the backbone",
        "throughput, packets/slot",
        [Panel("", lines)],
    )
    return Section([row], {"C-SHARE-BB": Table(heads, rows)}, [figure])


def fair_settings(lab: Lab) -> Iterator[tuple[int, str, float, Sets, list[str]]]:
    """Flows, round trips, error, overrides and names of the flows."""
    for flows in (2, 4):
        for rtts in ("85", "85,125"):
            options = ("--flows", str(flows), "--rtt-ms", rtts)
            for error, row in zip(ERRORS, analysis(lab, *options), strict=True):
                near, far = (int(flow["window"]) for flow in row["flows"][:2])
                sets = (
                    f"{LINK}.forward.channel.error={error}",
                    f"{LINK}.queue.packets={row['buffer']}",
                    f"traffic.0.rwnd_packets={near}",
                    f"traffic.1.rwnd_packets={far}",
                    f"traffic.0.count={flows // 2}",
                    f"traffic.1.count={flows // 2}",
                    f"traffic.1.from={'far' if ',' in rtts else 'ch'}",
                )
                names = [f"{name}-{i}" for name in ("near", "far") for i in range(flows // 2)]
                yield flows, rtts, error, sets, names


def c_fair(lab: Lab) -> Section:
    rows: list[list[str]] = []
    uneven: list[float] = []
    late: list[float] = []
    for flows, rtts, error, sets, names in fair_settings(lab):
        results = lab.run("c-fair", sets)
        shares = [Estimate.of([per_slot(result, name, PAYLOAD) for result in results]).mean for name in names]
        worst = max(Estimate.of([outage(result, name) for result in results]).mean for name in names)
        apart = max(abs(share * flows / sum(shares) - 1) for share in shares)
        uneven.append(apart)
        late.append(worst)
        rows.append(
            [
                str(flows),
                rtts,
                f"{100 * error:.0f}",
                " ".join(f"{share:.3f}" for share in shares),
                f"{100 * apart:.1f}",
                f"{100 * worst:.2f}",
            ]
        )
    judged = verdict(
        max(uneven) <= SHARE_OFF and max(late) <= OUTAGE, max(uneven) <= SHARE_FAR_OFF and max(late) <= LARGE_OUTAGE
    )
    text = f"shares within {100 * max(uneven):.0f} % of equal, outage up to {100 * max(late):.2f} %"
    heads = ["flows", "rtts, ms", "error, %", "packets/slot", "from equal, %", "worst outage, %"]
    row = claim("C-FAIR", lab, text, judged)
    return Section([row], {"C-FAIR": Table(heads, rows)})


def c_udp(lab: Lab) -> Section:
    alone = ("traffic.0.count=1", "traffic.1.count=0", f"{LINK}.queue.packets=20")
    in_time = lab.measure("c-udp", alone, lambda r: per_slot(r, "aimd-0", PAYLOAD) * (1 - outage(r)))
    lost = lab.measure("c-udp", alone, lambda r: 100 * loss(r, "aimd-0"))
    missed = lab.measure("c-udp", alone, lambda r: 100 * (1 - (1 - loss(r, "aimd-0")) * (1 - outage(r))))
    rows = [["AIMD, ARQ", "", in_time.text(3), lost.text(), missed.text()]]
    drawn: dict[str, list[tuple[Estimate, Estimate]]] = {}
    less, no_more, lossier, worse = True, True, True, True
    for arq in ("persistent", "none"):
        for rate in UDP_RATES:
            sets = (
                f"{LINK}.forward.channel.arq={arq}",
                f"traffic.1.rate_kbps={rate * UDP_PAYLOAD * 8 / SLOT_S / 1e3:.3f}",
            )
            got = lab.measure("c-udp", sets, lambda r: per_slot(r, "udp-0", UDP_PAYLOAD) * (1 - outage(r, "udp-0")))
            lost_udp = lab.measure("c-udp", sets, lambda r: 100 * loss(r, "udp-0"))
            bad = lab.measure("c-udp", sets, lambda r: 100 * (1 - (1 - loss(r, "udp-0")) * (1 - outage(r, "udp-0"))))
            less &= got.mean < in_time.mean
            no_more &= got.mean - got.half <= in_time.mean + in_time.half
            lossier &= lost_udp.mean >= lost.mean
            worse &= bad.mean > missed.mean
            name = "UDP, ARQ" if arq == "persistent" else "UDP, no ARQ"
            rows.append([name, f"{rate}", got.text(3), lost_udp.text(), bad.text()])
            drawn.setdefault(name, []).append((got, lost_udp))
    judged = verdict(less and worse, no_more and lossier)
    goodput = "lower at every rate" if less else "never higher" if no_more else "higher at some rates"
    text = (
        f"goodput {goodput}, loss {'never lower' if lossier else 'lower at some rates'}, "
        f"lost or late {'more at every rate' if worse else 'less at low rates'}"
    )
    heads = ["", "rate, packets/slot", "in time, packets/slot", "lost, %", "lost or late, %"]
    row = claim("C-UDP", lab, text, judged)
    panels: list[Panel] = []
    for k, (label, aimd) in enumerate((("goodput in time, packets/slot", in_time), ("packets lost, %", lost))):
        ours = [line(name, UDP_RATES, [values[k] for values in of]) for name, of in drawn.items()]
        panels.append(Panel("", [line("AIMD, ARQ", UDP_RATES, [aimd] * len(UDP_RATES)), *ours], label))
    figure = Figure(
        "C-UDP: AIMD against UDP at 10 % of errors",
        "Figure 8. The text gives the loss of UDP without ARQ, 10 %, and no other value.",
        "rate of UDP, packets/slot",
        "",
        panels,
    )
    return Section([row], {"C-UDP": Table(heads, rows)}, [figure])


STUDY = Study(
    "cai2005",
    'L. Cai, X. Shen, J. W. Mark, J. Pan, "QoS support for multimedia traffic in wireless/IP networks using AIMD '
    'protocols"',
    (
        Part(
            "cai2005",
            TITLE,
            HEADS,
            ROWS,
            (
                Measurement(("C-FRIEND",), c_friend, 0),
                Measurement(("C-UTIL",), c_util, 5),
                Measurement(("C-OUTAGE", "C-OPT"), c_outage, 150),
                Measurement(("C-SHARE-BB",), c_share, 40),
                Measurement(("C-FAIR",), c_fair, 6),
                Measurement(("C-UDP",), c_udp, 2),
            ),
            ABOUT,
            REASONS,
        ),
    ),
)

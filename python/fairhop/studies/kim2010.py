"""kim2010: K. Kim, D. Niculescu, S. Hong, "Coexistence of VoIP and TCP in wireless multihop networks"."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise

from fairhop.studies import kim2010_gateway
from fairhop.studies.lab import MOS_GOOD, Lab, Result, Sets, capture, mos, tcp_mbps
from fairhop.studies.model import (
    HEADS_BY_RULE,
    REPRODUCED,
    RULES,
    SHAPE,
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
    named,
    nearest,
    verdict,
    with_verdict,
)
from fairhop.studies.rows.kim2010 import (
    ABOUT,
    ALONE_MBPS,
    BURSTS,
    CALLS,
    CALLS_SUPPORTED,
    DATA_DELAY_MS,
    DATA_KBPS,
    GOOD,
    REASONS,
    ROWS,
    SHARED_MBPS,
    TITLE,
    VOICE_DELAY_MS,
    VOICE_LOSS_PCT,
)

#: More calls than the airtime of a string of four hops allows (`fairhop airtime`).
TOO_MANY_CALLS = 16

ACK_6 = "radio.basic_rates_mbps=[6]"
#: The downloads of k-mix.
BULK_IN_MIX = "traffic.1"


# ---- figures of one run ---------------------------------------------------------------------------------------------


def good_calls(result: Result) -> float:
    """Number of calls whose mean MOS over both directions is good."""
    return float(sum(call["mos"] >= MOS_GOOD for call in result["calls"]))


def voice_loss_pct(result: Result) -> float:
    return 100 * statistics.fmean(float(call["loss"]) for call in result["calls"])


def voice_lost_or_late_pct(result: Result) -> float:
    return 100 * statistics.fmean(float(call["loss"]) + float(call["late"]) for call in result["calls"])


def voice_delay_ms(result: Result) -> float:
    return statistics.fmean(float(call["delay_ms"]) for call in result["calls"])


def data_kbps(result: Result) -> float:
    """Throughput in IP packets of 1500 bytes, as kim2010 counts it; `goodput_mbps` counts their UDP payload."""
    return 1e3 * sum(float(flow["goodput_mbps"]) for flow in result["flows"]) * 1500 / 1472


def data_delay_ms(result: Result) -> float:
    return statistics.fmean(float(flow["delay_ms"]) for flow in result["flows"])


def capacity(
    lab: Lab, scenario: str, sets: Sets, min_calls: int, beyond: int = 0
) -> tuple[list[float], dict[int, Estimate]]:
    """The largest number of calls with a good mean MOS, by seed, and the MOS of every number that was tried.

    Numbers from `min_calls` up are tried until no seed has a good mean, and `beyond` more. Smaller numbers are taken to
    be good.
    """
    largest = dict.fromkeys(lab.seeds, min_calls - 1)
    good = set(lab.seeds)
    tried: dict[int, Estimate] = {}
    for count in range(min_calls, 2 * TOO_MANY_CALLS):
        scores = [mos(result) for result in lab.run(scenario, (*sets, f"traffic.0.count={count}"))]
        tried[count] = Estimate.of(scores)
        good &= {seed for seed, score in zip(lab.seeds, scores, strict=True) if score >= MOS_GOOD}
        largest |= dict.fromkeys(good, count)
        if not good:
            if not beyond:
                break
            beyond -= 1
    return [float(n) for n in largest.values()], tried


# ---- the claims -----------------------------------------------------------------------------------------------------


def k_mos(lab: Lab) -> Section:
    claims = []
    for name, loss, delay in (("K-MOS-1", 0.0, 160), ("K-MOS-2", 0.02, 104)):
        found = float(lab.fairhop("mos", "--codec", "g729a", "--loss", str(loss), "--delay-ms", str(delay))["mos"])
        claims.append(Claim(ROWS[name], "none", [f"{found:.3f}"], [verdict(GOOD.holds(found))], "no radio"))
    return Section(claims, {})


def k_cap_v(lab: Lab) -> Section:
    largest: list[Estimate] = []
    scores: list[dict[int, Estimate]] = []
    for rule in RULES:
        n, tried = capacity(lab, "k-calls", (capture(rule),), 6, beyond=1)
        largest.append(Estimate.of(n))
        scores.append(tried)
    verdicts = [verdict(CALLS.holds(n.mean), cliff(s)) for n, s in zip(largest, scores, strict=True)]
    counts = range(max(1, min(math.floor(n.mean) for n in largest) - 1), max(max(s) for s in scores) + 1)
    rows = [
        [f"`{rule}`", *(s[c].text() if c in s else "" for c in counts)] for rule, s in zip(RULES, scores, strict=True)
    ]
    found = [f"{n.text(1)} calls" for n in largest]
    claim = Claim(ROWS["K-CAP-V"], lab.seeds_text(), found, verdicts, nearest([n.mean for n in largest], 11))
    return Section([claim], {"K-CAP-V": Table(["mean MOS, calls alone", *(str(c) for c in counts)], rows)})


def cliff(scores: dict[int, Estimate]) -> bool:
    """From good to worse than 3 within two calls."""
    return any(scores[n].mean >= MOS_GOOD and scores[n + 2].mean < 3.0 for n in scores if n + 2 in scores)


#: The paper's Internet delay of 30 ms has two readings.
READINGS: tuple[tuple[str, Sets], ...] = (("30 ms one way", ()), ("30 ms round trip", ("internet.delay_ms=15",)))


def k_cap_t(lab: Lab) -> Section:
    claims = []
    for reading, sets in READINGS:
        found = [lab.measure("k-tcp", (capture(rule), *sets), tcp_mbps) for rule in RULES]
        verdicts = [verdict(ALONE_MBPS.holds(f.mean)) for f in found]
        texts = [f"{f.text()} Mb/s ({100 * (f.mean / ALONE_MBPS.value - 1):+.0f} %)" for f in found]
        points = nearest([f.mean for f in found], ALONE_MBPS.value)
        claims.append(Claim(ROWS["K-CAP-T"], lab.seeds_text(), texts, verdicts, points, f", {reading}"))
    return Section(claims, {})


def k_mix(lab: Lab) -> Section:
    score = [lab.measure("k-mix", (capture(rule),), mos) for rule in RULES]
    tcp = [lab.measure("k-mix", (capture(rule),), tcp_mbps) for rule in RULES]
    alone = [lab.measure("k-tcp", (capture(rule),), tcp_mbps) for rule in RULES]
    verdicts = [
        verdict(m.mean < 2 and SHARED_MBPS.holds(t.mean), m.mean < MOS_GOOD and t.mean <= 0.75 * a.mean)
        for m, t, a in zip(score, tcp, alone, strict=True)
    ]
    found = [
        f"MOS {m.text()}, {t.text()} Mb/s ({100 * t.mean / a.mean:.0f} % of K-CAP-T)"
        for m, t, a in zip(score, tcp, alone, strict=True)
    ]
    under_2 = named([rule for rule, m in zip(RULES, score, strict=True) if m.mean < 2])
    points = f"MOS: {under_2}; TCP: {nearest([t.mean for t in tcp], SHARED_MBPS.value)}"
    return Section([Claim(ROWS["K-MIX"], lab.seeds_text(), found, verdicts, points)], {})


#: Columns of table 1: the paper's values by burst length, ours, digits, and the sign of the change.
TABLE_1: tuple[tuple[str, tuple[float, ...], Callable[[Result], float], int, int], ...] = (
    ("VoIP loss, %", VOICE_LOSS_PCT, voice_loss_pct, 2, 1),
    ("VoIP delay, ms", VOICE_DELAY_MS, voice_delay_ms, 1, 1),
    ("data, kb/s", DATA_KBPS, data_kbps, 0, -1),
    ("data delay, ms", DATA_DELAY_MS, data_delay_ms, 1, 1),
)
OF_FIVE = "of five calls, good"


def monotone(columns: Sequence[list[float]], way: int) -> bool:
    """Whether the change from the first column to the last has the paper's sign, beyond its confidence interval, and no
    step between columns has the other sign, beyond its own.

    Differences are taken seed by seed: a seed has the same call phases at every burst length.
    """

    def step(a: list[float], b: list[float]) -> Estimate:
        return Estimate.of([way * (y - x) for x, y in zip(a, b, strict=True)])

    steps = [step(a, b) for a, b in pairwise(columns)]
    whole = step(columns[0], columns[-1])
    return whole.mean > whole.half and all(s.mean >= -s.half for s in steps)


def k_burst(lab: Lab) -> Section:
    """Table 1 under each rule, and with ACKs at 6 Mb/s, which has no part in the verdict.

    The calls supported are counted in three ways: of the five offered, those with a good mean MOS; of the five, those
    whose worse direction is good; and the number that can be offered with a good mean MOS. The verdict takes the first
    and requires the third to fall too.
    """
    extra: tuple[tuple[str, Callable[[Result], float], int], ...] = (
        ("VoIP lost or late, %", voice_lost_or_late_pct, 2),
        ("MOS of five calls", mos, 2),
        (OF_FIVE, good_calls, 1),
        ("of five, worse direction good", lambda result: float(result["totals"]["calls_ok"]), 1),
    )
    rows = [[name, "kim2010", *(f"{v:g}" for v in paper)] for name, paper, *_ in TABLE_1]
    rows.append([OF_FIVE, "kim2010", *(str(n) for n in CALLS_SUPPORTED)])
    found: list[str] = []
    verdicts: list[str] = []
    off: list[float] = []
    drawn: dict[str, list[Line]] = {
        name: [Line("kim2010, table 1", BURSTS, paper, from_paper=True)] for name, paper, *_ in TABLE_1
    }
    settings: list[tuple[str, Sets]] = [(f"`{rule}`", (capture(rule),)) for rule in RULES]
    settings.append(("`none`, ACKs at 6 Mb/s", (capture("none"), ACK_6)))
    for setting, base in settings:
        sets = [(*base, f"traffic.1.burst_packets={b}") for b in BURSTS]
        within, shape, worst = [], [], []
        for name, paper, figure, digits, way in TABLE_1:
            columns = [lab.by_seed("k-burst", s, figure) for s in sets]
            means = [Estimate.of(c) for c in columns]
            rows.append([name, setting, *(m.text(digits) for m in means)])
            drawn[name].append(line(setting.replace("`", ""), BURSTS, means))
            ratios = [m.mean / p - 1 for m, p in zip(means, paper, strict=True)]
            worst.append(max(abs(r) for r in ratios))
            within.append(worst[-1] <= 0.3)
            shape.append(monotone(columns, way))
        for name, figure, digits in extra:
            rows.append([name, setting, *(lab.measure("k-burst", s, figure).text(digits) for s in sets)])
        good = [lab.by_seed("k-burst", s, good_calls) for s in sets]
        offered = [capacity(lab, "k-burst", s, 3)[0] for s in sets]
        rows.append(["calls that can be offered", setting, *(Estimate.of(n).text(1) for n in offered)])
        shape.append(monotone(good, -1) and monotone(offered, -1))
        near = all(abs(Estimate.of(g).mean - n) <= 1 for g, n in zip(good, CALLS_SUPPORTED, strict=True))
        holds = all(within) and near
        verdicts.append(verdict(all(shape) and holds, all(shape)))
        off.append(statistics.fmean(worst))
        found.append(
            f"{sum(shape)} of 5 columns monotone, {sum(within)} of 4 within 30 % (worst {100 * max(worst):.0f} %), "
            f"{Estimate.of(good[0]).mean:.1f} to {Estimate.of(good[-1]).mean:.1f} calls"
        )
    n = len(RULES)
    points = named([RULES[off.index(min(off[:n]))]])
    claim = Claim(ROWS["K-BURST"], lab.seeds_text(), found[:n], verdicts[:n], points)
    order = list(dict.fromkeys(row[0] for row in rows))
    rows.sort(key=lambda row: order.index(row[0]))
    drawing = Figure(
        "K-BURST: calls and data by burst length",
        "Table 1, a panel for each of its columns with a unit.",
        "packets in a burst",
        "",
        [Panel("", lines, name) for name, lines in drawn.items()],
    )
    return Section([claim], {"K-BURST": Table(["", "", *(f"burst {b}" for b in BURSTS)], rows)}, [drawing])


#: The five of figure 4, and two more for comparison: today's Westwood, and a variant younger than the paper.
TCP_VARIANTS = ("reno", "vegas", "westwood", "cubic", "compound")
MORE_VARIANTS = ("westwood-plus", "bbr")
COUNTS = (1, 2, 3, 5, 7, 10)
FEW = 3


def variant_sets(rule: str, tcp: str, calls: int) -> Sets:
    return (capture(rule), f"traffic.0.count={calls}", f"{BULK_IN_MIX}.tcp={tcp}")


def useful(result: Result) -> float:
    """goodput/sent of all downloads."""
    return tcp_mbps(result) / sum(float(flow["sent_mbps"]) for flow in result["flows"])


def tcp_loss_pct(result: Result) -> float:
    """Loss of the downloads' segments, retransmissions included."""
    sent = sum(float(flow["sent"]) for flow in result["flows"])
    return 100 * sum(float(flow["loss"]) * float(flow["sent"]) for flow in result["flows"]) / sent


def k_var(lab: Lab) -> Section:
    """Figure 4: three downloads of each variant beside 1 to 10 calls.

    K-VAR-2 has four parts. Vegas has the best MOS and the best goodput, as means over up to FEW calls. With ten calls
    each variant loses more of its packets than with one, and the mean MOS over the variants is higher. The claim is an
    ordering, so all parts hold or it differs.
    """
    kinds: tuple[tuple[Callable[[Result], float], int], ...] = (
        (mos, 2),
        (tcp_mbps, 2),
        (useful, 2),
        (tcp_loss_pct, 1),
    )
    widest = [0.0] * len(kinds)
    found: tuple[list[str], list[str], list[str]] = ([], [], [])
    verdicts: tuple[list[str], list[str], list[str]] = ([], [], [])
    rows = []
    panels: tuple[list[Panel], list[Panel]] = ([], [])
    for rule in RULES:
        drawn: tuple[list[Line], list[Line]] = ([], [])

        def mean(figure: Callable[[Result], float], tcp: str, *calls: int, rule: str = rule) -> float:
            return statistics.fmean(lab.measure("k-mix", variant_sets(rule, tcp, n), figure).mean for n in calls)

        for tcp in (*TCP_VARIANTS, *MORE_VARIANTS):
            cells = []
            by_count: list[list[Estimate]] = []
            for n in COUNTS:
                figures = [lab.measure("k-mix", variant_sets(rule, tcp, n), figure) for figure, _ in kinds]
                by_count.append(figures)
                widest = [max(w, f.half) for w, f in zip(widest, figures, strict=True)]
                cells.append(", ".join(f"{f.mean:.{d}f}" for f, (_, d) in zip(figures, kinds, strict=True)))
            rows.append([f"`{rule}`", f"`{tcp}`", *cells])
            for lines, values in zip(drawn, list(zip(*by_count, strict=True))[:2], strict=True):
                lines.append(line(tcp, COUNTS, list(values)))
        for of_rule, lines in zip(panels, drawn, strict=True):
            of_rule.append(Panel(f"capture: {rule}", lines))

        at_most = {tcp: mean(mos, tcp, COUNTS[-1]) for tcp in TCP_VARIANTS}
        low, high = min(at_most.values()), max(at_most.values())
        found[0].append(f"MOS {low:.2f} to {high:.2f}")
        verdicts[0].append(verdict(high < 3, high < MOS_GOOD))

        few = [n for n in COUNTS if n <= FEW]
        best = [max((mean(figure, tcp, *few), tcp) for tcp in TCP_VARIANTS)[1] for figure in (mos, tcp_mbps)]
        lost = [(mean(tcp_loss_pct, tcp, COUNTS[0]), mean(tcp_loss_pct, tcp, COUNTS[-1])) for tcp in TCP_VARIANTS]
        more_lost = sum(many > one for one, many in lost)
        first, last = (statistics.fmean(mean(mos, tcp, n) for tcp in TCP_VARIANTS) for n in (COUNTS[0], COUNTS[-1]))
        parts = [best[0] == "vegas", best[1] == "vegas", more_lost == len(TCP_VARIANTS), last > first]
        of_best = mean(tcp_mbps, "vegas", *few) / mean(tcp_mbps, best[1], *few)
        found[1].append(
            f"best MOS `{best[0]}`, best goodput `{best[1]}` (Vegas {100 * of_best:.0f} % of it); {more_lost} of 5 "
            f"lose more with more calls; MOS {first:.2f} to {last:.2f}"
        )
        verdicts[1].append(verdict(all(parts)))

        share = {tcp: mean(useful, tcp, *COUNTS) for tcp in TCP_VARIANTS}
        worst = min(share, key=lambda tcp: share[tcp])
        found[2].append(f"{share['westwood']:.2f}; worst `{worst}`, {share[worst]:.2f}")
        is_worst = worst == "westwood"
        verdicts[2].append(verdict(is_worst and abs(share["westwood"] - 0.5) <= 0.1, is_worst))
    claims = [
        Claim(ROWS[f"K-VAR-{i + 1}"], lab.seeds_text(), found[i], verdicts[i],
              with_verdict(verdicts[i], REPRODUCED, SHAPE))
        for i in range(3)
    ]  # fmt: skip
    intervals = ", ".join(f"{w:.{d}f}" for w, (_, d) in zip(widest, kinds, strict=True))
    legend = f"MOS, TCP in Mb/s, goodput/sent, TCP packets lost in %; the widest intervals are ± {intervals}."
    heads = ["rule", "tcp", *(f"{n} call{'s' * (n > 1)}" for n in COUNTS)]
    form = "Figure 4, {}: three downloads of each variant beside the calls. The paper's text has no value of a curve"
    drawings = [
        Figure(
            "K-VAR: call quality with different types of TCP", form.format("left") + ", only MOS < 3 with ten calls.",
            "calls", "MOS", panels[0],
        ),
        Figure("K-VAR: TCP goodput", form.format("right") + ".", "calls", "TCP goodput, Mb/s", panels[1]),
    ]  # fmt: skip
    return Section(claims, {"K-VAR": Table(heads, rows, legend)}, drawings)


#: Settings that the paper leaves open: name, overrides of calls alone, of TCP alone, of both together.
PREAMBLE = "radio.propagation.preamble_m=250"
VARIANTS: tuple[tuple[str, Sets, Sets, Sets], ...] = (
    ("as the scenarios are", (), (), ()),
    ("ACKs at 6 Mb/s instead of 12", (ACK_6,), (ACK_6,), (ACK_6,)),
    ("frames from two hops off never lock (no EIFS)", (PREAMBLE,), (PREAMBLE,), (PREAMBLE,)),
    ("TCP: an ACK a segment", (), ("traffic.0.delayed_ack_segments=1",), (f"{BULK_IN_MIX}.delayed_ack_segments=1",)),
    ("TCP: window grows by bytes", (), ("traffic.0.byte_counting=true",), (f"{BULK_IN_MIX}.byte_counting=true",)),
    ("TCP: window of 20", (), ("traffic.0.max_window_packets=20",), (f"{BULK_IN_MIX}.max_window_packets=20",)),
    ("RTS and CTS for every frame", *(("mac.rts_threshold_bytes=0",),) * 3),
)  # fmt: skip


def open_settings(lab: Lab) -> Section:
    rows = []
    for name, calls, tcp, mix in VARIANTS:
        for rule in RULES:
            calls_alone = (
                Estimate.of(capacity(lab, "k-calls", (capture(rule), *calls), 4)[0])
                if calls or not (tcp or mix)
                else None
            )
            alone = lab.measure("k-tcp", (capture(rule), *tcp), tcp_mbps)
            score = lab.measure("k-mix", (capture(rule), *mix), mos)
            shared = lab.measure("k-mix", (capture(rule), *mix), tcp_mbps)
            calls_text = calls_alone.text(1) if calls_alone else ""
            rows.append([name, f"`{rule}`", calls_text, alone.text(), score.text(), shared.text()])
    heads = ["", "rule", "K-CAP-V, calls", "K-CAP-T, Mb/s", "K-MIX, MOS", "K-MIX, Mb/s"]
    rows.insert(0, ["kim2010", "", "11", "1.35", "< 2", "0.84"])
    return Section([], {"What the paper leaves open": Table(heads, rows)})


#: Ways to give priority to calls: name, overrides of k-prio.
PRIORITIES: tuple[tuple[str, Sets], ...] = (
    ("without TCP", ("traffic.1.count=0",)),
    ("strict priority", ()),
    ("EDCA", ("mac.queue={packets=50}", "mac.edca=true")),
    ("neither", ("mac.queue={packets=50}",)),
)


def max_calls(lab: Lab, sets: Sets) -> int:
    """The largest number of calls with a good mean MOS, found by doubling and halving: fewer calls are never worse."""

    def good(count: int) -> bool:
        return lab.measure("k-prio", (*sets, f"traffic.0.count={count}"), mos).mean >= MOS_GOOD

    low, high = 0, 1
    while good(high):
        low, high = high, 2 * high
    while high - low > 1:
        count = (low + high) // 2
        low, high = (count, high) if good(count) else (low, count)
    return low


PROTECTED = ("strict priority", "EDCA")


def k_prio(lab: Lab) -> Section:
    """One download beside the calls, over 1 to 4 hops.

    Reproduced: under strict priority and under EDCA 10 to 30 % of the calls that the string carries alone at one and
    two hops, and none from three on. Same shape: some at one and two hops and none from three on.
    """
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    panels: list[Panel] = []
    for rule in RULES:
        calls: dict[str, list[int]] = {}
        for name, sets in PRIORITIES:
            ends = [(f"topology.hops={h}", f"traffic.0.to={h}", f"traffic.1.to={h}") for h in range(1, 5)]
            calls[name] = [max_calls(lab, (capture(rule), *sets, *end)) for end in ends]
            rows.append([f"`{rule}`", name, *map(str, calls[name])])
        shares = {
            name: [n / max(1, alone) for n, alone in zip(calls[name], calls["without TCP"], strict=True)]
            for name in PROTECTED
        }
        edge = all(min(calls[name][:2]) > 0 and max(calls[name][2:]) == 0 for name in PROTECTED)
        fifth = all(0.1 <= share <= 0.3 for name in PROTECTED for share in shares[name][:2])
        verdicts.append(verdict(edge and fifth, edge))
        paper = Line("kim2010", (1, 2, 3, 4), (20, 20, 0, 0), from_paper=True)
        ours = [Line(name, (1, 2, 3, 4), [100 * share for share in shares[name]]) for name in PROTECTED]
        panels.append(Panel(f"capture: {rule}", [paper, *ours]))
        shown = (f"{name} {' '.join(f'{100 * share:.0f}' for share in shares[name])} %" for name in PROTECTED)
        found.append(f"1 to 4 hops: {', '.join(shown)}")
    claim = Claim(ROWS["K-PRIO"], lab.seeds_text(), found, verdicts, with_verdict(verdicts, REPRODUCED, SHAPE))
    heads = ["rule", "calls with MOS ≥ 3.6", *(f"{h} hop{'s' * (h > 1)}" for h in range(1, 5))]
    figure = Figure(
        "K-PRIO: calls that priority protects",
        "The paper gives this in its text, without a figure. A search finds whole calls, so there is no band.",
        "hops",
        "calls, % of those alone",
        panels,
    )
    return Section([claim], {"K-PRIO": Table(heads, rows)}, [figure])


STUDY = Study(
    "kim2010",
    'K. Kim, D. Niculescu, S. Hong, "Coexistence of VoIP and TCP in wireless multihop networks"',
    (
        Part(
            "kim2010",
            TITLE,
            HEADS_BY_RULE,
            ROWS,
            (
                Measurement(("K-MOS-1", "K-MOS-2"), k_mos, 0.1),
                Measurement(("K-CAP-V",), k_cap_v, 5),
                Measurement(("K-CAP-T",), k_cap_t, 2),
                Measurement(("K-MIX",), k_mix, 1),
                Measurement(("K-BURST",), k_burst, 30),
                Measurement(("K-VAR-1", "K-VAR-2", "K-VAR-3"), k_var, 40),
                Measurement(("K-PRIO",), k_prio, 40),
                Measurement(("K-OPEN",), open_settings, 20),
            ),
            ABOUT,
            REASONS,
        ),
        kim2010_gateway.PART,
    ),
)

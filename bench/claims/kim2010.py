"""kim2010: K. Kim, D. Niculescu, S. Hong, "Coexistence of VoIP and TCP in wireless multihop networks"."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise

from lab import DIFFERS, REPRODUCED, RULES, SHAPE, Claim, Estimate, Lab, capture, mos, named, nearest, summary
from simulator import MOS_GOOD, Result, Sets, fairhop, table, tcp_mbps

#: No string of four hops carries this many calls by its airtime (`fairhop airtime`).
MOST_CALLS = 16

ACK_6 = "radio.basic_rates_mbps=[6]"
#: The downloads of k-mix.
BULK_IN_MIX = "traffic.1"


# ---- figures of one run ---------------------------------------------------------------------------------------------


def good_calls(result: Result) -> float:
    """Calls whose mean MOS over both directions is good."""
    return float(sum(call["mos"] >= MOS_GOOD for call in result["calls"]))


def voice_loss_pct(result: Result) -> float:
    return 100 * statistics.fmean(float(call["loss"]) for call in result["calls"])


def voice_unheard_pct(result: Result) -> float:
    return 100 * statistics.fmean(float(call["loss"]) + float(call["late"]) for call in result["calls"])


def voice_delay_ms(result: Result) -> float:
    return statistics.fmean(float(call["delay_ms"]) for call in result["calls"])


def data_kbps(result: Result) -> float:
    """kim2010 counts IP packets of 1500 bytes, goodput their UDP payload."""
    return 1e3 * sum(float(flow["goodput_mbps"]) for flow in result["flows"]) * 1500 / 1472


def data_delay_ms(result: Result) -> float:
    return statistics.fmean(float(flow["delay_ms"]) for flow in result["flows"])


def capacity(
    lab: Lab, scenario: str, sets: Sets, least: int, beyond: int = 0
) -> tuple[list[float], dict[int, Estimate]]:
    """Most calls with a good mean MOS, by seed, and the MOS of every number of calls that was tried.

    Calls are added from `least` on until no seed has a good mean left, and `beyond` more; fewer than `least` are taken
    to be good.
    """
    best = dict.fromkeys(lab.seeds, least - 1)
    alive = set(lab.seeds)
    tried: dict[int, Estimate] = {}
    for count in range(least, 2 * MOST_CALLS):
        scores = [mos(result) for result in lab.run(scenario, (*sets, f"traffic.0.count={count}"))]
        tried[count] = Estimate.of(scores)
        alive &= {seed for seed, score in zip(lab.seeds, scores, strict=True) if score >= MOS_GOOD}
        best |= dict.fromkeys(alive, count)
        if not alive:
            if not beyond:
                break
            beyond -= 1
    return [float(n) for n in best.values()], tried


# ---- the claims -----------------------------------------------------------------------------------------------------


def k_mos() -> list[Claim]:
    out = []
    for name, loss, delay in (("K-MOS-1", 0.0, 160), ("K-MOS-2", 0.02, 104)):
        found = float(fairhop("mos", "--codec", "g729a", "--loss", str(loss), "--delay-ms", str(delay))["mos"])
        verdict = REPRODUCED if abs(found - 3.6) <= 0.02 else DIFFERS
        paper = f"MOS 3.6 at {100 * loss:.0f} % loss, {delay} ms"
        out.append(Claim(name, paper, [f"{found:.3f}"], [verdict], "no radio"))
    return out


def k_cap_v(lab: Lab) -> tuple[Claim, str]:
    most: list[Estimate] = []
    scores: list[dict[int, Estimate]] = []
    for rule in RULES:
        n, tried = capacity(lab, "k-calls", (capture(rule),), 6, beyond=1)
        most.append(Estimate.of(n))
        scores.append(tried)
    verdicts = [
        REPRODUCED if 9.5 <= n.mean <= 12.5 else SHAPE if cliff(s) else DIFFERS
        for n, s in zip(most, scores, strict=True)
    ]
    counts = range(max(1, min(math.floor(n.mean) for n in most) - 1), max(max(s) for s in scores) + 1)
    rows = [
        [f"`{rule}`", *(s[c].text() if c in s else "" for c in counts)] for rule, s in zip(RULES, scores, strict=True)
    ]
    claim = Claim(
        "K-CAP-V", "11 calls", [f"{n.text(1)} calls" for n in most], verdicts, nearest([n.mean for n in most], 11)
    )
    return claim, table(["mean MOS, calls alone", *(str(c) for c in counts)], rows)


def cliff(scores: dict[int, Estimate]) -> bool:
    """From good to worse than 3 within two calls."""
    return any(scores[n].mean >= MOS_GOOD and scores[n + 2].mean < 3.0 for n in scores if n + 2 in scores)


def k_cap_t(lab: Lab) -> tuple[Claim, list[Estimate]]:
    found = [lab.measure("k-tcp", (capture(rule),), tcp_mbps) for rule in RULES]
    verdicts = [REPRODUCED if abs(f.mean / 1.35 - 1) <= 0.2 else DIFFERS for f in found]
    claim = Claim(
        "K-CAP-T", "1.35 Mb/s", [f"{f.text()} Mb/s" for f in found], verdicts, nearest([f.mean for f in found], 1.35)
    )
    return claim, found


def k_mix(lab: Lab, alone: list[Estimate]) -> Claim:
    """Holds when MOS < 3 and TCP well under K-CAP-T: at most three quarters of it (the paper: 62 %)."""
    score = [lab.measure("k-mix", (capture(rule),), mos) for rule in RULES]
    tcp = [lab.measure("k-mix", (capture(rule),), tcp_mbps) for rule in RULES]
    verdicts = [
        REPRODUCED
        if m.mean < 3 and t.mean <= 0.75 * a.mean
        else SHAPE
        if m.mean < MOS_GOOD and t.mean < a.mean
        else DIFFERS
        for m, t, a in zip(score, tcp, alone, strict=True)
    ]
    found = [
        f"MOS {m.text()}, {t.text()} Mb/s ({100 * t.mean / a.mean:.0f} % of K-CAP-T)"
        for m, t, a in zip(score, tcp, alone, strict=True)
    ]
    under_2 = named([rule for rule, m in zip(RULES, score, strict=True) if m.mean < 2])
    points = f"MOS: {under_2}; TCP: {nearest([t.mean for t in tcp], 0.84)}"
    return Claim("K-MIX", "MOS < 2, 0.84 Mb/s (62 % of K-CAP-T)", found, verdicts, points)


#: kim2010, Table 1, by burst length.
TABLE_1: tuple[tuple[str, tuple[float, ...], Callable[[Result], float], int, int], ...] = (
    ("VoIP loss, %", (0.92, 1.26, 1.44, 1.64, 2.06), voice_loss_pct, 2, 1),
    ("VoIP delay, ms", (13, 16, 17, 19, 21), voice_delay_ms, 1, 1),
    ("data, kb/s", (509, 501, 495, 488, 476), data_kbps, 0, -1),
    ("data delay, ms", (15, 19, 23, 26, 31), data_delay_ms, 1, 1),
)
CALLS_SUPPORTED = (5, 5, 4, 4, 3)
BURSTS = (1, 2, 3, 4, 5)
OF_FIVE = "of five calls, good"


def monotone(columns: Sequence[list[float]], way: int) -> bool:
    """The paper's direction from the first length to the last beyond the confidence interval, and no step against it
    beyond its own. Differences are taken seed by seed: a seed has the same call phases at every length."""

    def step(a: list[float], b: list[float]) -> Estimate:
        return Estimate.of([way * (y - x) for x, y in zip(a, b, strict=True)])

    steps = [step(a, b) for a, b in pairwise(columns)]
    whole = step(columns[0], columns[-1])
    return whole.mean > whole.half and all(s.mean >= -s.half for s in steps)


def k_burst(lab: Lab) -> tuple[Claim, str]:
    """Table 1 under each rule, and once more with ACKs at 6 Mb/s, which has no part in the verdict.

    Calls supported, three ways: of the five offered, those with a good mean MOS; those whose worse direction is
    good; and how many could be offered with a good mean MOS. The verdict takes the first, and the last must fall too.
    """
    extra: tuple[tuple[str, Callable[[Result], float], int], ...] = (
        ("VoIP lost or late, %", voice_unheard_pct, 2),
        ("MOS of five calls", mos, 2),
        (OF_FIVE, good_calls, 1),
        ("of five, worse direction good", lambda result: float(result["totals"]["calls_ok"]), 1),
    )
    rows = [[name, "kim2010", *(f"{v:g}" for v in paper)] for name, paper, *_ in TABLE_1]
    rows.append([OF_FIVE, "kim2010", *(str(n) for n in CALLS_SUPPORTED)])
    found: list[str] = []
    verdicts: list[str] = []
    off: list[float] = []
    settings: list[tuple[str, Sets]] = [(f"`{rule}`", (capture(rule),)) for rule in RULES]
    settings.append(("`none`, ACKs at 6 Mb/s", (capture("none"), ACK_6)))
    for setting, base in settings:
        sets = [(*base, f"traffic.1.burst_packets={b}") for b in BURSTS]
        within, shape, worst = [], [], []
        for name, paper, figure, digits, way in TABLE_1:
            columns = [lab.by_seed("k-burst", s, figure) for s in sets]
            means = [Estimate.of(c) for c in columns]
            rows.append([name, setting, *(m.text(digits) for m in means)])
            ratios = [m.mean / p - 1 for m, p in zip(means, paper, strict=True)]
            worst.append(max(abs(r) for r in ratios))
            within.append(worst[-1] <= 0.3)
            shape.append(monotone(columns, way))
        for name, figure, digits in extra:
            rows.append([name, setting, *(lab.measure("k-burst", s, figure).text(digits) for s in sets)])
        good = [lab.by_seed("k-burst", s, good_calls) for s in sets]
        most = [capacity(lab, "k-burst", s, 3)[0] for s in sets]
        rows.append(["calls that could be offered", setting, *(Estimate.of(m).text(1) for m in most)])
        shape.append(monotone(good, -1) and monotone(most, -1))
        near = all(abs(Estimate.of(g).mean - n) <= 1 for g, n in zip(good, CALLS_SUPPORTED, strict=True))
        holds = all(within) and near
        verdicts.append(REPRODUCED if all(shape) and holds else SHAPE if all(shape) else DIFFERS)
        off.append(statistics.fmean(worst))
        found.append(
            f"{sum(shape)} of 5 columns monotone, {sum(within)} of 4 within 30 % (worst {100 * max(worst):.0f} %), "
            f"{Estimate.of(good[0]).mean:.1f} to {Estimate.of(good[-1]).mean:.1f} calls"
        )
    n = len(RULES)
    points = named([RULES[off.index(min(off[:n]))]])
    claim = Claim("K-BURST", "every column monotone, 5 to 3 calls", found[:n], verdicts[:n], points)
    order = list(dict.fromkeys(row[0] for row in rows))
    rows.sort(key=lambda row: order.index(row[0]))
    return claim, table(["", "", *(f"burst {b}" for b in BURSTS)], rows)


#: The five of Figure 4, and after them two that say how much hangs on what was meant by a name.
TCP_VARIANTS = ("reno", "vegas", "westwood", "cubic", "compound")
BESIDE = ("westwood-plus", "bbr")
CALLS = (1, 2, 3, 5, 7, 10)
FEW = 3


def variant_sets(rule: str, tcp: str, calls: int) -> Sets:
    return (capture(rule), f"traffic.0.count={calls}", f"{BULK_IN_MIX}.tcp={tcp}")


def useful(result: Result) -> float:
    """goodput/sent of all downloads."""
    return tcp_mbps(result) / sum(float(flow["sent_mbps"]) for flow in result["flows"])


def tcp_loss_pct(result: Result) -> float:
    """Of the downloads' segments, repetitions included."""
    sent = sum(float(flow["sent"]) for flow in result["flows"])
    return 100 * sum(float(flow["loss"]) * float(flow["sent"]) for flow in result["flows"]) / sent


def k_var(lab: Lab) -> tuple[list[Claim], str]:
    """Figure 4: three downloads of each variant beside 1 to 10 calls.

    K-VAR-2 has four parts: Vegas has the best MOS, and the best goodput, in the mean over up to FEW calls; from the
    fewest calls to the most each variant loses more of its packets; and the mean score over the variants rises. The
    claim is of this ordering, so it holds whole or it differs.
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
    for rule in RULES:

        def mean(figure: Callable[[Result], float], tcp: str, *calls: int, rule: str = rule) -> float:
            return statistics.fmean(lab.measure("k-mix", variant_sets(rule, tcp, n), figure).mean for n in calls)

        for tcp in (*TCP_VARIANTS, *BESIDE):
            cells = []
            for n in CALLS:
                figures = [lab.measure("k-mix", variant_sets(rule, tcp, n), figure) for figure, _ in kinds]
                widest = [max(w, f.half) for w, f in zip(widest, figures, strict=True)]
                cells.append(", ".join(f"{f.mean:.{d}f}" for f, (_, d) in zip(figures, kinds, strict=True)))
            rows.append([f"`{rule}`", f"`{tcp}`", *cells])

        at_most = {tcp: mean(mos, tcp, CALLS[-1]) for tcp in TCP_VARIANTS}
        low, high = min(at_most.values()), max(at_most.values())
        found[0].append(f"MOS {low:.2f} to {high:.2f}")
        verdicts[0].append(REPRODUCED if high < 3 else SHAPE if high < MOS_GOOD else DIFFERS)

        few = [n for n in CALLS if n <= FEW]
        best = [max((mean(figure, tcp, *few), tcp) for tcp in TCP_VARIANTS)[1] for figure in (mos, tcp_mbps)]
        lost = [(mean(tcp_loss_pct, tcp, CALLS[0]), mean(tcp_loss_pct, tcp, CALLS[-1])) for tcp in TCP_VARIANTS]
        more_lost = sum(many > one for one, many in lost)
        first, last = (statistics.fmean(mean(mos, tcp, n) for tcp in TCP_VARIANTS) for n in (CALLS[0], CALLS[-1]))
        parts = [best[0] == "vegas", best[1] == "vegas", more_lost == len(TCP_VARIANTS), last > first]
        of_best = mean(tcp_mbps, "vegas", *few) / mean(tcp_mbps, best[1], *few)
        found[1].append(
            f"best MOS `{best[0]}`, best goodput `{best[1]}` (Vegas {100 * of_best:.0f} % of it); {more_lost} of 5 "
            f"lose more with more calls; MOS {first:.2f} to {last:.2f}"
        )
        verdicts[1].append(REPRODUCED if all(parts) else DIFFERS)

        share = {tcp: mean(useful, tcp, *CALLS) for tcp in TCP_VARIANTS}
        worst = min(share, key=lambda tcp: share[tcp])
        found[2].append(f"{share['westwood']:.2f}; worst `{worst}`, {share[worst]:.2f}")
        verdicts[2].append(
            DIFFERS if worst != "westwood" else REPRODUCED if abs(share["westwood"] - 0.5) <= 0.1 else SHAPE
        )
    papers = (
        "MOS < 3 with 10 calls, every variant",
        "Vegas best on both with few calls; more calls: more TCP loss, better voice",
        "Westwood 0.5, worst",
    )
    claims = [
        Claim(
            f"K-VAR-{i + 1}", papers[i], found[i], verdicts[i],
            named([rule for rule, verdict in zip(RULES, verdicts[i], strict=True) if verdict != DIFFERS]),
        )
        for i in range(3)
    ]  # fmt: skip
    intervals = ", ".join(f"{w:.{d}f}" for w, (_, d) in zip(widest, kinds, strict=True))
    legend = f"MOS, TCP in Mb/s, goodput/sent, TCP packets lost in %; the widest intervals are ± {intervals}.\n\n"
    return claims, legend + table(["rule", "tcp", *(f"{n} calls" for n in CALLS)], rows)


#: What the papers leave open: name, overrides of calls alone, of TCP alone, of both together.
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


def sensitivity(lab: Lab) -> str:
    rows = []
    for name, calls, tcp, mix in VARIANTS:
        for rule in RULES:
            most = (
                Estimate.of(capacity(lab, "k-calls", (capture(rule), *calls), 4)[0])
                if calls or not (tcp or mix)
                else None
            )
            alone = lab.measure("k-tcp", (capture(rule), *tcp), tcp_mbps)
            score = lab.measure("k-mix", (capture(rule), *mix), mos)
            shared = lab.measure("k-mix", (capture(rule), *mix), tcp_mbps)
            rows.append([
                name, f"`{rule}`", most.text(1) if most else "", alone.text(), score.text(), shared.text(),
            ])  # fmt: skip
    heads = ["", "rule", "K-CAP-V, calls", "K-CAP-T, Mb/s", "K-MIX, MOS", "K-MIX, Mb/s"]
    return table(heads, [["kim2010", "", "11", "1.35", "< 2", "0.84"], *rows])


#: Ways to let calls go first: name, overrides of k-prio.
PRIORITIES: tuple[tuple[str, Sets], ...] = (
    ("without TCP", ("traffic.1.count=0",)),
    ("strict priority", ()),
    ("EDCA", ("mac.queue={packets=50}", "mac.edca=true")),
    ("neither", ("mac.queue={packets=50}",)),
)


def most_calls(lab: Lab, sets: Sets) -> int:
    """The most calls that have a good mean score, found by doubling and halving: fewer calls never hear worse."""

    def hears(count: int) -> bool:
        return lab.measure("k-prio", (*sets, f"traffic.0.count={count}"), mos).mean >= MOS_GOOD

    good, bad = 0, 1
    while hears(bad):
        good, bad = bad, 2 * bad
    while bad - good > 1:
        count = (good + bad) // 2
        good, bad = (count, bad) if hears(count) else (good, count)
    return good


def k_prio(lab: Lab) -> tuple[Claim, str]:
    """One download beside the calls.

    Reproduced: under strict priority and under EDCA some calls at one hop and two, and none from three on. Same shape:
    of the calls that the string carries alone, the share at three hops and more is at most half of what it is at one
    and two, under both.
    """
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    for rule in RULES:
        calls: dict[str, list[int]] = {}
        for name, sets in PRIORITIES:
            ends = [(f"topology.hops={h}", f"traffic.0.to={h}", f"traffic.1.to={h}") for h in range(1, 5)]
            calls[name] = [most_calls(lab, (capture(rule), *sets, *end)) for end in ends]
            rows.append([f"`{rule}`", name, *map(str, calls[name])])
        alone = calls["without TCP"]
        reproduced, shape = True, True
        for name in ("strict priority", "EDCA"):
            share = [n / max(1, most) for n, most in zip(calls[name], alone, strict=True)]
            reproduced &= min(calls[name][:2]) > 0 and max(calls[name][2:]) == 0
            shape &= max(share[2:]) <= 0.5 * min(share[:2])
        verdicts.append(REPRODUCED if reproduced else SHAPE if shape else DIFFERS)
        shown = ", ".join(
            f"{name} {' '.join(f'{100 * n / max(1, most):.0f}' for n, most in zip(calls[name], alone, strict=True))} %"
            for name in ("strict priority", "EDCA")
        )
        found.append(f"1 to 4 hops: {shown}")
    points = named([rule for rule, verdict in zip(RULES, verdicts, strict=True) if verdict != DIFFERS])
    claim = Claim("K-PRIO", "20 % of the voice capacity at 1 and 2 hops, none from 3 on", found, verdicts, points)
    return claim, table(["rule", "calls with MOS ≥ 3.6", *(f"{h} hops" for h in range(1, 5))], rows)


def section(lab: Lab) -> str:
    """What the page says of this paper."""
    cap_v, cap_v_table = k_cap_v(lab)
    cap_t, alone = k_cap_t(lab)
    burst, burst_table = k_burst(lab)
    variants, variants_table = k_var(lab)
    prio, prio_table = k_prio(lab)
    return "\n".join(
        (
            summary([*k_mos(), cap_v, cap_t, k_mix(lab, alone), burst, *variants, prio]),
            "### K-CAP-V\n",
            cap_v_table,
            "### K-BURST\n",
            burst_table,
            "### K-VAR\n",
            variants_table,
            "### K-PRIO\n",
            prio_table,
            "### What the paper leaves open\n",
            sensitivity(lab),
        )
    )

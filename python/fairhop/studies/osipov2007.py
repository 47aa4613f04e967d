"""osipov2007: E. Osipov, C. Tschudin, "TCP-friendly bandwidth sharing in mobile ad hoc networks: from theory to
reality": claims O-*.

The paper's reference is Thr_max, what one flow of the same length carries alone; it is measured under each rule. The
unfairness u is the paper's equation 4 everywhere: the distance of the throughputs from φ · Thr_max, over the length of
the latter. So u counts unequal shares and a total that is too low or too high.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fairhop.studies.lab import FREE, Lab, Result, Sets, capture, tcp_mbps
from fairhop.studies.model import (
    HEADS_BY_RULE,
    REPRODUCED,
    RULES,
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
    with_verdict,
)
from fairhop.studies.rows.osipov2007 import (
    ABOUT,
    FIRST_GAIN,
    LENGTHS_KBPS,
    LENGTHS_U,
    OF_ESTIMATE,
    OF_ONE,
    OF_PHASE,
    PEAK,
    REASONS,
    ROWS,
    SECOND_GAIN,
    TITLE,
    UNFAIR,
    WALKER_PLAIN,
    WALKER_THROTTLED,
)

#: Cells of the surface: the paper has 2 to 9 flows over 1 to 9 hops.
FLOWS = (2, 3, 6, 9)
HOPS = (1, 2, 3, 4, 6)
#: Seeds of a cell of the surface, which has up to 63 nodes, at most.
FEW = 3
#: Numbers of three-hop flows whose total is compared with one alone.
COMPETING = (2, 3, 4, 6, 9)
TRANSFER = "mss_bytes = 600, delayed_ack_segments = 1, byte_counting = false"


def kbps(result: Result) -> list[float]:
    return [1e3 * float(flow["goodput_mbps"]) for flow in result["flows"]]


def total_kbps(result: Result) -> float:
    return 1e3 * tcp_mbps(result)


def unfairness(fair: Sequence[float], actual: Sequence[float]) -> float:
    """Equation 4."""
    return math.dist(fair, actual) / math.hypot(*fair)


def alone(lab: Lab, rule: str, hops: int, spacing_m: int = 200) -> float:
    """Thr_max: what one flow carries alone, in kb/s."""
    path = ", ".join(map(str, range(hops + 1)))
    sets = (
        capture(rule),
        f"topology.hops={hops}",
        f"topology.spacing_m={spacing_m}",
        f"traffic.0.to={hops}",
        f"routing.paths=[[{path}]]",
    )
    return lab.measure("osipov-string", sets, total_kbps).mean


def throttle(thr_max: Sequence[float]) -> str:
    """The override that holds sources to their shares of Thr_max, given by hops."""
    return f'control={{ kind = "throttle", thr_max_kbps = [{", ".join(f"{kbps:.1f}" for kbps in thr_max)}] }}'


def bulk(paths: Sequence[Sequence[int]]) -> tuple[str, str]:
    """One flow from end to end of each path."""
    ends = ", ".join(f'{{ kind = "bulk", from = {path[0]}, to = {path[-1]}, {TRANSFER} }}' for path in paths)
    return f"routing.paths={[list(path) for path in paths]}", f"traffic=[{ends}]"


def side_by_side(rule: str, flows: int, hops: int, thr_max: float | None) -> Sets:
    """Flows of equal length on parallel lines, throttled to shares of `thr_max` or not at all."""
    lines = [list(range(line * (hops + 1), (line + 1) * (hops + 1))) for line in range(flows)]
    control = throttle([thr_max] * hops) if thr_max else FREE
    return (capture(rule), f"topology.lines={flows}", f"topology.hops={hops}", *bulk(lines), control)


def by_rule(name: str, lab: Lab, found: list[str], verdicts: list[str]) -> Claim:
    return Claim(ROWS[name], lab.seeds_text(), found, verdicts, with_verdict(verdicts, REPRODUCED))


# ---- flows of equal length side by side (figure 6) ------------------------------------------------------------------


def o_surf(lab: Lab) -> Section:
    few = lab.few(FEW)
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    panels: list[Panel] = []
    for rule in RULES:
        indices: dict[tuple[int, int], tuple[Estimate, Estimate]] = {}
        pairs: dict[tuple[int, int], tuple[float, float]] = {}
        for hops in HOPS:
            thr_max = alone(few, rule, hops)
            for flows in FLOWS:
                # All flows cross the same L-regions, so φ is 1/flows.
                fair = [thr_max / flows] * flows
                runs = [few.run("o-surf", side_by_side(rule, flows, hops, limit)) for limit in (None, thr_max)]
                plain, throttled = (Estimate.of([unfairness(fair, kbps(run)) for run in each]) for each in runs)
                indices[hops, flows] = plain, throttled
                pairs[hops, flows] = plain.mean, throttled.mean
            cells = [f"{plain:.2f} → {throttled:.2f}" for plain, throttled in (pairs[hops, n] for n in FLOWS)]
            rows.append([f"`{rule}`", str(hops), *cells])
        unfair = [pair for pair in pairs.values() if pair[0] > UNFAIR]
        begins = pairs[1, 6][0] > UNFAIR
        peaks = PEAK.holds(max(pairs[3, flows][0] for flows in FLOWS))
        ends = all(throttled <= UNFAIR for _, throttled in unfair)
        smaller = all(throttled < plain for plain, throttled in unfair)
        verdicts.append(verdict(begins and peaks and ends, bool(unfair) and smaller))
        for k, how in enumerate(("without throttling", "with throttling")):
            drawn = [line(f"{h} hop{'s' * (h > 1)}", FLOWS, [indices[h, n][k] for n in FLOWS]) for h in HOPS]
            panels.append(Panel(f"capture: {rule}, {how}", drawn))
        found.append(
            f"without: over 0.1 in {len(unfair)} of {len(pairs)} cells, up to {max(p for p, _ in pairs.values()):.2f}; "
            f"with: up to {max(t for _, t in pairs.values()):.2f}"
        )
    heads = ["rule", "hops", *(f"{flows} flows" for flows in FLOWS)]
    claim = by_rule("O-SURF", few, found, verdicts)
    figure = Figure(
        "O-SURF: unfairness of flows side by side",
        "Figures 6(c) and 6(d), surfaces in the paper, with a line for each length. The text gives 0.1 passed at six "
        "flows of one hop, a peak of 0.5 at three hops, and virtually 0 with throttling.",
        "competing flows",
        "unfairness u",
        panels,
    )
    return Section([claim], {"O-SURF: u without → with throttling": Table(heads, rows)}, [figure])


def o_ref(lab: Lab) -> Section:
    few = lab.few(FEW)
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    panels: list[Panel] = []
    for rule in RULES:
        thr_max = alone(few, rule, 3)
        plain, throttled = (
            [few.measure("o-surf", side_by_side(rule, flows, 3, limit), total_kbps) for flows in COMPETING]
            for limit in (None, thr_max)
        )
        rows.append([f"`{rule}`", "without", f"{thr_max:.0f}", *(total.text(0) for total in plain)])
        rows.append([f"`{rule}`", "with throttling", f"{thr_max:.0f}", *(total.text(0) for total in throttled)])
        panels.append(
            Panel(
                f"capture: {rule}",
                [
                    Line("one flow alone (estimated)", (COMPETING[0], COMPETING[-1]), (thr_max, thr_max), dashed=True),
                    line("without throttling", COMPETING, plain),
                    line("with throttling", COMPETING, throttled),
                ],
            )
        )
        off_plain, off = ([total.mean / thr_max - 1 for total in totals] for totals in (plain, throttled))
        worst, worst_plain = max(map(abs, off)), max(map(abs, off_plain))
        verdicts.append(verdict(worst <= OF_ONE, worst < worst_plain))
        found.append(
            f"with: {100 * min(off):+.1f} to {100 * max(off):+.1f} %; "
            f"without: {100 * min(off_plain):+.1f} to {100 * max(off_plain):+.1f} %"
        )
    heads = ["rule", "total, kb/s", "1 flow", *(f"{flows} flows" for flows in COMPETING)]
    claim = by_rule("O-REF", few, found, verdicts)
    figure = Figure(
        "O-REF: total throughput of flows of three hops",
        "Figure 6(b), with the line of one flow alone that the paper calls estimated. Its text gives no throughput.",
        "competing flows",
        "total throughput, kb/s",
        panels,
    )
    return Section([claim], {"O-REF": Table(heads, rows)}, [figure])


# ---- several bottlenecks (figure 7) ---------------------------------------------------------------------------------

Place = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """Nodes of the four flows on a grid of 126 m."""

    name: str
    paths: tuple[tuple[Place, ...], ...]

    def nodes(self) -> list[Place]:
        return [place for path in self.paths for place in path]

    def numbered(self) -> list[list[int]]:
        """The paths as numbers of nodes."""
        number = {place: index for index, place in enumerate(self.nodes())}
        return [[number[place] for place in path] for path in self.paths]

    def bottlenecks(self) -> Counter[tuple[int, ...]]:
        """L-regions by the flows that cross them; a region is a node and all that decode its frames (250 m)."""

        def crosses(node: Place, path: tuple[Place, ...]) -> bool:
            return any(SPACING_M * math.dist(node, other) <= 250 for other in path)

        return Counter(
            tuple(flow for flow, path in enumerate(self.paths, 1) if crosses(node, path)) for node in self.nodes()
        )

    def sets(self, rule: str) -> Sets:
        places = ", ".join(f"{{ x_m = {SPACING_M * x}, y_m = {SPACING_M * y} }}" for x, y in self.nodes())
        return (capture(rule), f"topology.nodes=[{places}]", *bulk(self.numbered()))


SPACING_M = 126
LINE = tuple((x, 0) for x in range(6))
#: The figure's places are not in the text. These fit its words: 126 m between neighbours, TCP3 the shortest flow, three
#: L-regions with TCP1, 2 and 3, four with TCP1 and 4, and none with more flows.
LAYOUTS = (
    Layout("a", (LINE, ((0, -3), (0, -2), (0, -1)), ((-2, 0), (-1, 0)), ((4, -3), (4, -2), (4, -1)))),
    Layout("b", (LINE, ((-1, 1), (0, 1), (1, 1)), ((-1, 2), (0, 2)), ((6, -1), (6, 0), (6, 1)))),
    Layout("c", (LINE, ((1, -3), (1, -2), (1, -1)), ((1, 1), (1, 2)), ((4, 1), (4, 2), (4, 3)))),
)
SHARES = (1 / 3, 1 / 3, 1 / 3, 2 / 3)


def thr_max_at_126_m(lab: Lab, rule: str) -> list[float]:
    """Thr_max over 1 to 5 hops of 126 m."""
    return [alone(lab, rule, hops, SPACING_M) for hops in range(1, 6)]


def limits(lab: Lab, rule: str, layout: Layout) -> tuple[list[float], list[float]]:
    """The rates in kb/s to which the sources are held, and Thr_max of their lengths."""
    thr_max = thr_max_at_126_m(lab, rule)
    run = lab.few(1).run("o-multi", (*layout.sets(rule), throttle(thr_max)))[0]
    held = [1e3 * float(flow["limit_mbps"]) for flow in run["flows"]]
    return held, [thr_max[len(path) - 2] for path in layout.paths]


def o_share_1(lab: Lab) -> Section:
    exact = True
    shown: list[str] = []
    for layout in LAYOUTS:
        regions = layout.bottlenecks()
        assert regions[1, 2, 3] == 3 and regions[1, 4] == 4 and max(map(len, regions)) == 3, layout
        held, thr_max = limits(lab, "first", layout)
        shares = [rate / limit for rate, limit in zip(held, thr_max, strict=True)]
        exact &= all(abs(share - paper) < 1e-3 for share, paper in zip(shares, SHARES, strict=True))
        shown.append(", ".join(f"{share:.3f}" for share in shares))
    found = "; ".join(dict.fromkeys(shown))
    claim = Claim(ROWS["O-SHARE-1"], "any", [found], [verdict(exact)], "no radio")
    return Section([claim], {})


def o_multi(lab: Lab) -> Section:
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    panels: list[Panel] = []
    for rule in RULES:
        reproduced: list[str] = []
        helped: list[str] = []
        shut: list[str] = []
        low, high = math.inf, 0.0
        for layout in LAYOUTS:
            held, _ = limits(lab, rule, layout)
            control = throttle(thr_max_at_126_m(lab, rule))
            ratios: list[list[float]] = []
            rows.append([f"`{rule}`", layout.name, "φ · Thr_max", *(f"{rate:.0f}" for rate in held)])
            drawn = [Line("φ · Thr_max (ideal)", range(4), held, dashed=True)]
            for name, how in (("without", FREE), ("with throttling", control)):
                runs = lab.run("o-multi", (*layout.sets(rule), how))
                flows = [Estimate.of([kbps(run)[flow] for run in runs]) for flow in range(4)]
                rows.append([f"`{rule}`", layout.name, name, *(flow.text(0) for flow in flows)])
                drawn.append(line(name, range(4), flows))
                ratios.append([flow.mean / rate for flow, rate in zip(flows, held, strict=True)])
            panels.append(Panel(f"capture: {rule}, layout {layout.name}", drawn))
            plain, throttled = ratios
            shut.append(f"{100 * plain[0]:.0f}")
            low, high = min(low, *throttled), max(high, *throttled)
            if all(abs(ratio - 1) <= OF_ESTIMATE for ratio in throttled) and plain[0] < 0.25:
                reproduced.append(layout.name)
            if throttled[0] >= max(0.5, 1.5 * plain[0]):
                helped.append(layout.name)
        everywhere = len(LAYOUTS)
        verdicts.append(verdict(len(reproduced) == everywhere, len(helped) == everywhere))
        found.append(
            f"holds in layouts {', '.join(reproduced) or 'none'} of {', '.join(layout.name for layout in LAYOUTS)}; "
            f"without: TCP1 at {', '.join(shut)} % of its estimate; "
            f"with: flows at {100 * low:.0f} to {100 * high:.0f} %"
        )
    heads = ["rule", "layout", "kb/s", "TCP1", "TCP2", "TCP3", "TCP4"]
    claim = by_rule("O-MULTI", lab, found, verdicts)
    figure = Figure(
        "O-MULTI: throughput of each flow",
        "Figure 7(b), three bars a flow in the paper. Its text gives no throughput.",
        "",
        "throughput, kb/s",
        panels,
        ("TCP1", "TCP2", "TCP3", "TCP4"),
    )
    return Section([claim], {"O-MULTI": Table(heads, rows)}, [figure])


# ---- flows of different lengths (figure 8) --------------------------------------------------------------------------


def o_len(lab: Lab) -> Section:
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    totals = [Line("osipov2007, simulated", (0, 1), LENGTHS_KBPS, from_paper=True)]
    indices = [Line("osipov2007, simulated", (0, 1), LENGTHS_U, from_paper=True)]
    for rule in RULES:
        thr_max = [alone(lab, rule, hops) for hops in (1, 2, 3)]
        fair = [rate / 3 for rate in thr_max]
        rows.append([f"`{rule}`", "Thr_max / 3", *(f"{rate:.0f}" for rate in fair), f"{sum(fair):.0f}", "0"])
        total: list[Estimate] = []
        index: list[Estimate] = []
        for name, control in (("without", FREE), ("with throttling", throttle(thr_max))):
            runs = lab.run("o-len", (capture(rule), control))
            flows = [Estimate.of([kbps(run)[flow] for run in runs]) for flow in range(3)]
            total.append(Estimate.of([sum(kbps(run)) for run in runs]))
            index.append(Estimate.of([unfairness(fair, kbps(run)) for run in runs]))
            rows.append([f"`{rule}`", name, *(flow.text(0) for flow in flows), total[-1].text(0), index[-1].text()])
        falls = index[1].mean <= index[0].mean / 3
        keeps = total[1].mean + total[1].half >= total[0].mean - total[0].half
        smaller = index[1].mean + index[1].half < index[0].mean - index[0].half
        verdicts.append(verdict(falls and keeps, smaller))
        totals.append(line(f"capture: {rule}", (0, 1), total))
        indices.append(line(f"capture: {rule}", (0, 1), index))
        found.append(
            f"total {total[0].mean:.0f} → {total[1].mean:.0f} kb/s, u {index[0].mean:.2f} → {index[1].mean:.2f}"
        )
    heads = ["rule", "kb/s", "1 hop", "2 hops", "3 hops", "total", "u"]
    claim = by_rule("O-LEN", lab, found, verdicts)
    figure = Figure(
        "O-LEN: flows of one, two and three hops",
        "Table 2, the simulated half.",
        "",
        "",
        [Panel("", totals, "total throughput, kb/s"), Panel("", indices, "unfairness u")],
        ("without", "with throttling"),
    )
    return Section([claim], {"O-LEN": Table(heads, rows)}, [figure])


# ---- a walker among static flows (table 1) --------------------------------------------------------------------------

#: When each phase is measured, in seconds: the walker has three hops, two, one. It walks in between.
PHASES = ((12, 45), (48, 81), (84, 120))
#: 802.11b at 11 Mb/s over 30 m, with the reach of 1 Mb/s for ACKs and L-regions.
FAST = (
    "radio.rate_mbps=11",
    "radio.propagation.reach_m=[{ rate_mbps = 11, receive_m = 30 }]",
)


def alone_at_11(lab: Lab, rule: str, hops: int) -> float:
    """Thr_max at 11 Mb/s, in kb/s."""
    sets = (capture(rule), *FAST, f"topology.hops={hops}", "topology.spacing_m=30", f"traffic.0.to={hops}")
    return lab.measure("osipov-string", sets, total_kbps).mean


#: Routes and shares that the nodes find themselves. Broadcasts at 1 Mb/s reach farther than data.
FOUND = 'routing={ protocol = "aodv", aodv = { pdp = true, signal_threshold = true } }'


@dataclass(frozen=True)
class Walk:
    """Rates in kb/s by phase: of the walker, of the static flows, and of all together."""

    walker: list[Estimate]
    static: list[list[float]]

    def row(self, rule: str, name: str) -> list[str]:
        later = self.static[1] + self.static[2]
        totals = [sum(static) + walker.mean for static, walker in zip(self.static, self.walker, strict=True)]
        spread = f"{min(later):.0f} to {max(later):.0f}"
        by_phase = " / ".join(f"{total:.0f}" for total in totals)
        return [f"`{rule}`", name, *(rate.text(0) for rate in self.walker), spread, by_phase]


def walk(lab: Lab, rule: str, *how: str) -> Walk:
    """The three phases under some control."""
    walker: list[Estimate] = []
    static: list[list[float]] = []
    for start, stop in PHASES:
        sets = (capture(rule), *how, f"warmup_s={start}", f"duration_s={stop}")
        rates = [kbps(run) for run in lab.run("o-mob", sets)]
        walker.append(Estimate.of([flows[3] for flows in rates]))
        static.append([Estimate.of([flows[flow] for flows in rates]).mean for flow in range(3)])
    return Walk(walker, static)


def found_by_nodes(lab: Lab, rule: str, thr_max: Sequence[float]) -> list[str]:
    """Our own row: routes by AODV, shares by the path density protocol."""
    return walk(lab, rule, throttle(thr_max), FOUND).row(rule, "with AODV and PDP (ours)")


def o_mob(lab: Lab) -> Section:
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    panels: list[Panel] = []
    for rule in RULES:
        thr_max = [alone_at_11(lab, rule, hops) for hops in (1, 2, 3)]
        fair = [thr_max[hops - 1] / 4 for hops in (3, 2, 1)]
        rows.append([f"`{rule}`", "φ · Thr_max", *(f"{rate:.0f}" for rate in fair), f"{fair[0]:.0f}", ""])
        gains: list[tuple[float, float]] = []
        drawn = [Line("φ · Thr_max", range(3), fair, dashed=True)]
        close = True
        for name, control, paper in (
            ("without", FREE, WALKER_PLAIN),
            ("with throttling", throttle(thr_max), WALKER_THROTTLED),
        ):
            measured = walk(lab, rule, control)
            walker = measured.walker
            if control != FREE:
                close &= all(abs(rate.mean / share - 1) <= OF_PHASE for rate, share in zip(walker, fair, strict=True))
                static = measured.static[1] + measured.static[2]
                close &= all(abs(rate / fair[0] - 1) <= OF_PHASE for rate in static)
            gains.append((walker[1].mean / walker[0].mean, walker[2].mean / walker[1].mean))
            rows.append(measured.row(rule, name))
            rows.append([f"`{rule}`", f"paper, {name}", *(f"{rate:.0f}" for rate in paper), "", ""])
            drawn += [
                Line(f"osipov2007, {name}", range(3), paper, from_paper=True),
                line(f"{name}", range(3), walker),
            ]
        panels.append(Panel(f"capture: {rule}", drawn))
        rows.append(found_by_nodes(lab, rule, thr_max))
        plain, throttled = gains
        shorter = FIRST_GAIN.holds(throttled[0]) and SECOND_GAIN.holds(throttled[1])
        holds = close and shorter and plain[0] - 1 < (throttled[0] - 1) / 2
        shape = throttled[0] > 1 and throttled[1] > 1 and plain[0] < throttled[0]
        verdicts.append(verdict(holds, shape))
        found.append(
            f"with: every flow within 5 %: {'yes' if close else 'no'}, "
            f"gains {throttled[0]:.2f} and {throttled[1]:.2f}; "
            f"without: {plain[0]:.2f} and {plain[1]:.2f}"
        )
    heads = ["rule", "kb/s", "walker, 3 hops", "2 hops", "1 hop", "static flows, phases 2 and 3", "total by phase"]
    claim = by_rule("O-MOB", lab, found, verdicts)
    figure = Figure(
        "O-MOB: throughput of the walker",
        "Table 1, the row of the mobile flow, by phase.",
        "hops of the walker's path",
        "throughput, kb/s",
        panels,
        ("3 hops", "2 hops", "1 hop"),
    )
    return Section([claim], {"O-MOB": Table(heads, rows)}, [figure])


STUDY = Study(
    "osipov2007",
    'E. Osipov, C. Tschudin, "TCP-friendly bandwidth sharing in mobile ad hoc networks: from theory to reality"',
    (
        Part(
            "osipov2007",
            TITLE,
            HEADS_BY_RULE,
            ROWS,
            (
                Measurement(("O-SHARE-1",), o_share_1, 1),
                Measurement(("O-SURF",), o_surf, 40),
                Measurement(("O-REF",), o_ref, 8),
                Measurement(("O-MULTI",), o_multi, 8),
                Measurement(("O-LEN",), o_len, 1),
                Measurement(("O-MOB",), o_mob, 15),
            ),
            ABOUT,
            REASONS,
        ),
    ),
)

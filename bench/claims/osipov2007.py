"""osipov2007: E. Osipov, C. Tschudin, "TCP-friendly bandwidth sharing in mobile ad hoc networks: from theory to
reality". One capture rule, that of the scenarios: claims O-*."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lab import DIFFERS, REPRODUCED, SHAPE, Estimate, Lab
from simulator import FREE, Result, Sets, table, tcp_mbps

#: Cells of the surface: the paper has all from 2 to 9 flows and 1 to 9 hops.
FLOWS = (2, 3, 6, 9)
HOPS = (1, 2, 3, 4, 6)
#: Seeds of a cell of the surface, which is up to 63 nodes.
FEW = 2
#: Total of three-hop flows against one alone, by number of flows.
COMPETING = (2, 3, 4, 6, 9)

Row = tuple[str, str, str, str]


def kbps(result: Result) -> list[float]:
    return [1e3 * float(flow["goodput_mbps"]) for flow in result["flows"]]


def unfairness(fair: Sequence[float], actual: Sequence[float]) -> float:
    """Equation 4: the distance from what would be fair, over its length."""
    return math.dist(fair, actual) / math.hypot(*fair)


def alone(lab: Lab, hops: int, spacing_m: int = 200) -> float:
    """What one flow carries alone, in kb/s."""
    path = ", ".join(map(str, range(hops + 1)))
    sets = (
        f"topology.hops={hops}",
        f"topology.spacing_m={spacing_m}",
        f"traffic.0.to={hops}",
        f"routing.paths=[[{path}]]",
    )
    return 1e3 * lab.measure("osipov-string", sets, tcp_mbps).mean


def side_by_side(flows: int, hops: int, thr_max: float | None) -> Sets:
    """Flows of as many hops on lines of their own, throttled to shares of `thr_max`, or not at all."""
    lines = [list(range(line * (hops + 1), (line + 1) * (hops + 1))) for line in range(flows)]
    transfer = "mss_bytes = 600, delayed_ack_segments = 1, byte_counting = false"
    traffic = ", ".join(f'{{ kind = "bulk", from = {line[0]}, to = {line[-1]}, {transfer} }}' for line in lines)
    limit = f"[{', '.join([f'{thr_max}'] * hops)}]" if thr_max else ""
    control = f'control={{ kind = "throttle", thr_max_kbps = {limit} }}' if thr_max else FREE
    return (
        f"topology.lines={flows}",
        f"topology.hops={hops}",
        f"routing.paths={lines}",
        f"traffic=[{traffic}]",
        control,
    )


def o_share_1(lab: Lab) -> tuple[Row, list[float]]:
    """Rates that sources are held to in figure 7, over what a flow of their length carries alone."""
    thr_max = [alone(lab, hops, 126) for hops in (5, 1, 1, 2)]
    measured = f"[{thr_max[1]}, {thr_max[3]}, 1, 1, {thr_max[0]}]"
    sets = (f"control.thr_max_kbps={measured}",)
    held = [1e3 * float(flow["limit_mbps"]) for flow in lab.run("o-multi", sets)[0]["flows"]]
    shares = [rate / most for rate, most in zip(held, thr_max, strict=True)]
    exact = all(abs(share - third / 3) < 1e-3 for share, third in zip(shares, (1, 1, 1, 2), strict=True))
    found = ", ".join(f"{share:.3f}" for share in shares)
    return ("O-SHARE-1", "1/3, 1/3, 1/3, 2/3", found, REPRODUCED if exact else DIFFERS), held


def o_surf(lab: Lab) -> tuple[Row, str]:
    """u of equal flows side by side. Reproduced: with throttling u ≤ 0.1 wherever it is larger without."""
    rows: list[list[str]] = []
    holds, smaller, worst_free, worst_held = True, True, 0.0, 0.0
    for hops in HOPS:
        most = alone(lab, hops)
        cells: list[str] = []
        for flows in FLOWS:
            u: list[Estimate] = []
            for thr_max in (None, most):
                runs = lab.run("o-surf", side_by_side(flows, hops, thr_max))
                # Equal parts of what they carry together: the index of the shape, not of the sum.
                fair = [[sum(kbps(run)) / flows] * flows for run in runs]
                u.append(Estimate.of([unfairness(f, kbps(run)) for f, run in zip(fair, runs, strict=True)]))
            free, held = u
            holds &= free.mean <= 0.1 or held.mean <= 0.1
            smaller &= held.mean <= max(free.mean, 0.1)
            worst_free, worst_held = max(worst_free, free.mean), max(worst_held, held.mean)
            cells.append(f"{free.mean:.2f} → {held.mean:.2f}")
        rows.append([str(hops), *cells])
    verdict = REPRODUCED if holds else SHAPE if smaller else DIFFERS
    found = f"without: up to {worst_free:.2f}; with: up to {worst_held:.2f}"
    row = ("O-SURF", "without: over 0.1 from six 1-hop flows on, up to 0.5; with: virtually 0", found, verdict)
    return row, table(["hops", *(f"{flows} flows" for flows in FLOWS)], rows)


def o_ref(lab: Lab) -> tuple[Row, str]:
    """Total of three-hop flows over one alone. Reproduced: within 5 % with throttling, and lower than alone without."""
    most = alone(lab, 3)
    rows: list[list[str]] = []
    off_held, free_over = 0.0, -1.0
    for flows in COMPETING:
        free = lab.measure("o-surf", side_by_side(flows, 3, None), lambda r: 1e3 * tcp_mbps(r))
        held = lab.measure("o-surf", side_by_side(flows, 3, most), lambda r: 1e3 * tcp_mbps(r))
        off_held = max(off_held, abs(held.mean / most - 1))
        free_over = max(free_over, free.mean / most - 1)
        rows.append([str(flows), f"{most:.0f}", free.text(0), held.text(0)])
    within = off_held <= 0.05
    verdict = REPRODUCED if within and free_over <= 0 else SHAPE if within or off_held <= 0.1 else DIFFERS
    found = f"with: at most {100 * off_held:.1f} % off; without: at most {100 * free_over:+.1f} %"
    row = ("O-REF", "with: within 3 %; without: always lower, up to 12 %", found, verdict)
    return row, table(["flows of three hops", "one alone, kb/s", "without", "with throttling"], rows)


def o_multi(lab: Lab, held: list[float]) -> tuple[Row, str]:
    """Reproduced: every flow within 15 % of its share of Thr_max with throttling, TCP1 far under it without."""
    columns = {name: lab.run("o-multi", sets) for name, sets in (("without", (FREE,)), ("with throttling", ()))}
    rows: list[list[str]] = []
    means: dict[str, list[float]] = {}
    for name, runs in columns.items():
        found = [Estimate.of([kbps(run)[flow] for run in runs]) for flow in range(4)]
        means[name] = [f.mean for f in found]
        rows.append([name, *(f.text(0) for f in found)])
    rows.insert(0, ["estimate, φ · Thr_max", *(f"{rate:.0f}" for rate in held)])
    ratios = [got / rate for got, rate in zip(means["with throttling"], held, strict=True)]
    near = all(abs(ratio - 1) <= 0.15 for ratio in ratios)
    shut = means["without"][0] / held[0]
    verdict = REPRODUCED if near and shut < 0.25 else SHAPE if min(ratios) > 2 * shut else DIFFERS
    found_text = f"without: TCP1 at {100 * shut:.0f} % of its estimate; with: all at " + ", ".join(
        f"{100 * ratio:.0f}" for ratio in ratios
    )
    row = ("O-MULTI", "without: TCP1 almost shut down; with: every flow at its estimate", found_text + " %", verdict)
    return row, table(["kb/s", "TCP1", "TCP2", "TCP3", "TCP4"], rows)


def o_len(lab: Lab) -> tuple[Row, str]:
    """Reproduced: u falls to a third at most, and the total does not fall."""
    fair = [alone(lab, hops) / 3 for hops in (1, 2, 3)]
    rows: list[list[str]] = [["estimate, Thr_max / 3", *(f"{rate:.0f}" for rate in fair), f"{sum(fair):.0f}", "0"]]
    total: list[Estimate] = []
    index: list[Estimate] = []
    for name, sets in (("without", (FREE,)), ("with throttling", ())):
        runs = lab.run("o-len", sets)
        each = [Estimate.of([kbps(run)[flow] for run in runs]) for flow in range(3)]
        total.append(Estimate.of([sum(kbps(run)) for run in runs]))
        index.append(Estimate.of([unfairness(fair, kbps(run)) for run in runs]))
        rows.append([name, *(e.text(0) for e in each), total[-1].text(0), index[-1].text()])
    falls = index[1].mean <= index[0].mean / 3
    keeps = total[1].mean + total[1].half >= total[0].mean - total[0].half
    verdict = REPRODUCED if falls and keeps else SHAPE if falls else DIFFERS
    found = f"total {total[0].mean:.0f} → {total[1].mean:.0f} kb/s, u {index[0].mean:.2f} → {index[1].mean:.2f}"
    row = ("O-LEN", "simulated: total 554 → 605 kb/s, u 0.31 → 0.09", found, verdict)
    return row, table(["kb/s", "1 hop", "2 hops", "3 hops", "total", "u"], rows)


def section(lab: Lab) -> str:
    """What the page says of this paper."""
    few = Lab(min(FEW, len(lab.seeds)))
    share, held = o_share_1(lab)
    surf, surf_table = o_surf(few)
    ref, ref_table = o_ref(few)
    multi, multi_table = o_multi(lab, held)
    length, length_table = o_len(lab)
    rows = [share, surf, ref, multi, length]
    return "\n".join(
        (
            table(["claim", "paper", "ours", "verdict"], [[*row[:3], f"**{row[3]}**"] for row in rows]),
            "### O-SURF: u without → with throttling\n",
            surf_table,
            "### O-REF\n",
            ref_table,
            "### O-MULTI\n",
            multi_table,
            "### O-LEN\n",
            length_table,
        )
    )

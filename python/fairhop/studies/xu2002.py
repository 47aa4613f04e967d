"""xu2002: K. Xu, S. Bae, M. Gerla, S. Lee, "TCP behavior across multihop wireless networks and the wired Internet"."""

from __future__ import annotations

from collections.abc import Sequence

from fairhop.studies.lab import Lab, Result, Sets, capture, jain, tcp_mbps
from fairhop.studies.model import (
    HEADS_BY_RULE,
    REPRODUCED,
    RULES,
    Between,
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
from fairhop.studies.rows.xu2002 import ABOUT, CAPTURED, FAIR, REASONS, ROWS, TITLE, WAITS

WINDOWS = (1, 2, 4, 8, 0)


def x_adhoc(lab: Lab) -> Section:
    """Fair: Jain's index at least 0.9 with W = 1 and 2. No gain: no larger window carries 5 % more than W = 2.

    Receivers acknowledge each segment: with a window of one, a delayed ACK would wait for its timer each time.
    """
    rows: list[list[str]] = []
    notes: list[str] = []
    verdicts: list[str] = []
    for rule in RULES:
        fair: list[bool] = []
        gain: list[float] = []
        last: list[float] = []
        for hops in (2, 3, 4):
            total, index = [], []
            for window in WINDOWS:
                sets: Sets = (capture(rule), f"topology.hops={hops}", f"traffic.0.to={hops}", f"traffic.1.from={hops}")
                for flow in (0, 1):
                    sets += (
                        f"traffic.{flow}.delayed_ack_segments=1",
                        f"traffic.{flow}.max_window_packets={window or 1000000}",
                    )
                total.append(lab.measure("x-adhoc", sets, tcp_mbps))
                index.append(lab.measure("x-adhoc", sets, jain))
            rows.append([f"`{rule}`", str(hops), "total, Mb/s", *(t.text(3) for t in total)])
            rows.append([f"`{rule}`", str(hops), "Jain's index", *(i.text() for i in index)])
            fair.append(FAIR.holds(min(index[0].mean, index[1].mean)))
            gain.append(max(t.mean for t in total[2:]) / total[1].mean - 1)
            last.append(index[-1].mean)
        verdicts.append(verdict(all(fair) and max(gain) < 0.05, all(fair)))
        notes.append(
            f"W ≤ 2 fair at {sum(fair)} of 3 lengths; a larger W gains up to {100 * max(0.0, *gain):.0f} %; "
            f"without limit Jain down to {min(last):.2f}"
        )
    claim = Claim(ROWS["X-ADHOC"], lab.seeds_text(), notes, verdicts, with_verdict(verdicts, REPRODUCED))
    heads = ["rule", "hops", "", *(f"W = {w}" if w else "no limit" for w in WINDOWS)]
    return Section([claim], {"X-ADHOC": Table(heads, rows)})


HOPS = (2, 3, 4)


def share(result: Result) -> float:
    """The first flow's part of the total goodput."""
    goodput = [float(flow["goodput_mbps"]) for flow in result["flows"]]
    return goodput[0] / sum(goodput) if sum(goodput) > 0 else 0.5


def wait_ratio(result: Result) -> float:
    """Time between the two completions over the time of the first: 0 if both end together, 1 if one waits for the other
    and then takes as long."""
    done = sorted(float(flow["tcp"].get("completed_s") or result["sim_s"]) for flow in result["flows"])
    return done[-1] / done[0] - 1


def clients(rule: str, hops: int, ends: tuple[str, str], nodes: tuple[int, int]) -> Sets:
    """A string with the clients of the two flows at `nodes`; `ends` says which end (`from` or `to`) of each flow that
    is."""
    first, second = (f"traffic.{flow}.{end}={node}" for flow, (end, node) in enumerate(zip(ends, nodes, strict=True)))
    return (capture(rule), f"topology.hops={hops}", first, second)


def last_node(rule: str, hops: int) -> Sets:
    """A download and an upload, both with the last node of the string, as in X-ADHOC."""
    return clients(rule, hops, ("to", "from"), (hops, hops))


def by_rule(name: str, lab: Lab, bound: Between, measured: list[list[Estimate]], what: str) -> Section:
    """A claim about one figure; `measured` has the estimates of each rule. Reproduced if the bound holds on every
    string, same shape if on some."""
    verdicts = [on_strings(bound, values) for values in measured]
    found = [f"{what} {', '.join(value.text() for value in values)}" for values in measured]
    claim = Claim(ROWS[name], lab.seeds_text(), found, verdicts, with_verdict(verdicts, REPRODUCED))
    return Section([claim], {})


def on_strings(bound: Between, values: Sequence[Estimate]) -> str:
    """The verdict of a bound on each string."""
    held = [bound.holds(value.mean) for value in values]
    return verdict(all(held), any(held))


def x_lan(lab: Lab) -> Section:
    measured = [[lab.measure("x-lan", (capture(rule),), jain)] for rule in RULES]
    return by_rule("X-LAN", lab, FAIR, measured, "Jain's index")


#: Where the clients of X-MIX are, for IN and OUT, in hops from the last node.
PLACES: tuple[tuple[str, tuple[int, int]], ...] = (
    ("both at the last node", (0, 0)),
    ("IN one hop nearer", (1, 0)),
    ("OUT one hop nearer", (0, 1)),
)


def x_mix(lab: Lab) -> Section:
    """The verdict takes both clients at the last node. The table shows how the places of the clients decide."""
    rows: list[list[str]] = []
    measured: list[list[Estimate]] = []
    for rule in RULES:
        for name, before_last in PLACES:
            shares = [
                lab.measure(
                    "x-mix",
                    clients(rule, hops, ("to", "from"), (hops - before_last[0], hops - before_last[1])),
                    share,
                )
                for hops in HOPS
            ]
            rows.append([f"`{rule}`", name, *(value.text() for value in shares)])
            if name == PLACES[0][0]:
                measured.append(shares)
    what = "IN's share on 2, 3, 4 hops"
    section = by_rule("X-MIX", lab, CAPTURED, measured, what)
    heads = ["rule", "IN's share", *(f"{hops} hops" for hops in HOPS)]
    return Section(section.claims, {"X-MIX": Table(heads, rows)})


def x_out(lab: Lab) -> Section:
    measured = [
        [lab.measure("x-out", clients(rule, hops, ("from", "from"), (hops, hops - 1)), wait_ratio) for hops in HOPS]
        for rule in RULES
    ]
    what = "wait ratio on 2, 3, 4 hops"
    return by_rule("X-OUT", lab, WAITS, measured, what)


def x_in(lab: Lab) -> Section:
    measured = [
        [lab.measure("x-in", clients(rule, hops, ("to", "to"), (hops, hops - 1)), jain) for hops in HOPS]
        for rule in RULES
    ]
    return by_rule("X-IN", lab, FAIR, measured, "Jain's index on 2, 3, 4 hops")


def x_win(lab: Lab) -> Section:
    """Reproduced: a window other than the smallest and the largest has Jain's index of 0.9 and a total within 3 % of
    the highest, and the largest window has a lower index. Same shape: the largest window is less fair than another."""
    windows = (1, 2, 4, 8, 16, 32, 64)
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    totals: list[Panel] = []
    for rule in RULES:
        sets = [(*last_node(rule, 3), *(f"traffic.{flow}.max_window_packets={w}" for flow in (0, 1))) for w in windows]
        total = [lab.measure("x-win", s, tcp_mbps) for s in sets]
        index = [lab.measure("x-win", s, jain) for s in sets]
        rows.append([f"`{rule}`", "total, Mb/s", *(t.text(3) for t in total)])
        rows.append([f"`{rule}`", "Jain's index", *(i.text() for i in index)])
        totals.append(
            Panel(
                f"capture: {rule}",
                [
                    line("total goodput, Mb/s", windows, total),
                    line("Jain's index", windows, index),
                    Line("the paper's optimum", (8, 8), (0, 1), from_paper=True, dashed=True),
                ],
            )
        )
        top = max(t.mean for t in total)
        best = [w for w, t, i in zip(windows[1:-1], total[1:-1], index[1:-1], strict=True)
                if t.mean >= 0.97 * top and FAIR.holds(i.mean)]  # fmt: skip
        unfair = not FAIR.holds(index[-1].mean)
        falls = index[-1].mean < max(i.mean for i in index[:-1]) - 0.05
        verdicts.append(verdict(bool(best) and unfair, falls))
        found.append(
            f"best and fair: {', '.join(map(str, best)) or 'none'}; Jain {index[-1].text()} with {windows[-1]}"
        )
    claim = Claim(ROWS["X-WIN"], lab.seeds_text(), found, verdicts, with_verdict(verdicts, REPRODUCED))
    figure = Figure(
        "X-WIN: total goodput and fairness over the largest window",
        "The slide on the optimal TCP window size: IN and OUT over three hops. The slides print no values, "
        "and call the window of eight packets optimal.",
        "largest window, packets",
        "total goodput, Mb/s; Jain's index",
        totals,
    )
    tables = {"X-WIN": Table(["rule", "3 hops", *(f"W = {w}" for w in windows)], rows)}
    return Section([claim], tables, [figure])


def x_video(lab: Lab) -> Section:
    """Reproduced: beside 80 kb/s TCP keeps 85 % of what it has alone, beside 540 less but a fifth, beside 800 at least
    5 % more than beside 540. Same shape: beside 800 at least 95 % of that beside 540."""
    rates = (0, 80, 300, 540, 800, 1200)
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    panels: list[Panel] = []
    for rule in RULES:
        sets = [
            (capture(rule), f"traffic.1.rate_kbps={rate or 80}", f"traffic.1.count={1 if rate else 0}")
            for rate in rates
        ]
        tcp = [lab.measure("x-video", s, tcp_mbps) for s in sets]
        video = [lab.measure("x-video", s, lambda r: float(r["totals"]["udp_goodput_mbps"])) for s in sets]
        rows.append([f"`{rule}`", "TCP, Mb/s", *(t.text(3) for t in tcp)])
        rows.append([f"`{rule}`", "video, Mb/s", *(v.text(3) for v in video)])
        kept = {rate: t.mean / tcp[0].mean for rate, t in zip(rates, tcp, strict=True)}
        ordered = kept[80] >= 0.85 and 0.2 <= kept[540] < kept[80]
        again = kept[800] / kept[540]
        verdicts.append(verdict(ordered and again >= 1.05, ordered and again >= 0.95))
        panels.append(Panel(f"capture: {rule}", [line("TCP", rates, tcp), line("video", rates, video)]))
        shown = ", ".join(f"{100 * kept[rate]:.0f} % at {rate}" for rate in rates[1:])
        found.append(f"TCP keeps {shown} kb/s")
    claim = Claim(ROWS["X-VIDEO"], lab.seeds_text(), found, verdicts, with_verdict(verdicts, REPRODUCED))
    heads = ["rule", "video offered", *(f"{r} kb/s" if r else "none" for r in rates)]
    figure = Figure(
        "X-VIDEO: TCP beside a video",
        "The slides on coexistence with video streams, with the rates 80, 540 and 800 kb/s and three more.",
        "video offered, kb/s",
        "goodput, Mb/s",
        panels,
    )
    return Section([claim], {"X-VIDEO": Table(heads, rows)}, [figure])


STUDY = Study(
    "xu2002",
    'K. Xu, S. Bae, M. Gerla, S. Lee, "TCP behavior across multihop wireless networks and the wired Internet"',
    (
        Part(
            "xu2002",
            TITLE,
            HEADS_BY_RULE,
            ROWS,
            (
                Measurement(("X-LAN",), x_lan, 0.2),
                Measurement(("X-MIX",), x_mix, 1.5),
                Measurement(("X-OUT",), x_out, 0.4),
                Measurement(("X-IN",), x_in, 0.5),
                Measurement(("X-WIN",), x_win, 1.5),
                Measurement(("X-ADHOC",), x_adhoc, 3),
                Measurement(("X-VIDEO",), x_video, 2),
            ),
            ABOUT,
            REASONS,
        ),
    ),
)

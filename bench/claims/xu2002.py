"""xu2002: S. Xu, Bae, M. Gerla, S. Lee, "TCP behavior across multihop wireless networks and the wired Internet"."""

from __future__ import annotations

from collections.abc import Callable

from lab import DIFFERS, REPRODUCED, RULES, SHAPE, Claim, Estimate, Lab, capture, jain, named, summary
from simulator import Result, Sets, table, tcp_mbps

WINDOWS = (1, 2, 4, 8, 0)


def x_adhoc(lab: Lab) -> tuple[Claim, str]:
    """Fair: Jain's index at least 0.9 with W = 1 and 2. No gain: no larger window carries 5 % more than W = 2.

    An acknowledgment a segment: with a window of one, a delayed one would wait for its timer each time.
    """
    rows: list[list[str]] = []
    notes: list[str] = []
    verdicts: list[str] = []
    falls: list[float] = []
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
            fair.append(min(index[0].mean, index[1].mean) >= 0.9)
            gain.append(max(t.mean for t in total[2:]) / total[1].mean - 1)
            last.append(index[-1].mean)
        verdicts.append(REPRODUCED if all(fair) and max(gain) < 0.05 else SHAPE if all(fair) else DIFFERS)
        falls.append(min(last))
        notes.append(
            f"W ≤ 2 fair at {sum(fair)} of 3 lengths; a larger W gains up to {100 * max(0.0, *gain):.0f} %; "
            f"without limit Jain down to {min(last):.2f}"
        )
    points = named([rule for rule, verdict in zip(RULES, verdicts, strict=True) if verdict == REPRODUCED])
    claim = Claim("X-ADHOC", "fair with W = 1 or 2, no gain past 2", notes, verdicts, points)
    return claim, table(["rule", "hops", "", *(f"W = {w}" if w else "no limit" for w in WINDOWS)], rows)


HOPS = (2, 3, 4)


def share(result: Result) -> float:
    """Of the first flow in the goodput of all."""
    goodput = [float(flow["goodput_mbps"]) for flow in result["flows"]]
    return goodput[0] / sum(goodput) if sum(goodput) > 0 else 0.5


def lateness(result: Result) -> float:
    """How much later the last transfer was complete than the first, in the first one's times: 1 where one waited."""
    done = sorted(float(flow["tcp"].get("completed_s") or result["sim_s"]) for flow in result["flows"])
    return done[-1] / done[0] - 1


def clients(rule: str, hops: int, key: tuple[str, str]) -> Sets:
    """The last two nodes of a string of so many hops, as the ends that `key` says of the two flows."""
    return (capture(rule), f"topology.hops={hops}", f"traffic.0.{key[0]}={hops}", f"traffic.1.{key[1]}={hops - 1}")


def last_node(rule: str, hops: int) -> Sets:
    """A flow into a string of so many hops and one out of it, both at its last node, as in X-ADHOC."""
    return (capture(rule), f"topology.hops={hops}", f"traffic.0.to={hops}", f"traffic.1.from={hops}")


def by_rule(
    name: str, paper: str, judge: Callable[[list[Estimate]], str], measured: dict[str, list[Estimate]], what: str
) -> Claim:
    verdicts = [judge(measured[rule]) for rule in RULES]
    found = [f"{what} {', '.join(value.text() for value in measured[rule])}" for rule in RULES]
    points = named([rule for rule, verdict in zip(RULES, verdicts, strict=True) if verdict == REPRODUCED])
    return Claim(name, paper, found, verdicts, points)


def x_lan(lab: Lab) -> Claim:
    measured = {rule: [lab.measure("x-lan", (capture(rule),), jain)] for rule in RULES}
    return by_rule("X-LAN", "no significant unfairness", holds_at_least(0.9), measured, "Jain's index")


def holds_at_least(bound: float) -> Callable[[list[Estimate]], str]:
    """Reproduced on every string, same shape on some."""

    def judge(values: list[Estimate]) -> str:
        held = [value.mean >= bound for value in values]
        return REPRODUCED if all(held) else SHAPE if any(held) else DIFFERS

    return judge


def x_mix(lab: Lab) -> Claim:
    measured = {rule: [lab.measure("x-mix", last_node(rule, hops), share) for hops in HOPS] for rule in RULES}
    return by_rule("X-MIX", "IN has more than 80 %", holds_at_least(0.8), measured, "IN's share on 2, 3, 4 hops")


def x_out(lab: Lab) -> Claim:
    measured = {
        rule: [lab.measure("x-out", clients(rule, hops, ("from", "from")), lateness) for hops in HOPS] for rule in RULES
    }
    what = "the last one later by a factor, on 2, 3, 4 hops,"
    return by_rule("X-OUT", "one waits for the other (factor 1)", holds_at_least(0.5), measured, what)


def x_in(lab: Lab) -> Claim:
    measured = {rule: [lab.measure("x-in", clients(rule, hops, ("to", "to")), jain) for hops in HOPS] for rule in RULES}
    return by_rule("X-IN", "they share equally", holds_at_least(0.9), measured, "Jain's index on 2, 3, 4 hops")


def x_win(lab: Lab) -> tuple[Claim, str]:
    """An interior optimum: some window but the first and last has the highest total, or is within 3 % of it, with
    Jain's index of 0.9; and the largest window is less fair. Same shape: the largest window is less fair than the
    best of the others."""
    windows = (1, 2, 4, 8, 16, 32, 64)
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    for rule in RULES:
        sets = [(*last_node(rule, 3), *(f"traffic.{flow}.max_window_packets={w}" for flow in (0, 1))) for w in windows]
        total = [lab.measure("x-win", s, tcp_mbps) for s in sets]
        index = [lab.measure("x-win", s, jain) for s in sets]
        rows.append([f"`{rule}`", "total, Mb/s", *(t.text(3) for t in total)])
        rows.append([f"`{rule}`", "Jain's index", *(i.text() for i in index)])
        top = max(t.mean for t in total)
        best = [w for w, t, i in zip(windows[1:-1], total[1:-1], index[1:-1], strict=True)
                if t.mean >= 0.97 * top and i.mean >= 0.9]  # fmt: skip
        unfair = index[-1].mean < 0.9
        falls = index[-1].mean < max(i.mean for i in index[:-1]) - 0.05
        verdicts.append(REPRODUCED if best and unfair else SHAPE if falls else DIFFERS)
        found.append(
            f"best and fair: {', '.join(map(str, best)) or 'none'}; Jain {index[-1].text()} with {windows[-1]}"
        )
    points = named([rule for rule, verdict in zip(RULES, verdicts, strict=True) if verdict == REPRODUCED])
    claim = Claim("X-WIN", "8 packets are best and fair, more are unfair", found, verdicts, points)
    return claim, table(["rule", "3 hops", *(f"W = {w}" for w in windows)], rows)


def x_video(lab: Lab) -> tuple[Claim, str]:
    """Reproduced: at 80 kb/s TCP keeps 85 % of what it has alone; at 540 less, but a fifth; at 800 at least 5 % more
    than at 540. Same shape: at 800 no less than at 540, to 5 %."""
    rates = (0, 80, 300, 540, 800, 1200)
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
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
        verdicts.append(REPRODUCED if ordered and again >= 1.05 else SHAPE if ordered and again >= 0.95 else DIFFERS)
        shown = ", ".join(f"{100 * kept[rate]:.0f} % at {rate}" for rate in rates[1:])
        found.append(f"TCP keeps {shown} kb/s")
    points = named([rule for rule, verdict in zip(RULES, verdicts, strict=True) if verdict == REPRODUCED])
    claim = Claim("X-VIDEO", "less at 540 kb/s, more again at 800", found, verdicts, points)
    return claim, table(["rule", "video offered", *(f"{r} kb/s" if r else "none" for r in rates)], rows)


def section(lab: Lab) -> str:
    """What the page says of this paper."""
    adhoc, adhoc_table = x_adhoc(lab)
    win, win_table = x_win(lab)
    video, video_table = x_video(lab)
    claims = [x_lan(lab), x_mix(lab), x_out(lab), x_in(lab), win, adhoc, video]
    tables = ("### X-ADHOC\n", adhoc_table, "### X-WIN\n", win_table, "### X-VIDEO\n", video_table)
    return "\n".join((summary(claims), *tables))

"""kim2010's control at the gateway: how much TCP fits beside how many calls (K-REGION), what control gains without
calls (K-GAIN), and where a window stops working (K-SCALE-1 to 3). The string is that of `k-region`.

Settings are searched on some seeds and judged on others. A search tries every window and every rate, because harm to
calls is not monotone: more TCP can leave calls better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairhop.studies.lab import (
    FREE,
    MOS_GOOD,
    Lab,
    Result,
    Sets,
    ack_pacing,
    capture,
    pacing,
    tcp_mbps,
    window,
)
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
    Table,
    line,
    verdict,
    with_verdict,
)
from fairhop.studies.rows.kim2010_gateway import (
    ABOUT,
    CALLS_ALONE,
    FAR_FLOWS,
    GAIN,
    NEAR_FLOWS,
    REASONS,
    ROWS,
    SOME_GAIN,
    TCP_ALONE_MBPS,
    TITLE,
)

#: Numbers of calls on the horizontal axis of figure 5.
CALLS = (1, 3, 5, 7, 9, 10, 11)
#: Windows in segments. The gateway's queue holds 50 packets, so the largest window limits nothing.
WINDOWS = (*range(1, 17), 20, 24, 32, 48, 64, 96, 128)
QUICK_WINDOWS = (*range(1, 7), 8, 10, 12, 16, 24, 128)
#: Rates in kb/s, 12 % apart, up to more than one hop alone carries (8.6 Mb/s).
RATES = tuple(round(20 * 1.12**step, -1 if step > 20 else 0) for step in range(55))
#: The winner's neighbours that are tried after the sweep, as ratios.
NEIGHBOURS = (0.92, 0.96, 1.04, 1.08)
#: The override of each actuator by its window or rate, and the values that are tried.
ACTUATORS: dict[str, tuple[Callable[[float], str], Sequence[float]]] = {
    "window": (lambda segments: window(int(segments)), WINDOWS),
    "data pacing": (pacing, RATES),
    "ACK pacing": (ack_pacing, RATES),
}
#: Numbers of downloads that are tried, up to the first under which a call is not good.
FLOWS = (1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32)
#: Seeds on which settings are searched, and the first seed on which the chosen one is judged.
SEARCHED = range(1, 4)
FIRST_JUDGED = 11
#: Seeds on which a setting of K-REGION and K-SCALE is judged, at most.
FEW = 5
#: A setting is tried on all searched seeds if it carries this fraction of the best so far on the first seed.
WORTH_A_LOOK = 0.95
#: Payload of a segment, and a round trip shorter than any (the shortest Internet delay is 5 ms one way).
SEGMENT_BITS, MIN_RTT_S = 8 * 1460, 0.01


def worst_call(result: Result) -> float:
    """The lowest MOS of a call (mean of both directions); 5 without calls."""
    return min((float(call["mos"]) for call in result["calls"]), default=5.0)


@dataclass(frozen=True)
class Setting:
    """An actuator with its window in segments or its rate in kb/s."""

    actuator: str
    value: float

    def control(self) -> str:
        return ACTUATORS[self.actuator][0](self.value)

    def ceiling_mbps(self) -> float:
        """Goodput that one flow cannot exceed: the rate, or a window per shortest round trip (both without headers)."""
        return self.value * SEGMENT_BITS / 1e6 / MIN_RTT_S if self.actuator == "window" else self.value / 1e3

    def text(self) -> str:
        return f"{self.value:g} segments" if self.actuator == "window" else f"{self.value:g} kb/s"


@dataclass(frozen=True)
class Point:
    """A string with its calls and downloads under one rule."""

    rule: str
    calls: int
    flows: int = 1
    more: Sets = ()

    def sets(self, control: str) -> Sets:
        return (
            capture(self.rule),
            f"traffic.0.count={self.calls}",
            f"traffic.1.count={self.flows}",
            *self.more,
            control,
        )

    def tcp(self, lab: Lab, control: str) -> Estimate:
        return lab.measure("k-region", self.sets(control), tcp_mbps)

    def worst(self, lab: Lab, control: str) -> Estimate:
        return lab.measure("k-region", self.sets(control), worst_call)

    def all_good(self, lab: Lab, control: str) -> bool:
        """Whether every call is good on every seed."""
        return min(lab.by_seed("k-region", self.sets(control), worst_call)) >= MOS_GOOD


def values_of(lab: Lab, actuator: str) -> Sequence[float]:
    """The values that are tried, from the loosest on: all, or in a quick study every third rate and 12 windows."""
    values = ACTUATORS[actuator][1]
    if lab.quick:
        values = QUICK_WINDOWS if actuator == "window" else values[::3]
    return sorted(values, reverse=True)


def best(lab: Lab, point: Point, actuator: str) -> Setting | None:
    """The setting with which TCP carries most while every call is good on every searched seed; none if there is none.

    Settings are tried from the loosest to the tightest, until a setting's ceiling is below what the best one carries.
    A setting that is bad for calls or clearly worse for TCP on the first seed is not tried on the others.
    """
    searched, first = lab.over(searched_seeds(lab)), lab.over(SEARCHED[:1])
    top_mbps, found = 0.0, None

    def consider(setting: Setting) -> None:
        nonlocal top_mbps, found
        control = setting.control()
        if not point.all_good(first, control) or point.tcp(first, control).mean < WORTH_A_LOOK * top_mbps:
            return
        if point.all_good(searched, control) and point.tcp(searched, control).mean > top_mbps:
            top_mbps, found = point.tcp(searched, control).mean, setting

    for value in values_of(lab, actuator):
        setting = Setting(actuator, value)
        if setting.ceiling_mbps() < top_mbps:
            break
        consider(setting)
    if found and actuator != "window" and not lab.quick:
        for value in [found.value * ratio for ratio in NEIGHBOURS]:
            consider(Setting(actuator, round(value)))
    return found


def judged(lab: Lab, at_most: int) -> Lab:
    """The laboratory with the seeds on which chosen settings are judged."""
    return lab.over(range(FIRST_JUDGED, FIRST_JUDGED + min(at_most, len(lab.seeds))))


def searched_seeds(lab: Lab) -> range:
    """The seeds on which settings are searched."""
    return SEARCHED[:1] if lab.quick else SEARCHED


def seeds_text(judge: Lab) -> str:
    return f"search {judge.over(searched_seeds(judge)).seeds_text()}, judge {judge.seeds_text()}"


@dataclass(frozen=True)
class Cell:
    """The best setting of an actuator beside some calls, as judged. Without a good setting TCP carries nothing."""

    text: str
    tcp: Estimate


def cell(lab: Lab, judge: Lab, point: Point, actuator: str) -> Cell:
    setting = best(lab, point, actuator)
    if setting is None:
        return Cell("0", Estimate(0.0, 0.0))
    tcp, score = point.tcp(judge, setting.control()), point.worst(judge, setting.control())
    good = score.mean >= MOS_GOOD
    text = f"{tcp.text()} at {setting.text()}" + ("" if good else f", MOS {score.mean:.2f}")
    return Cell(text, tcp if good else Estimate(0.0, 0.0))


def k_region(lab: Lab) -> Section:
    judge = judged(lab, FEW)
    places = [(rule, name, calls) for rule in RULES for name in ACTUATORS for calls in CALLS]
    cells = dict(
        zip(places, lab.each(lambda p: cell(lab, judge, Point(p[0], p[2]), p[1]), places), strict=True),
    )
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    panels: list[Panel] = []
    paper = Line("nominal line of the paper", (0, CALLS_ALONE), (TCP_ALONE_MBPS, 0), from_paper=True, dashed=True)
    for rule in RULES:
        alone = Point(rule, 0).tcp(judge, FREE).mean
        carried: dict[str, list[float]] = {}
        drawn = [paper, Line("nominal line, ours", (0, CALLS_ALONE), (alone, 0), dashed=True)]
        for name in ACTUATORS:
            of_name = [cells[rule, name, calls] for calls in CALLS]
            carried[name] = [each.tcp.mean for each in of_name]
            rows.append([f"`{rule}`", name, *(each.text for each in of_name)])
            drawn.append(line(name, CALLS, [each.tcp for each in of_name]))
        panels.append(Panel(f"capture: {rule}", drawn))
        nominals = [max(0.0, alone * (1 - calls / CALLS_ALONE)) for calls in CALLS]
        ahead = sum(w > max(d, a) for w, d, a in zip(*(carried[name] for name in ACTUATORS), strict=True))
        best_mbps = [max(column) for column in zip(*carried.values(), strict=True)]
        over = [
            calls for calls, m, nominal in zip(CALLS, best_mbps, nominals, strict=True) if m > max(1.05 * nominal, 0.02)
        ]
        last = max((calls for calls, m in zip(CALLS, best_mbps, strict=True) if m > 0), default=0)
        shape = not over and last >= 10
        verdicts.append(verdict(shape and 2 * ahead > len(CALLS), shape))
        position = f"over the nominal line at {', '.join(map(str, over))} calls" if over else "under the nominal line"
        found.append(f"windows best at {ahead} of {len(CALLS)}, TCP up to {last} calls, {position}")
    claim = Claim(ROWS["K-REGION"], seeds_text(judge), found, verdicts, with_verdict(verdicts, REPRODUCED, SHAPE))
    heads = ["rule", "TCP in Mb/s beside", *(f"{calls} call{'s' * (calls > 1)}" for calls in CALLS)]
    figure = Figure(
        "K-REGION: capacity shared between TCP and calls",
        "Figure 5. Its text gives the ends of the nominal line, 1.35 Mb/s without calls and 11 calls without TCP, but "
        "no value of a curve. A setting under which a call fails on the judging seeds counts as no TCP.",
        "calls with MOS of at least 3.6",
        "TCP goodput, Mb/s",
        panels,
    )
    return Section([claim], {"K-REGION": Table(heads, rows)}, [figure])


def k_gain(lab: Lab) -> Section:
    judge = judged(lab, len(lab.seeds))
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    for rule in RULES:
        point = Point(rule, 0)
        plain = point.tcp(judge, FREE)
        gains: list[tuple[float, str]] = []
        cells: list[str] = []
        for name in ACTUATORS:
            setting = best(lab, point, name)
            assert setting is not None  # without calls every setting qualifies
            tcp = point.tcp(judge, setting.control())
            gain = tcp.mean / plain.mean - 1
            gains.append((gain, f"{name} at {setting.text()}: {plain.mean:.2f} → {tcp.mean:.2f} Mb/s"))
            cells.append(f"{tcp.text()} at {setting.text()} ({100 * gain:+.0f} %)")
        rows.append([f"`{rule}`", plain.text(), *cells])
        gain, how = max(gains)
        verdicts.append(verdict(GAIN.holds(gain), gain > SOME_GAIN))
        found.append(f"{100 * gain:+.0f} % ({how})")
    claim = Claim(ROWS["K-GAIN"], seeds_text(judge), found, verdicts, with_verdict(verdicts, REPRODUCED))
    return Section([claim], {"K-GAIN": Table(["rule", "no control, Mb/s", *ACTUATORS], rows)})


def max_flows(lab: Lab, rule: str, more: Sets, control: str) -> int:
    """The largest number of downloads up to which three calls stay good."""
    good = 0
    for flows in FLOWS:
        if Point(rule, 3, flows, more).worst(lab, control).mean < MOS_GOOD:
            break
        good = flows
    return good


#: Internet delays of K-SCALE-1 and -2: as the scenario has it, and an RTT of 150 ms.
NEAR, FAR = (), ("internet.delay_ms=75",)
#: ACKs of the downloads: the scenario's, and those of ns-2's default receiver.
ACKS: tuple[tuple[str, Sets], ...] = (
    ("one for two segments", ()),
    ("one for each segment", ("traffic.1.delayed_ack_segments=1",)),
)


def k_scale(lab: Lab) -> Section:
    """The smallest window is one segment: how many downloads can have one beside three calls, and how many can be
    paced. The table shows rule `none` with an ACK for each segment too, which has no part in the verdicts."""
    few = lab.few(3)
    rows: list[list[str]] = []
    near, far = [], []
    verdicts_near, verdicts_far = [], []
    drawn: list[tuple[str, tuple[int, int, int]]] = []
    for rule in RULES:
        for acks, more in ACKS[: 2 if rule == "none" else 1]:
            short = max_flows(few, rule, (*more, *NEAR), window(1))
            distant = max_flows(few, rule, (*more, *FAR), window(1))
            paced = max_flows(few, rule, (*more, *NEAR), pacing(400))
            shown = (str(n) if n < FLOWS[-1] else f"{n} or more" for n in (short, distant, paced))
            rows.append([f"`{rule}`", acks, *shown])
            if more:
                continue
            limit = f"no limit up to {paced}" if paced == FLOWS[-1] else f"up to {paced}"
            near.append(f"windows up to {short} flows, pacing at 400 kb/s {limit}")
            far.append(f"windows up to {distant} flows")
            exists = short < FLOWS[-1] and paced > short
            verdicts_near.append(verdict(exists and NEAR_FLOWS.holds(short), exists))
            drawn.append((f"capture: {rule}", (short, distant, paced)))
            later = distant > short
            verdicts_far.append(verdict(later and FAR_FLOWS.holds(distant), later))
    claims = [
        Claim(ROWS[name], few.seeds_text(), found, verdicts, with_verdict(verdicts, REPRODUCED, SHAPE))
        for name, found, verdicts in (("K-SCALE-1", near, verdicts_near), ("K-SCALE-2", far, verdicts_far))
    ]
    heads = ["rule", "ACKs", "flows, window of 1", "flows, window of 1, RTT 150 ms", "flows, pacing at 400 kb/s"]
    kinds = ("window of 1", "window of 1, 150 ms", "pacing, 400 kb/s")
    paper = Line("kim2010", (0, 1), (11, 15), from_paper=True)
    figure = Figure(
        "K-SCALE: downloads beside three good calls",
        f"The paper gives 11 and 15 flows in its text, without a figure. At most {FLOWS[-1]} flows were tried.",
        "",
        "TCP flows",
        [Panel(title, [paper, Line("Fairhop", (0, 1, 2), counts)]) for title, counts in drawn],
        kinds,
    )
    return Section(claims, {"K-SCALE-1 and -2": Table(heads, rows)}, [figure])


def k_scale_3(lab: Lab) -> Section:
    """Six calls: the smallest window that carries nine tenths of what the best data pacing carries, near and with
    100 ms more of RTT; and the worst call under that window (the largest, if none is enough) and under pacing."""
    judge = judged(lab, FEW)
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    for rule in RULES:
        needed: list[int] = []
        scores: list[tuple[float, float]] = []
        for place, delay_ms in (("near", 5), ("far", 55)):
            point = Point(rule, 6, more=(f"internet.delay_ms={delay_ms}",))
            setting = best(lab, point, "data pacing") or Setting("data pacing", RATES[0])
            paced = point.tcp(judge, setting.control())
            enough = (w for w in WINDOWS if point.tcp(judge, window(w)).mean >= 0.9 * paced.mean)
            needed.append(next(enough, 0))
            by_window, by_pace = (
                point.worst(judge, control) for control in (window(needed[-1] or WINDOWS[-1]), setting.control())
            )
            scores.append((by_window.mean, by_pace.mean))
            rows.append([
                f"`{rule}`", place, f"{paced.text()} at {setting.text()}", by_pace.text(), str(needed[-1] or "none"),
                point.tcp(judge, window(needed[-1] or WINDOWS[-1])).text(), by_window.text(),
            ])  # fmt: skip
        grows, worse = needed[1] > needed[0] > 0, needed[1] > 0 and scores[1][0] < scores[1][1]
        verdicts.append(verdict(grows and worse, grows or worse))
        found.append(
            f"W = {needed[0] or 'none'} near, {needed[1] or 'none'} far"
            + (f"; MOS far {scores[1][0]:.2f}, paced {scores[1][1]:.2f}" if needed[1] else "")
        )
    claim = Claim(ROWS["K-SCALE-3"], seeds_text(judge), found, verdicts, with_verdict(verdicts, REPRODUCED, SHAPE))
    heads = ["rule", "", "data pacing, Mb/s", "MOS", "window with 90 % of it", "Mb/s", "MOS"]
    return Section([claim], {"K-SCALE-3": Table(heads, rows)})


COARSE = "Settings are searched on one seed, among every third rate and half of the windows."

PART = Part(
    "gateway",
    TITLE,
    HEADS_BY_RULE,
    ROWS,
    (
        Measurement(("K-REGION",), k_region, 150, COARSE),
        Measurement(("K-GAIN",), k_gain, 20, COARSE),
        Measurement(("K-SCALE-1", "K-SCALE-2"), k_scale, 25),
        Measurement(("K-SCALE-3",), k_scale_3, 30, COARSE),
    ),
    ABOUT,
    REASONS,
)

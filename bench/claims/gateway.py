"""kim2010's control at the gateway: how much TCP fits beside how many calls (K-REGION), what control gains without
calls (K-GAIN), and where a window stops working (K-SCALE-1 to 3). The string is that of `k-region`.

Settings are searched on some seeds and judged on others. A search tries every window and every rate, because harm to
calls is not monotone: more TCP can leave calls better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab import DIFFERS, REPRODUCED, RULES, SHAPE, Claim, Estimate, Lab, Section, capture, with_verdict
from simulator import FREE, MOS_GOOD, Result, Sets, ack_pacing, pacing, table, tcp_mbps, window

#: Numbers of calls on the horizontal axis of figure 5.
CALLS = (1, 3, 5, 7, 9, 10, 11)
#: Windows in segments. The gateway's queue holds 50 packets, so the largest window limits nothing.
WINDOWS = (*range(1, 17), 20, 24, 32, 48, 64, 96, 128)
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


def best(lab: Lab, point: Point, actuator: str) -> Setting | None:
    """The setting with which TCP carries most while every call is good on every searched seed; none if there is none.

    Settings are tried from the loosest to the tightest, until a setting's ceiling is below what the best one carries.
    A setting that is bad for calls or clearly worse for TCP on the first seed is not tried on the others.
    """
    searched, first = lab.over(SEARCHED), lab.over(SEARCHED[:1])
    top_mbps, found = 0.0, None

    def consider(setting: Setting) -> None:
        nonlocal top_mbps, found
        control = setting.control()
        if not point.all_good(first, control) or point.tcp(first, control).mean < WORTH_A_LOOK * top_mbps:
            return
        if point.all_good(searched, control) and point.tcp(searched, control).mean > top_mbps:
            top_mbps, found = point.tcp(searched, control).mean, setting

    for value in sorted(ACTUATORS[actuator][1], reverse=True):
        setting = Setting(actuator, value)
        if setting.ceiling_mbps() < top_mbps:
            break
        consider(setting)
    if found and actuator != "window":
        for value in [found.value * ratio for ratio in NEIGHBOURS]:
            consider(Setting(actuator, round(value)))
    return found


def judged(lab: Lab, at_most: int) -> Lab:
    """The laboratory with the seeds on which chosen settings are judged."""
    return lab.over(range(FIRST_JUDGED, FIRST_JUDGED + min(at_most, len(lab.seeds))))


def seeds_text(judge: Lab) -> str:
    return f"search {SEARCHED[0]}-{SEARCHED[-1]}, judge {judge.seeds_text()}"


def k_region(lab: Lab) -> Section:
    judge = judged(lab, FEW)
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    for rule in RULES:
        alone = Point(rule, 0).tcp(judge, FREE).mean
        carried: dict[str, list[float]] = {name: [] for name in ACTUATORS}
        for name in ACTUATORS:
            cells: list[str] = []
            for calls in CALLS:
                point = Point(rule, calls)
                setting = best(lab, point, name)
                if setting is None:
                    carried[name].append(0.0)
                    cells.append("0")
                    continue
                tcp, score = point.tcp(judge, setting.control()), point.worst(judge, setting.control())
                good = score.mean >= MOS_GOOD
                carried[name].append(tcp.mean if good else 0.0)
                cells.append(f"{tcp.text()} at {setting.text()}" + ("" if good else f", MOS {score.mean:.2f}"))
            rows.append([f"`{rule}`", name, *cells])
        line = [max(0.0, alone * (1 - calls / 11)) for calls in CALLS]
        ahead = sum(w > max(d, a) for w, d, a in zip(*(carried[name] for name in ACTUATORS), strict=True))
        best_mbps = [max(column) for column in zip(*carried.values(), strict=True)]
        over = [
            calls for calls, m, nominal in zip(CALLS, best_mbps, line, strict=True) if m > max(1.05 * nominal, 0.02)
        ]
        last = max((calls for calls, m in zip(CALLS, best_mbps, strict=True) if m > 0), default=0)
        shape = not over and last >= 10
        verdicts.append(REPRODUCED if shape and 2 * ahead > len(CALLS) else SHAPE if shape else DIFFERS)
        position = f"over the nominal line at {', '.join(map(str, over))} calls" if over else "under the nominal line"
        found.append(f"windows best at {ahead} of {len(CALLS)}, TCP up to {last} calls, {position}")
    paper = "windows above both pacings, under the nominal line, TCP up to 10 calls"
    claim = Claim("K-REGION", paper, seeds_text(judge), found, verdicts, with_verdict(verdicts, REPRODUCED, SHAPE))
    heads = ["rule", "TCP in Mb/s beside", *(f"{calls} call{'s' * (calls > 1)}" for calls in CALLS)]
    return Section([claim], {"K-REGION": table(heads, rows)})


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
        verdicts.append(REPRODUCED if gain >= 0.25 else SHAPE if gain > 0.05 else DIFFERS)
        found.append(f"{100 * gain:+.0f} % ({how})")
    claim = Claim("K-GAIN", "+40 % goodput", seeds_text(judge), found, verdicts, with_verdict(verdicts, REPRODUCED))
    return Section([claim], {"K-GAIN": table(["rule", "no control, Mb/s", *ACTUATORS], rows)})


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
            verdicts_near.append(REPRODUCED if exists and 8 <= short <= 14 else SHAPE if exists else DIFFERS)
            later = distant > short
            verdicts_far.append(REPRODUCED if later and 12 <= distant <= 19 else SHAPE if later else DIFFERS)
    claims = [
        Claim(
            "K-SCALE-1", "windows fail past 11 flows, pacing does not", few.seeds_text(), near, verdicts_near,
            with_verdict(verdicts_near, REPRODUCED, SHAPE),
        ),
        Claim(
            "K-SCALE-2", "past 15 with an RTT of 150 ms", few.seeds_text(), far, verdicts_far,
            with_verdict(verdicts_far, REPRODUCED, SHAPE),
        ),
    ]  # fmt: skip
    heads = ["rule", "ACKs", "flows, window of 1", "flows, window of 1, RTT 150 ms", "flows, pacing at 400 kb/s"]
    return Section(claims, {"K-SCALE-1 and -2": table(heads, rows)})


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
        verdicts.append(REPRODUCED if grows and worse else SHAPE if grows or worse else DIFFERS)
        found.append(
            f"W = {needed[0] or 'none'} near, {needed[1] or 'none'} far"
            + (f"; MOS far {scores[1][0]:.2f}, paced {scores[1][1]:.2f}" if needed[1] else "")
        )
    paper = "W = 2 near, 7 far, where its bursts hurt the calls"
    claim = Claim("K-SCALE-3", paper, seeds_text(judge), found, verdicts, with_verdict(verdicts, REPRODUCED, SHAPE))
    heads = ["rule", "", "data pacing, Mb/s", "MOS", "window with 90 % of it", "Mb/s", "MOS"]
    return Section([claim], {"K-SCALE-3": table(heads, rows)})


MEASUREMENTS: dict[str, Callable[[Lab], Section]] = {
    "K-REGION": k_region,
    "K-GAIN": k_gain,
    "K-SCALE": k_scale,
    "K-SCALE-3": k_scale_3,
}

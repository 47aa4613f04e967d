"""kim2010's control at the gateway: how much TCP fits beside how many calls (K-REGION, K-GAIN), and how far a window
goes (K-SCALE-1 to 3). The string of k-region; control stands in the scenario as `[control]`."""

from __future__ import annotations

from lab import DIFFERS, REPRODUCED, RULES, SHAPE, Claim, Lab, capture, named, summary
from simulator import FREE, MOS_GOOD, Result, Sets, ack_pacing, pacing, table, tcp_mbps, window

#: Calls on the horizontal axis of figure 5.
CALLS = (1, 3, 5, 7, 9, 10, 11)
#: Windows in segments, from the least that does not stall.
WINDOWS = range(1, 17)
#: Rates in kb/s, in steps of what a second decimal of Mb/s shows.
STEP_KBPS, MOST_KBPS = 50, 1800
ACTUATORS = ("window", "data pacing", "ACK pacing")
FLOWS = (1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32)
#: Seeds of a point: each is the end of a search.
FEW = 3


def worst_call(result: Result) -> float:
    """The least mean of both directions of a call; a network without calls has no bad one."""
    return min((float(call["mos"]) for call in result["calls"]), default=5.0)


class Point:
    """A string, its calls and its downloads; what they carry under a control."""

    def __init__(self, lab: Lab, rule: str, calls: int, flows: int = 1, more: Sets = ()) -> None:
        self.lab = lab
        self.sets: Sets = (capture(rule), f"traffic.0.count={calls}", f"traffic.1.count={flows}", *more)

    def tcp(self, control: str) -> float:
        return self.lab.measure("k-region", (*self.sets, control), tcp_mbps).mean

    def hears(self, control: str) -> float:
        return self.lab.measure("k-region", (*self.sets, control), worst_call).mean

    def most_window(self) -> tuple[float, int]:
        """The most TCP under a window with which calls are good, and that window; 0 where none is. Two bad windows in a
        row end the search."""
        best, at, bad = 0.0, 0, 0
        for segments in WINDOWS:
            if self.hears(window(segments)) < MOS_GOOD:
                bad += 1
                if bad == 2:
                    break
                continue
            bad = 0
            carried = self.tcp(window(segments))
            if carried > best:
                best, at = carried, segments
        return best, at

    def most_rate(self, control: str) -> tuple[float, int]:
        """The same for a rate, by halving."""
        by = pacing if control == "data pacing" else ack_pacing
        good, bad = 0, MOST_KBPS // STEP_KBPS
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if self.hears(by(middle * STEP_KBPS)) >= MOS_GOOD else (good, middle)
        return (self.tcp(by(good * STEP_KBPS)), good * STEP_KBPS) if good else (0.0, 0)

    def most(self, actuator: str) -> float:
        return (self.most_window() if actuator == "window" else self.most_rate(actuator))[0]


def k_region(lab: Lab) -> tuple[Claim, str]:
    """Reproduced: windows carry more than both pacings for most numbers of calls, everything is under the nominal line,
    and there is TCP up to 10 calls. Same shape: the last two."""
    rows: list[list[str]] = []
    found: list[str] = []
    verdicts: list[str] = []
    for rule in RULES:
        alone = Point(lab, rule, 0).tcp(FREE)
        carried = {name: [Point(lab, rule, n).most(name) for n in CALLS] for name in ACTUATORS}
        rows.extend([f"`{rule}`", name, *(f"{mbps:.2f}" for mbps in carried[name])] for name in ACTUATORS)
        line = [max(0.0, alone * (1 - n / 11)) for n in CALLS]
        ahead = sum(w > max(d, a) for w, d, a in zip(*(carried[name] for name in ACTUATORS), strict=True))
        best = [max(column) for column in zip(*carried.values(), strict=True)]
        under = all(b <= max(1.05 * nominal, 0.02) for b, nominal in zip(best, line, strict=True))
        to_ten = best[CALLS.index(10)] > 0
        shape = under and to_ten
        verdicts.append(REPRODUCED if shape and 2 * ahead > len(CALLS) else SHAPE if shape else DIFFERS)
        last = max((n for n, b in zip(CALLS, best, strict=True) if b > 0), default=0)
        found.append(
            f"windows ahead at {ahead} of {len(CALLS)}, TCP up to {last} calls, "
            f"{'under' if under else 'over'} the nominal line"
        )
    points = named([rule for rule, verdict in zip(RULES, verdicts, strict=True) if verdict != DIFFERS])
    paper = "windows above both pacings, under the nominal line, TCP up to 10 calls"
    claim = Claim("K-REGION", paper, found, verdicts, points)
    return claim, table(["rule", "most TCP, Mb/s, beside calls", *map(str, CALLS)], rows)


def k_gain(lab: Lab) -> Claim:
    """Reproduced: the best control of a download alone carries a quarter more than none."""
    found: list[str] = []
    verdicts: list[str] = []
    for rule in RULES:
        point = Point(lab, rule, 0)
        plain = point.tcp(FREE)
        best, segments = max((point.tcp(window(w)), w) for w in WINDOWS)
        gain = best / plain - 1
        verdicts.append(REPRODUCED if gain >= 0.25 else SHAPE if gain > 0.05 else DIFFERS)
        found.append(f"{100 * gain:+.0f} % ({plain:.2f} → {best:.2f} Mb/s at {segments} segments)")
    points = named([rule for rule, verdict in zip(RULES, verdicts, strict=True) if verdict == REPRODUCED])
    return Claim("K-GAIN", "+40 % goodput", found, verdicts, points)


def most_flows(lab: Lab, rule: str, more: Sets, control: str) -> int:
    """Downloads with which three calls are good."""
    good = 0
    for flows in FLOWS:
        if Point(lab, rule, 3, flows, more).hears(control) < MOS_GOOD:
            break
        good = flows
    return good


def k_scale(lab: Lab) -> list[Claim]:
    """The least window is a segment; how many downloads may have one beside three calls, and how many may be paced."""
    near, far = [], []
    verdict_near, verdict_far = [], []
    for rule in RULES:
        short = most_flows(lab, rule, (), window(1))
        distant = most_flows(lab, rule, ("internet.delay_ms=75",), window(1))
        paced = most_flows(lab, rule, (), pacing(400))
        limit = "no limit up to 32" if paced == FLOWS[-1] else f"up to {paced}"
        near.append(f"windows up to {short} flows, pacing at 400 kb/s {limit}")
        far.append(f"windows up to {distant} flows")
        exists = short < FLOWS[-1] and paced > short
        verdict_near.append(REPRODUCED if exists and 8 <= short <= 14 else SHAPE if exists else DIFFERS)
        later = distant > short
        verdict_far.append(REPRODUCED if later and 12 <= distant <= 19 else SHAPE if later else DIFFERS)
    return [
        Claim("K-SCALE-1", "windows fail past 11 flows, pacing does not", near, verdict_near, ""),
        Claim("K-SCALE-2", "past 15 with an RTT of 150 ms", far, verdict_far, ""),
    ]


def k_scale_3(lab: Lab) -> Claim:
    """Six calls: the least window that carries nine tenths of what pacing carries, near and 100 ms farther, and the
    calls under it and under pacing."""
    found: list[str] = []
    verdicts: list[str] = []
    for rule in RULES:
        needed: list[int] = []
        heard: list[tuple[float, float]] = []
        for delay_ms in (5, 55):
            point = Point(lab, rule, 6, more=(f"internet.delay_ms={delay_ms}",))
            carried, kbps = point.most_rate("data pacing")
            enough = [w for w in WINDOWS if point.tcp(window(w)) >= 0.9 * carried]
            needed.append(min(enough, default=0))
            heard.append((point.hears(window(max(1, needed[-1]))), point.hears(pacing(max(STEP_KBPS, kbps)))))
        grows, worse = needed[1] > needed[0] > 0, heard[1][0] < heard[1][1]
        verdicts.append(REPRODUCED if grows and worse else SHAPE if grows or worse else DIFFERS)
        found.append(
            f"W = {needed[0] or 'none'} near, {needed[1] or 'none'} far; "
            f"there MOS {heard[1][0]:.2f}, paced {heard[1][1]:.2f}"
        )
    return Claim("K-SCALE-3", "W = 2 near, 7 far, where its bursts hurt the calls", found, verdicts, "")


def section(lab: Lab) -> str:
    """What the page says of control at the gateway."""
    few = Lab(min(FEW, len(lab.seeds)))
    region, region_table = k_region(few)
    claims = [region, k_gain(few), *k_scale(few), k_scale_3(few)]
    return "\n".join((summary(claims), "### K-REGION\n", region_table))

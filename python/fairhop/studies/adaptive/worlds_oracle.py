"""The best fixed setting of a drawn world: chosen on some seeds, judged on others.

Tried are: no control, a window for each flow, one total rate, and both together. Windows and rates are ladders from
tight to loose; the search climbs them with one seed, from coarse steps to fine ones, and confirms the best with the
other seed. All settings see the same random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairhop.studies.adaptive.worlds import World
from fairhop.studies.adaptive.worlds_runs import CHOOSING, JUDGING, Figures, WorldRuns
from fairhop.studies.lab import FREE, Sets, ack_pacing, pacing, window

#: Rates in kb/s, 12 % apart.
RATES = [round(15 * 1.12**step, 1) for step in range(70)]
WINDOWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
#: If fewer call-seconds than this are clear under the tightest settings, no setting makes calls good.
HOPELESS = 0.8
#: Settings that are run with the second seed, at most.
FINALISTS = 4

Value = tuple[bool, float]


@dataclass(frozen=True)
class Best:
    """The best fixed setting and its figures on the seeds that judge."""

    setting: Sets
    figures: Figures
    #: Whether the setting made calls good on the seeds that chose it.
    chosen_good: bool


def value(figures: Figures) -> Value:
    """Good calls first, then data."""
    return (True, figures.data_mbps) if figures.good else (False, figures.clear)


def both(segments: int, kbps: float) -> str:
    """A window for all flows together, and their total rate."""
    return f'control={{ kind = "combined", window_packets = {segments}, rate_kbps = {kbps:g} }}'


class Search:
    """The search in one world."""

    def __init__(self, runs: WorldRuns, world: World) -> None:
        self.runs, self.world = runs, world
        self.tried: dict[str, Value] = {}
        data = world.entries("bulk", "quic")
        self.flows = sum(int(entry.get("count", 1)) for entry in data if "size_bytes" not in entry)
        downloads_only = all(entry["to"] not in {"internet", "server"} for entry in data)
        quic = bool(world.entries("quic"))
        # The data of uploads passes no pacer of the gateway, but their ACKs do. QUIC's ACKs cannot be read.
        self.by_rate: Callable[[float], str] = pacing if downloads_only or quic else ack_pacing

    def value(self, setting: str) -> Value:
        """With the first seed."""
        if setting not in self.tried:
            self.tried[setting] = value(self.runs.one(self.world, (setting,), CHOOSING[0]))
        return self.tried[setting]

    def climb(self, ladder: Sequence[str], at: int, strides: Sequence[int]) -> int:
        """The best step near `at`; each stride is repeated until it finds nothing better."""
        for stride in strides:
            while True:
                near = [step for step in (at - stride, at + stride) if 0 <= step < len(ladder)]
                best = max([at, *near], key=lambda step: self.value(ladder[step]))
                if best == at:
                    break
                at = best
        return at

    def sure(self, setting: str) -> Value:
        """With all seeds that choose."""
        return value(self.runs.mean(self.world, (setting,), CHOOSING))

    def best(self) -> Best:
        free = self.runs.one(self.world, (FREE,), CHOOSING[0])
        self.value(FREE)
        rates = [self.by_rate(kbps) for kbps in RATES]
        windows = [window(segments) for segments in WINDOWS]
        tightest = (rates[0], windows[0])
        if self.world.has_calls and not free.good:
            clear = max(self.runs.one(self.world, (setting,), CHOOSING[0]).clear for setting in tightest)
            if clear < HOPELESS:
                return self.judged(max((*tightest, FREE), key=self.value), chosen_good=False)
        # Calls leave less to the data flows than these take by themselves.
        guess = free.data_mbps * 1e3 * (0.6 if self.world.has_calls and not free.good else 1.1)
        start = min(range(len(RATES)), key=lambda step: abs(RATES[step] - guess))
        rate = self.climb(rates, start, (6, 3, 1))
        delay_s = 2e-3 * self.world.delay_ms + 0.02 * self.world.hops
        in_flight = RATES[rate] * 1e3 / 8 * delay_s / 1460 / max(1, self.flows)
        start = min(range(len(WINDOWS)), key=lambda step: abs(WINDOWS[step] - in_flight))
        step = self.climb(windows, start, (2, 1))
        segments = WINDOWS[step] * max(1, self.flows)
        for kbps, total in ((RATES[rate], 2 * segments), (RATES[min(rate + 2, len(RATES) - 1)], segments)):
            if self.by_rate is pacing:
                self.value(both(total, kbps))
        order = sorted(self.tried, key=lambda setting: self.tried[setting], reverse=True)
        finalists = [setting for setting in order if self.tried[setting][0]][:FINALISTS]
        # A rate that is good by chance has a tighter one beside it that is good more surely.
        finalists += [rates[max(0, rate - 2)], windows[max(0, step - 1)]] if finalists else order[:1]
        chosen = max(finalists, key=self.sure)
        return self.judged(chosen, chosen_good=self.sure(chosen)[0])

    def judged(self, setting: str, *, chosen_good: bool) -> Best:
        return Best((setting,), self.runs.mean(self.world, (setting,), JUDGING), chosen_good)


def seek(runs: WorldRuns, world: World) -> Best:
    """The best fixed setting of a world."""
    return Search(runs, world).best()

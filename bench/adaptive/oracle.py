"""The oracle: the best fixed setting of a cell, found by a sweep.

Best is what carries most TCP among the settings with which calls are good. Swept are aggregate rates (of data, or of
what ACKs acknowledge, by what the direction obeys), windows, and no control at all. A window of all flows together is
that of each, as a sender has whole segments in flight and at least one: nothing new would be swept with it.

The sweep climbs. Along either ladder, calls are good up to some step and then not, and TCP carries more up to some step
and then less; so from where it is the search goes to the better neighbour, first in long strides with one seed, at last
step by step with all seeds, where it also looks past one step that is bad by chance.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grid import Cell
from simulator import FREE, ack_pacing, pacing, window
from store import SEEDS, Figures, Runs, lines_of

#: Rates in kb/s, 12 % apart.
RATES = [round(30 * 1.12**step, 1) for step in range(56)]
WINDOWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
#: With less clear than this under the gentlest settings, no other will do.
HOPELESS = 0.8
#: A window is looked at closely if one seed shows so much of what the best rate carries.
WORTH_A_LOOK = 0.95


@dataclass(frozen=True)
class Outcome:
    """What the oracle found: the best setting and what it does, as a mean of the seeds; if calls cannot be had, the
    setting under which they are least bad."""

    cell: str
    setting: str
    goodput_mbps: float
    clear: float
    calls_can: bool


#: What is to be as large as possible: calls good first, then TCP.
Value = tuple[bool, float]


def value(figures: Figures) -> Value:
    return (True, figures.goodput_mbps) if figures.good else (False, figures.clear)


class Ladder:
    """Settings in order, from gentle to none, in one cell."""

    def __init__(self, runs: Runs, cell: Cell, settings: Sequence[str]) -> None:
        self.runs, self.cell, self.settings = runs, cell, settings

    def value(self, step: int, seeds: Sequence[int]) -> Value:
        return value(self.runs.mean(self.cell, (self.settings[step],), seeds))

    def climb(self, at: int, looks: Sequence[tuple[Sequence[int], Sequence[int]]]) -> int:
        """The best step near `at`. A look is how far away to look, and with which seeds; with each, the search goes on
        as long as something better is seen."""
        for distances, seeds in looks:
            while True:
                seen = [at + distance for distance in distances if 0 <= at + distance < len(self.settings)]
                best = max([at, *seen], key=lambda step: self.value(step, seeds))
                if best == at:
                    break
                at = best
        return at


FIRST = SEEDS[:1]
#: How the search looks around: distances, and the seeds with which it compares.
FAR, NEAR = ((-4, 4), FIRST), ((-2, 2), FIRST)
NEXT, SURE = ((-1, 1), FIRST), ((-1, 1, 2), SEEDS)


def rates_of(direction: str) -> Callable[[float], str]:
    """Downloads obey the pace of data; data of uploads passes no pacer, but its ACKs do."""
    return pacing if direction == "down" else ack_pacing


def seek(runs: Runs, cell: Cell) -> Outcome:
    """The oracle of a cell."""
    by_rate = rates_of(cell.direction)
    tried: list[tuple[str, Figures]] = []

    def result() -> Outcome:
        setting, figures = max(tried, key=lambda pair: value(pair[1]))
        return Outcome(cell.name(), setting, figures.goodput_mbps, figures.clear, figures.good)

    def take(setting: str) -> Figures:
        figures = runs.mean(cell, (setting,))
        tried.append((setting, figures))
        return figures

    rates = Ladder(runs, cell, [by_rate(kbps) for kbps in RATES])
    # A window of a segment may be gentler than ACKs that are late, for which senders do not wait.
    gentle = [rates.settings[0]] if cell.direction == "down" else [rates.settings[0], window(1)]
    if cell.calls and all(runs.one(cell, (setting,), 1).clear < HOPELESS for setting in gentle):
        for setting in gentle:
            take(setting)
        return result()
    free = runs.one(cell, (FREE,), 1)
    # What calls leave is less than what TCP takes, if they are there.
    guess = free.goodput_mbps * 1e3 * (0.75 if cell.calls else 1.1)
    start = min(range(len(RATES)), key=lambda step: abs(RATES[step] - guess))
    best = rates.climb(start, (FAR, NEAR, SURE))
    paced = take(rates.settings[best])

    windows = Ladder(runs, cell, [window(segments) for segments in WINDOWS])
    # As many segments in flight as suit a flow's part of the best rate at 20 ms a hop.
    held = RATES[best] / 8 * (2 * cell.delay_ms + 20 * cell.hops) / 1460 / cell.flows
    start = min(range(len(WINDOWS)), key=lambda step: abs(WINDOWS[step] - held))
    best = windows.climb(start, (NEAR, NEXT))
    for setting in (windows.settings[best], FREE):
        promised = runs.one(cell, (setting,), 1)
        good = promised.good and promised.goodput_mbps > WORTH_A_LOOK * paced.goodput_mbps
        if good or not paced.good:
            take(setting)
    if max(tried, key=lambda pair: value(pair[1]))[0] == windows.settings[best]:
        take(windows.settings[windows.climb(best, (SURE,))])
    return result()


class Kept:
    """Outcomes in a file that are believed, whichever program made them."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.outcomes: dict[str, Outcome] = {}
        for line in lines_of(path) if path else []:
            outcome = Outcome(**line)
            self.outcomes[outcome.cell] = outcome

    def get(self, cell: Cell) -> Outcome | None:
        return self.outcomes.get(cell.name())

    def add(self, outcome: Outcome) -> None:
        self.outcomes[outcome.cell] = outcome
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(vars(outcome)) + "\n")

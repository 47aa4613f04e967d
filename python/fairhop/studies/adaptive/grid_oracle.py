"""The oracle: the best fixed setting of a cell, found by a sweep.

The best setting carries most TCP among those with which calls are good. The sweep covers total rates (of data for
downloads, of acknowledged bytes otherwise), windows, and no control. A window for all flows together is not swept: a
sender has whole segments in flight and at least one, so it equals a window for each flow.

The search climbs. Along a ladder of settings calls are mostly good up to some step, and TCP carries more up to some
step and less after it. So the search moves to the better neighbour, first in long strides with one seed, then step by
step with all seeds. The last pass looks two steps up, so that a single step that is bad by chance does not stop it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairhop.studies.adaptive.grid import Cell
from fairhop.studies.adaptive.grid_runs import SEEDS, Figures, Runs
from fairhop.studies.adaptive.store import appended, lines_of
from fairhop.studies.lab import FREE, ack_pacing, pacing, window

#: Rates in kb/s, 12 % apart.
RATES = [round(30 * 1.12**step, 1) for step in range(56)]
WINDOWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
#: If fewer call-seconds than this are clear under the tightest settings, no setting makes calls good.
HOPELESS = 0.8
#: A window is run with all seeds if it carries this fraction of what the best rate carries, on one seed.
WORTH_A_LOOK = 0.95


@dataclass(frozen=True)
class Outcome:
    """The best setting of a cell and its figures, as means of the seeds. If no setting makes calls good, the one under
    which they are best."""

    cell: str
    setting: str
    goodput_mbps: float
    clear: float
    calls_can: bool


#: The value to maximize: good calls first, then TCP.
Value = tuple[bool, float]


def value(figures: Figures) -> Value:
    return (True, figures.goodput_mbps) if figures.good else (False, figures.clear)


class Ladder:
    """Settings of one cell in order, from tight to loose."""

    def __init__(self, runs: Runs, cell: Cell, settings: Sequence[str]) -> None:
        self.runs, self.cell, self.settings = runs, cell, settings

    def value(self, step: int, seeds: Sequence[int]) -> Value:
        return value(self.runs.mean(self.cell, (self.settings[step],), seeds))

    def climb(self, at: int, looks: Sequence[tuple[Sequence[int], Sequence[int]]]) -> int:
        """The best step near `at`. A look is a set of distances and the seeds to compare with; each look is repeated
        until it finds nothing better."""
        for distances, seeds in looks:
            while True:
                near = [at + distance for distance in distances if 0 <= at + distance < len(self.settings)]
                best = max([at, *near], key=lambda step: self.value(step, seeds))
                if best == at:
                    break
                at = best
        return at


FIRST = SEEDS[:1]
#: Looks of the search: distances, and the seeds to compare with.
FAR, NEAR = ((-4, 4), FIRST), ((-2, 2), FIRST)
NEXT, SURE = ((-1, 1), FIRST), ((-1, 1, 2), SEEDS)


def rates_of(direction: str) -> Callable[[float], str]:
    """Downloads are paced by their data. The data of uploads passes no pacer of the gateway, but their ACKs do."""
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
    # A window of one segment can be tighter than delayed ACKs: senders retransmit instead of waiting for them.
    tightest = [rates.settings[0]] if cell.direction == "down" else [rates.settings[0], window(1)]
    if cell.calls and all(runs.one(cell, (setting,), 1).clear < HOPELESS for setting in tightest):
        for setting in tightest:
            take(setting)
        return result()
    free = runs.one(cell, (FREE,), 1)
    # Calls leave less to TCP than it takes by itself.
    guess = free.goodput_mbps * 1e3 * (0.75 if cell.calls else 1.1)
    start = min(range(len(RATES)), key=lambda step: abs(RATES[step] - guess))
    best = rates.climb(start, (FAR, NEAR, SURE))
    paced = take(rates.settings[best])

    windows = Ladder(runs, cell, [window(segments) for segments in WINDOWS])
    # Segments in flight for one flow's share of the best rate, with 20 ms of delay per hop.
    in_flight = RATES[best] / 8 * (2 * cell.delay_ms + 20 * cell.hops) / 1460 / cell.flows
    start = min(range(len(WINDOWS)), key=lambda step: abs(WINDOWS[step] - in_flight))
    best = windows.climb(start, (NEAR, NEXT))
    for setting in (windows.settings[best], FREE):
        glance = runs.one(cell, (setting,), 1)
        good = glance.good and glance.goodput_mbps > WORTH_A_LOOK * paced.goodput_mbps
        if good or not paced.good:
            take(setting)
    if max(tried, key=lambda pair: value(pair[1]))[0] == windows.settings[best]:
        take(windows.settings[windows.climb(best, (SURE,))])
    return result()


class Kept:
    """Outcomes stored in a file, used whichever program made them."""

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
            with appended(self.path) as file:
                file.write(json.dumps(vars(outcome)) + "\n")

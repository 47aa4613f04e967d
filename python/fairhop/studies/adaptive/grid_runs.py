"""Runs of cells and their results, kept in a file so that nothing is run twice.

A line is one run: scenario overrides, seed, and the fingerprint of the program and the scenario. Lines with another
fingerprint are ignored, so results of two programs never mix.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairhop.studies.adaptive.grid import SCENARIO, Cell
from fairhop.studies.adaptive.store import CLEAR, UnknownRunError, appended, lines_of
from fairhop.studies.lab import Runner, Sets, run_words, tcp_mbps

SEEDS = (1, 2)


@dataclass(frozen=True)
class Figures:
    """Results of one setting in one cell: one seed, or the mean of several.

    `clear` is the fraction of one-second windows of all calls, after the warm-up, in which both directions had a MOS of
    3.6 or more.
    """

    goodput_mbps: float
    clear: float

    @property
    def good(self) -> bool:
        return self.clear >= CLEAR

    @classmethod
    def mean(cls, several: Sequence[Figures]) -> Figures:
        return cls(
            statistics.fmean(figures.goodput_mbps for figures in several),
            statistics.fmean(figures.clear for figures in several),
        )


def fingerprint(runner: Runner) -> str:
    """Hash of what results depend on besides their key: the program and the scenario."""
    scenario = runner.printed("scenarios", SCENARIO).encode()
    return hashlib.sha256(runner.program.read_bytes() + scenario).hexdigest()[:16]


class Runs:
    """Runs cells and stores the results. Without a runner it only reads the results of any program. Thread-safe."""

    def __init__(self, runner: Runner | None, path: Path) -> None:
        self.runner = runner
        #: Runs that were made now.
        self.made = 0
        self._by = fingerprint(runner) if runner else None
        self._lock = threading.Lock()
        self._known: dict[tuple[Sets, int], Figures] = {
            (tuple(line["sets"]), line["seed"]): Figures(line["goodput_mbps"], line["clear"])
            for line in lines_of(path)
            if self._by in (line["made"], None)
        }
        self._file = appended(path) if runner else None

    def close(self) -> None:
        """Closes the file."""
        if self._file:
            self._file.close()

    def one(self, cell: Cell, setting: Sets, seed: int) -> Figures:
        """The result of one seed.

        Raises:
            Stopped: The study is being interrupted.
            UnknownRunError: The run is not stored, and there is no runner.
            ProgramError: The program failed.
        """
        sets = (*cell.sets(), *setting)
        with self._lock:
            known = self._known.get((sets, seed))
        if known:
            return known
        if self.runner is None or self._file is None:
            raise UnknownRunError(*sets)
        result = self.runner.call(*run_words(SCENARIO, sets, seed), "--threads", "1")
        figures = Figures(round(tcp_mbps(result), 6), round(float(result["totals"]["calls_clear"]), 6))
        line = {"sets": sets, "seed": seed, **vars(figures), "made": self._by}
        with self._lock:
            self.made += 1
            self._known[sets, seed] = figures
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        return figures

    def mean(self, cell: Cell, setting: Sets, seeds: Sequence[int] = SEEDS) -> Figures:
        """The mean of the seeds."""
        return Figures.mean([self.one(cell, setting, seed) for seed in seeds])

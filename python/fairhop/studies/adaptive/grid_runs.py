"""Runs of cells and their results, kept in a file so that nothing is run twice.

A line is one run: scenario overrides, seed, and the fingerprint of the program and the scenario. Lines with another
fingerprint are ignored, so results of two programs never mix.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairhop.studies.adaptive.grid import SCENARIO, Cell
from fairhop.studies.adaptive.store import CLEAR, Store, UnknownRunError
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


class Runs(Store[tuple[Sets, int], Figures]):
    """Runs cells and stores the results. Without a runner it only reads the results of any program."""

    def __init__(self, runner: Runner | None, path: Path) -> None:
        self.runner = runner
        self._by = fingerprint(runner) if runner else None

        def read(line: dict[str, Any]) -> tuple[tuple[Sets, int], Figures] | None:
            if self._by not in (line["made"], None):
                return None
            return (tuple(line["sets"]), line["seed"]), Figures(line["goodput_mbps"], line["clear"])

        super().__init__(path, read, read_only=runner is None)

    def one(self, cell: Cell, setting: Sets, seed: int) -> Figures:
        """The result of one seed.

        Raises:
            Stopped: The study is being interrupted.
            UnknownRunError: The run is not stored, and there is no runner.
            ProgramError: The program failed.
        """
        sets = (*cell.sets(), *setting)
        if known := self.known((sets, seed)):
            return known
        if self.runner is None:
            raise UnknownRunError(*sets)
        result = self.runner.call(*run_words(SCENARIO, sets, seed), "--threads", "1")
        figures = Figures(round(tcp_mbps(result), 6), round(float(result["totals"]["calls_clear"]), 6))
        self.keep((sets, seed), figures, {"sets": sets, "seed": seed, **vars(figures), "made": self._by})
        return figures

    def mean(self, cell: Cell, setting: Sets, seeds: Sequence[int] = SEEDS) -> Figures:
        """The mean of the seeds."""
        return Figures.mean([self.one(cell, setting, seed) for seed in seeds])

"""Runs and their results, kept in a file so that nothing is run twice.

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
from typing import Any, TextIO

from grid import SCENARIO, Cell
from simulator import ROOT, InterruptedRunError, Sets, fairhop_run, tcp_mbps

SEEDS = (1, 2)
#: Fraction of clear call-seconds from which a cell's calls are good.
CLEAR = 0.95


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


def fingerprint(program: Path) -> str:
    """Hash of what results depend on besides their key: the program and the scenario."""
    digest = hashlib.sha256()
    for path in (program, ROOT / "scenarios" / f"{SCENARIO}.toml"):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file; a truncated line is left out."""
    found: list[dict[str, Any]] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return found


def appended(path: Path) -> TextIO:
    """A JSON-lines file opened for appending; a truncated last line is ended first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    file = path.open("a", encoding="utf-8")
    if torn:
        file.write("\n")
    return file


class UnknownRunError(Exception):
    """A run is not stored, and there is no program to make it."""


class Runs:
    """Runs cells and stores the results. Without a program it only reads the results of any program. Thread-safe."""

    def __init__(self, program: Path | None, path: Path) -> None:
        self.program = program
        self.stop = threading.Event()
        self._made = fingerprint(program) if program else None
        self._lock = threading.Lock()
        self._known: dict[tuple[Sets, int], Figures] = {
            (tuple(line["sets"]), line["seed"]): Figures(line["goodput_mbps"], line["clear"])
            for line in lines_of(path)
            if self._made in (line["made"], None)
        }
        self._file = appended(path) if program else None

    def one(self, cell: Cell, setting: Sets, seed: int) -> Figures:
        """The result of one seed.

        Raises:
            InterruptedRunError: Ctrl-C was pressed.
            UnknownRunError: The run is not stored, and there is no program.
        """
        sets = (*cell.sets(), *setting)
        with self._lock:
            known = self._known.get((sets, seed))
        if known:
            return known
        if self.program is None or self._file is None:
            raise UnknownRunError(*sets)
        if self.stop.is_set():
            raise InterruptedRunError
        result = fairhop_run(SCENARIO, sets, seed, "--threads", "1", program=self.program)
        figures = Figures(round(tcp_mbps(result), 6), round(float(result["totals"]["calls_clear"]), 6))
        line = {"sets": sets, "seed": seed, **vars(figures), "made": self._made}
        with self._lock:
            self._known[sets, seed] = figures
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        return figures

    def mean(self, cell: Cell, setting: Sets, seeds: Sequence[int] = SEEDS) -> Figures:
        """The mean of the seeds."""
        return Figures.mean([self.one(cell, setting, seed) for seed in seeds])

"""What the judges of claims share: running scenarios, means over seeds, tables, verdicts."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from simulator import Result, Sets, fairhop_run, table

RULES = ("none", "first", "stronger")
#: Student's t for a two-sided 95 % interval, by degrees of freedom.
T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093,
)  # fmt: skip

REPRODUCED, SHAPE, DIFFERS = "reproduced", "same shape", "differs"


# ---- running --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and the half-width of its 95 % confidence interval."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        n = len(values)
        half = T_975[n - 2] * statistics.stdev(values) / math.sqrt(n) if n > 1 else 0.0
        return cls(statistics.fmean(values), half)

    def text(self, digits: int = 2) -> str:
        return f"{self.mean:.{digits}f} ± {self.half:.{digits}f}"


class Lab:
    """Runs scenarios and remembers the results; all cores, one process a seed."""

    def __init__(self, seeds: int) -> None:
        self.seeds = range(1, seeds + 1)
        self._pool = ThreadPoolExecutor(os.cpu_count())
        self._known: dict[tuple[str, Sets], list[Result]] = {}

    def run(self, scenario: str, sets: Sets) -> list[Result]:
        """The result of each seed."""
        key = (scenario, sets)
        if key not in self._known:
            self._known[key] = list(self._pool.map(lambda seed: fairhop_run(scenario, sets, seed), self.seeds))
        return self._known[key]

    def by_seed(self, scenario: str, sets: Sets, figure: Callable[[Result], float]) -> list[float]:
        return [figure(result) for result in self.run(scenario, sets)]

    def measure(self, scenario: str, sets: Sets, figure: Callable[[Result], float]) -> Estimate:
        return Estimate.of(self.by_seed(scenario, sets, figure))


def capture(rule: str) -> str:
    return f"radio.capture={rule}"


# ---- figures of one run ---------------------------------------------------------------------------------------------


def mos(result: Result) -> float:
    return float(result["totals"]["mos_mean"])


def jain(result: Result) -> float:
    return float(result["totals"]["jain"])


# ---- tables ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """One row of the summary. `found` and `verdict` are by rule; a claim without a radio has one of each."""

    name: str
    paper: str
    found: list[str]
    verdict: list[str]
    points_to: str

    def row(self) -> list[str]:
        found, verdict = self.found, self.verdict
        if len(found) == 1:
            found, verdict = found * len(RULES), verdict * len(RULES)
        cells = [f"{f}: **{v}**" for f, v in zip(found, verdict, strict=True)]
        return [self.name, self.paper, *cells, self.points_to]


def nearest(values: Sequence[float], target: float) -> str:
    """The rules whose value is nearest to the paper's, by ratio; rules within 2 % of the nearest share the place.

    If none is within a quarter and the paper lies amid them, that is all that can be said.
    """
    off = [abs(math.log(value / target)) for value in values]
    if min(off) > math.log(1.25) and min(values) < target < max(values):
        below = [rule for rule, value in zip(RULES, values, strict=True) if value < target]
        above = [rule for rule, value in zip(RULES, values, strict=True) if value > target]
        return f"between {named(below)} and {named(above)}"
    return named([rule for rule, o in zip(RULES, off, strict=True) if o <= min(off) + 0.02])


def named(rules: Sequence[str]) -> str:
    return ", ".join(f"`{rule}`" for rule in rules) or "no rule"


def summary(claims: Sequence[Claim]) -> str:
    """The verdicts under each rule."""
    heads = ["claim", "paper", *(f"`{rule}`" for rule in RULES), "the paper's numbers point to"]
    return table(heads, [claim.row() for claim in claims])

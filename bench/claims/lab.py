"""Shared by the claims of all papers: runs, means over seeds, verdicts and tables."""

from __future__ import annotations

import hashlib
import json
import math
import os
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from simulator import FAIRHOP, Result, Sets, fairhop, fairhop_run, scenario_path, table

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
    """Runs scenarios over a range of seeds, one process a seed, and remembers the results.

    With `kept`, results are files in that folder, named by the hash of program, scenario, overrides and seed.
    """

    def __init__(
        self, seeds: range, program: Path = FAIRHOP, workers: int | None = None, kept: Path | None = None
    ) -> None:
        self.seeds = seeds
        self.program = program
        self.kept = kept
        self._program_hash = hashlib.sha256(program.read_bytes()).digest() if kept else b""
        self._pool = ThreadPoolExecutor(workers or os.cpu_count())
        self._known: dict[tuple[str, Sets, int], Result] = {}

    def over(self, seeds: range) -> Lab:
        """The same laboratory with other seeds."""
        other = object.__new__(Lab)
        other.__dict__ |= vars(self) | {"seeds": seeds}
        return other

    def few(self, count: int) -> Lab:
        """The same laboratory with at most the first `count` seeds."""
        return self.over(self.seeds[:count])

    def run(self, scenario: str, sets: Sets) -> list[Result]:
        """The result of each seed."""

        def one(seed: int) -> Result:
            key = (scenario, sets, seed)
            if key not in self._known:
                self._known[key] = self._run_or_read(scenario, sets, seed)
            return self._known[key]

        return list(self._pool.map(one, self.seeds))

    def _run_or_read(self, scenario: str, sets: Sets, seed: int) -> Result:
        if not self.kept:
            return fairhop_run(scenario, sets, seed, program=self.program)
        text = scenario_path(scenario).read_bytes() + json.dumps([sets, seed]).encode()
        path = self.kept / f"{hashlib.sha256(self._program_hash + text).hexdigest()[:32]}.json"
        if path.exists():
            found: Result = json.loads(path.read_text(encoding="utf-8"))
            return found
        result = fairhop_run(scenario, sets, seed, program=self.program)
        self.kept.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(result), encoding="utf-8")
        part.rename(path)
        return result

    def fairhop(self, *arguments: str) -> Result:
        """What another subcommand prints."""
        return fairhop(*arguments, program=self.program)

    def by_seed(self, scenario: str, sets: Sets, figure: Callable[[Result], float]) -> list[float]:
        return [figure(result) for result in self.run(scenario, sets)]

    def measure(self, scenario: str, sets: Sets, figure: Callable[[Result], float]) -> Estimate:
        return Estimate.of(self.by_seed(scenario, sets, figure))

    def seeds_text(self) -> str:
        """The seeds as the page names them."""
        return f"{self.seeds[0]}-{self.seeds[-1]}" if len(self.seeds) > 1 else str(self.seeds[0])


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
    """One row of a summary. `found` and `verdicts` are by capture rule; a claim without a radio has one of each."""

    name: str
    paper: str
    seeds: str
    found: list[str]
    verdicts: list[str]
    #: The rules that the paper's numbers are nearest to; none for a paper without a radio.
    nearest_rule: str | None = None

    def row(self) -> list[str]:
        cells = [f"{found}: **{verdict}**" for found, verdict in zip(self.found, self.verdicts, strict=True)]
        if self.nearest_rule is None:
            return [self.name, self.paper, self.seeds, *cells]
        return [
            self.name,
            self.paper,
            self.seeds,
            *(cells * len(RULES) if len(cells) == 1 else cells),
            self.nearest_rule,
        ]


#: Heads of the summary of a paper whose claims depend on the capture rule, and of one without a radio.
HEADS_BY_RULE = ("claim", "paper", "seeds", *(f"`{rule}`" for rule in RULES), "nearest rule")
HEADS = ("claim", "paper", "seeds", "Fairhop")


@dataclass(frozen=True)
class Section:
    """Claims that are measured together, and the tables that show their figures, by title."""

    claims: list[Claim]
    tables: dict[str, str]


#: A paper's measurements by name, in the order of the page.
Measurements = dict[str, Callable[[Lab], Section]]


def page_of(heads: Sequence[str], sections: Sequence[Section]) -> str:
    """The summary of all claims, followed by the tables."""
    parts = [table(heads, [claim.row() for section in sections for claim in section.claims])]
    for section in sections:
        for title, text in section.tables.items():
            parts += [f"### {title}\n", text]
    return "\n".join(parts)


def page_with(page: str, section: Section) -> str:
    """The page with one section measured anew.

    Raises:
        ValueError: The page has no row or table of the section.
    """
    for claim in section.claims:
        lines = page.split("\n")
        at = [number for number, line in enumerate(lines) if line.startswith(f"| {claim.name} |")]
        if not at:
            raise ValueError(f"the page has no row of {claim.name}: run all of the paper's claims")
        lines[at[0]] = "| " + " | ".join(claim.row()) + " |"
        page = "\n".join(lines)
    for title, text in section.tables.items():
        head, found, rest = page.partition(f"### {title}\n")
        if not found:
            raise ValueError(f"the page has no table {title}: run all of the paper's claims")
        _, next_found, tail = rest.partition("\n### ")
        page = f"{head}### {title}\n\n{text}" + (f"\n### {tail}" if next_found else "")
    return page


def nearest(values: Sequence[float], target: float) -> str:
    """The rules whose value is nearest to the paper's, by ratio; rules within 2 % of the nearest are listed with it.

    If no value is within a quarter and the paper's lies between them, the answer says so.
    """
    off = [abs(math.log(value / target)) for value in values]
    if min(off) > math.log(1.25) and min(values) < target < max(values):
        below = [rule for rule, value in zip(RULES, values, strict=True) if value < target]
        above = [rule for rule, value in zip(RULES, values, strict=True) if value > target]
        return f"between {named(below)} and {named(above)}"
    return named([rule for rule, o in zip(RULES, off, strict=True) if o <= min(off) + 0.02])


def named(rules: Sequence[str]) -> str:
    return ", ".join(f"`{rule}`" for rule in rules) or "no rule"


def with_verdict(verdicts: Sequence[str], *wanted: str) -> str:
    """The rules with one of these verdicts."""
    return named([rule for rule, verdict in zip(RULES, verdicts, strict=True) if verdict in wanted])

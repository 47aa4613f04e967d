"""`fairhop study adaptive sensitivity`: what each constant of the adaptive controller does, in drawn worlds.

The worlds are those whose best fixed setting is stored (`fairhop study adaptive worlds`) and makes calls good. Each run
is stored too, so an interrupted study goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairhop.studies.adaptive import worlds_oracle
from fairhop.studies.adaptive.grid_tables import decile
from fairhop.studies.adaptive.output import add_common, check_page, describe, positive, publish, runner_of, update_page
from fairhop.studies.adaptive.parallel import for_all
from fairhop.studies.adaptive.store import UnknownRunError
from fairhop.studies.adaptive.worlds import SPLITS, World, drawn
from fairhop.studies.adaptive.worlds_oracle import Best
from fairhop.studies.adaptive.worlds_runs import ADAPTIVE, JUDGING, Figures, WorldRuns, tuned
from fairhop.studies.command import StudyError, interrupted
from fairhop.studies.lab import ProgramError, Runner, Sets, Stopped
from fairhop.studies.model import Table

ABOUT = """\
What each constant of the adaptive controller does: drawn worlds with the constant at half and at twice its value, and
with what it stands for switched off. The worlds are those whose best fixed setting is kept and makes calls good, so
`fairhop study adaptive worlds` comes first, with the same split and DIR."""

EXAMPLES = """\
examples:
  fairhop study adaptive sensitivity --split validation --count 60      half, double and off for each constant
  fairhop study adaptive sensitivity --split validation --variants off  ablation: each mechanism switched off
  fairhop study adaptive sensitivity --split validation --only cut,drain
  fairhop study adaptive sensitivity --only cut --values 0.7,0.8        these values of one constant

Each run is kept in DIR/worlds/runs.jsonl: after Ctrl-C the same command goes on."""

#: Least ratio that counts in a mean of logarithms: below it, a world has no data to speak of.
LEAST = 0.02


@dataclass(frozen=True)
class Constant:
    """A constant of the controller, as `fairhop schema` has it."""

    name: str
    value: float
    off: float | None

    def variants(self, wanted: Sequence[str]) -> Iterator[tuple[str, float]]:
        values = {"half": self.value / 2, "double": self.value * 2, "off": self.off}
        for word in wanted:
            value = values[word]
            if value is not None:
                yield word, value


def constants(runner: Runner) -> list[Constant]:
    """The constants of a program, in its order."""

    def found(of: object) -> dict[str, Any] | None:
        if isinstance(of, dict):
            if any(isinstance(item, dict) and "x-off" in item for item in of.values()):
                return of
            return next((inner for item in of.values() if (inner := found(item))), None)
        if isinstance(of, list):
            return next((inner for item in of if (inner := found(item))), None)
        return None

    properties = found(json.loads(runner.printed("schema"))) or {}
    return [Constant(name, each["default"], each["x-off"]) for name, each in properties.items()]


@dataclass(frozen=True)
class Score:
    """How a variant fares in all worlds."""

    good: int
    median: float
    decile: float
    #: Geometric mean of the data over that of the best fixed setting.
    mean: float
    #: Mean fraction of clear call-seconds.
    clear: float

    @classmethod
    def of(cls, found: Sequence[tuple[World, Best, Figures]]) -> Score:
        ratios = [max(LEAST, figures.data_mbps / max(best.figures.data_mbps, 1e-6)) for _, best, figures in found]
        calls = [figures for world, _, figures in found if world.has_calls]
        return cls(
            sum(figures.good for figures in calls),
            statistics.median(ratios),
            decile(ratios),
            math.exp(statistics.fmean(math.log(ratio) for ratio in ratios)),
            statistics.fmean(figures.clear for figures in calls),
        )

    def cells(self, base: Score | None = None) -> list[str]:
        if base is None:
            return [str(self.good), f"{self.clear:.3f}", f"{self.median:.2f}", f"{self.decile:.2f}", f"{self.mean:.3f}"]
        return [
            f"{self.good - base.good:+d}",
            f"{self.clear - base.clear:+.3f}",
            f"{self.median - base.median:+.2f}",
            f"{self.decile - base.decile:+.2f}",
            f"{self.mean / base.mean - 1:+.1%}",
        ]


HEADS = ("constant", "variant", "value", "calls good", "clear", "data, median", "worst decile", "data, mean")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    describe(parser, ABOUT, EXAMPLES)
    parser.add_argument("--split", default="validation", choices=SPLITS, help="part of the worlds [validation]")
    parser.add_argument("--count", type=positive, default=60, metavar="N", help="number of worlds [60]")
    parser.add_argument(
        "--seeds",
        type=int,
        default=len(JUDGING),
        choices=range(1, len(JUDGING) + 1),
        help=f"number of seeds [{len(JUDGING)}]",
    )
    parser.add_argument("--only", metavar="NAME,…", help="only these constants")
    parser.add_argument("--variants", default="half,double,off", metavar="WORD,…", help="of half, double and off [all]")
    parser.add_argument(
        "--values", type=values_of, metavar="V,…", help="with one constant: these values instead of half, double, off"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="update docs/validation/adaptive-constants.md, too")
    add_common(parser)
    parser.set_defaults(command=run)


def values_of(text: str) -> list[float]:
    """`0.7,0.8`."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not of the form 0.7,0.8") from None


def judged(runs: WorldRuns, split: str, count: int) -> list[tuple[World, Best]]:
    """The worlds in which the best fixed setting is known and makes calls good."""
    found: list[tuple[World, Best]] = []
    for number in range(count):
        world = drawn(split, number)
        try:
            best = worlds_oracle.seek(runs, world)
        except UnknownRunError:
            continue
        if best.figures.good:
            found.append((world, best))
    return found


def variants_of(args: argparse.Namespace, known: Sequence[Constant]) -> list[tuple[str, str, float]]:
    """The chosen variants: constant, word, value.

    Raises:
        StudyError: A constant is unknown.
    """
    names = args.only.split(",") if args.only else [constant.name for constant in known]
    if missing := sorted(set(names) - {constant.name for constant in known}):
        raise StudyError(
            f"no constant is called {', '.join(missing)}\n  help: `fairhop schema` lists them under `tuning`"
        )
    return [
        (constant.name, word, value)
        for constant in known
        if constant.name in names
        for word, value in (
            [("set", value) for value in args.values] if args.values else constant.variants(args.variants.split(","))
        )
    ]


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit code.

    Raises:
        StudyError: The arguments are wrong, or a run failed.
        OSError: A file cannot be read or written.
    """
    if args.values and (not args.only or "," in args.only):
        raise StudyError("--values are of one constant\n  help: add --only NAME")
    if unknown := set(args.variants.split(",")) - {"half", "double", "off"}:
        raise StudyError(f"no variant is called {', '.join(sorted(unknown))}\n  help: there are half, double and off")
    check_page(args.page, "sensitivity")
    runner = runner_of(args)
    with closing(WorldRuns(runner, args.out / "worlds", only_adaptive=True)) as runs:
        try:
            measure(args, runner, runs)
        except (KeyboardInterrupt, Stopped):
            return interrupted(runs.made)
        except ProgramError as problem:
            raise StudyError(str(problem)) from None
    return 0


def measure(args: argparse.Namespace, runner: Runner, runs: WorldRuns) -> None:
    """Runs all variants in all worlds, and reports them.

    Raises:
        StudyError: A constant is unknown, or there is no world.
    """
    variants = variants_of(args, constants(runner))
    worlds = judged(runs, args.split, args.count)
    if not worlds:
        raise StudyError(
            f"no best fixed setting that makes calls good is kept for the first {args.count} worlds of {args.split}\n"
            f"  help: fairhop study adaptive worlds --split {args.split} --count {args.count} --out {args.out}"
        )
    settings: list[Sets] = [ADAPTIVE, *(tuned(name, value) for name, _, value in variants)]
    seeds = JUDGING[: args.seeds]
    items = [(setting, world) for setting in settings for world, _ in worlds]
    found = for_all(runner, "sensitivity", items, lambda item: runs.mean(item[1], item[0], seeds), unit="worlds")

    def score(number: int) -> Score:
        """The score of a setting."""
        means = found[number * len(worlds) : (number + 1) * len(worlds)]
        return Score.of([(world, best, figures) for (world, best), figures in zip(worlds, means, strict=True)])

    base = score(0)
    rows = [["**as it is**", "", "", *base.cells()]]
    for number, (name, word, value) in enumerate(variants, 1):
        rows.append([f"`{name}`", word, f"{value:g}", *score(number).cells(base)])
    calls = sum(world.has_calls for world, _ in worlds)
    table = Table(HEADS, rows, f"{len(worlds)} worlds of the {args.split} split, {calls} with calls.")
    title = "What each constant of the adaptive controller does"
    publish(args, runner, f"sensitivity-{args.split}", title, table.markdown(), table.heads, table.rows)
    update_page(args.page, "sensitivity", table.markdown())

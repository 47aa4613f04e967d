"""`python3 bench/adaptive sensitivity`: what each constant of the adaptive controller does, in drawn worlds.

    python3 bench/adaptive sensitivity --split validation --count 60           # half, double and off for each constant
    python3 bench/adaptive sensitivity --split validation --variants off       # ablation: each mechanism switched off
    python3 bench/adaptive sensitivity --split validation --only cut,drain     # some constants
    python3 bench/adaptive sensitivity --split validation --write              # the table on its page

The worlds are those whose best fixed setting is stored (`python3 bench/adaptive worlds`) and makes calls good. Each run
is stored too, so an interrupted call continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import worldoracle
from report import PAGE, decile
from simulator import FAIRHOP, ROOT, InterruptedRunError, Sets, replace_between, table
from worldoracle import Best
from worldruns import ADAPTIVE, JUDGING, Figures, UnknownRunError, WorldRuns, tuned
from worlds import SPLITS, World, drawn

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


def constants(program: Path) -> list[Constant]:
    """The constants of a program, in its order."""
    text = subprocess.run((program, "schema"), check=True, capture_output=True, text=True).stdout

    def found(of: object) -> dict[str, Any] | None:
        if isinstance(of, dict):
            if any(isinstance(item, dict) and "x-off" in item for item in of.values()):
                return of
            return next((inner for item in of.values() if (inner := found(item))), None)
        if isinstance(of, list):
            return next((inner for item in of if (inner := found(item))), None)
        return None

    properties = found(json.loads(text)) or {}
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


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 bench/adaptive sensitivity",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--split", default="validation", choices=SPLITS)
    parser.add_argument("--count", type=int, default=60, metavar="N", help="number of worlds")
    parser.add_argument("--seeds", type=int, default=len(JUDGING), choices=range(1, len(JUDGING) + 1))
    parser.add_argument("--only", metavar="NAME,…", help="only these constants")
    parser.add_argument("--variants", default="half,double,off", metavar="WORD,…", help="of half, double and off")
    parser.add_argument("--values", metavar="V,…", help="with one constant: these values instead of half, double, off")
    parser.add_argument("--program", type=Path, default=FAIRHOP, metavar="PATH", help="the fairhop to run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="runs at a time")
    parser.add_argument("--store", type=Path, default=ROOT / "target" / "adaptive" / "worlds", metavar="DIR")
    parser.add_argument("--written", type=Path, default=ROOT / "out" / "worlds", metavar="DIR", help="scenario files")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    args = parser.parse_args(words)
    if not args.program.exists():
        parser.error(f"{args.program} is not built: cargo build --release")
    if args.values and (not args.only or "," in args.only):
        parser.error("--values needs --only with one constant")
    if unknown := set(args.variants.split(",")) - {"half", "double", "off"}:
        parser.error(f"--variants has half, double and off, not {', '.join(sorted(unknown))}")
    return args


def judged(runs: WorldRuns, split: str, count: int) -> list[tuple[World, Best]]:
    """The worlds in which the best fixed setting is known and makes calls good."""
    found: list[tuple[World, Best]] = []
    for number in range(count):
        world = drawn(split, number)
        try:
            best = worldoracle.seek(runs, world)
        except UnknownRunError:
            continue
        if best.figures.good:
            found.append((world, best))
    return found


def run(words: Sequence[str]) -> None:
    args = parse(words)
    known = constants(args.program)
    if args.only:
        names = args.only.split(",")
        missing = sorted(set(names) - {constant.name for constant in known})
        if missing:
            sys.exit(f"no such constant: {', '.join(missing)}; `{args.program} schema` lists them under `tuning`")
        known = [constant for constant in known if constant.name in names]
    runs = WorldRuns(args.program, args.store, args.written, only_adaptive=True)
    worlds = judged(runs, args.split, args.count)
    if not worlds:
        sys.exit("no world's best fixed setting is stored: run `python3 bench/adaptive worlds` first")
    variants: list[tuple[str, str, float]] = []
    for constant in known:
        wanted = (
            [("set", float(value)) for value in args.values.split(",")]
            if args.values
            else constant.variants(args.variants.split(","))
        )
        variants += [(constant.name, word, value) for word, value in wanted]
    seeds = JUDGING[: args.seeds]

    with ThreadPoolExecutor(args.jobs) as pool:

        def score(setting: Sets) -> Score:
            """The score of a setting; worlds run side by side."""
            means = pool.map(lambda of: runs.mean(of[0], setting, seeds), worlds)
            return Score.of([(world, best, figures) for (world, best), figures in zip(worlds, means, strict=True)])

        try:
            base = score(ADAPTIVE)
            rows = [["**as it is**", "", "", *base.cells()]]
            since = time.monotonic()
            for done, (name, word, value) in enumerate(variants, 1):
                rows.append([f"`{name}`", word, f"{value:g}", *score(tuned(name, value)).cells(base)])
                left = (time.monotonic() - since) / done * (len(variants) - done) / 60
                print(f"{name} {word}: {done} of {len(variants)}, {left:.0f} min left", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            runs.stop.set()
            pool.shutdown(cancel_futures=True)
            raise InterruptedRunError from None
    calls = sum(world.has_calls for world, _ in worlds)
    text = f"{len(worlds)} worlds of the {args.split} split, {calls} with calls.\n\n{table(HEADS, rows)}"
    print(text)
    if args.write:
        replace_between(PAGE, "sensitivity", text)

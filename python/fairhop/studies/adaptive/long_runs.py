"""`fairhop study adaptive long`: adaptive control over many minutes, in drawn worlds.

Drawn worlds last 30 or 40 s. What decays or grows slowly does not show in them: this study runs them for longer and
compares the parts of each run. Each run is stored, so an interrupted study goes on where it stopped.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairhop.studies.adaptive.output import add_common, describe, positive, publish, runner_of
from fairhop.studies.adaptive.parallel import for_all
from fairhop.studies.adaptive.store import Store
from fairhop.studies.adaptive.worlds import SPLITS, World, drawn
from fairhop.studies.adaptive.worlds_runs import ADAPTIVE, TRACES, file_of, run_traced, seconds_of
from fairhop.studies.command import StudyError, interrupted
from fairhop.studies.lab import MOS_GOOD, ProgramError, Runner, Stopped
from fairhop.studies.model import Table

ABOUT = """\
Adaptive control over many minutes: drawn worlds whose runs are made longer. Each run is cut into six equal parts. The
first has the beginning and the changes of the world; the others should be alike."""

EXAMPLES = """\
examples:
  fairhop study adaptive long --count 20                       15 minutes of each of 20 worlds
  fairhop study adaptive long --split train --minutes 60
  fairhop study adaptive long --count 20 --program PATH        another controller

Each run is kept in DIR/worlds/long.jsonl: after Ctrl-C the same command goes on."""

PARTS = 6
#: A world is named if the last part has that much less of its call-seconds clear than the second, or less than that
#: part of its data.
LESS_CLEAR, LESS_DATA = 0.05, 0.8
#: A budget is high over that many times the data of the part with the most: data over four hops use four times their
#: rate, and a controller that has not found the limit may have a few times what is used.
HIGH_BUDGET = 40.0
#: Mb/s under which data are too few to compare.
LEAST = 0.02

HEADS = ("part", "minutes", "calls clear", "data over the second part", "worlds with a high budget")


@dataclass(frozen=True)
class Parts:
    """A run in parts: clear part of the call-seconds, if any; data in Mb/s; largest budget in Mb/s · hops."""

    clear: list[float | None]
    data: list[float]
    budget: list[float]

    def is_high(self, part: int) -> bool:
        return self.budget[part] > HIGH_BUDGET * max(*self.data, LEAST)

    def worse(self) -> str | None:
        """What the last part has less of than the second, in words."""
        found = []
        second, last = self.clear[1], self.clear[-1]
        if second is not None and last is not None and last < second - LESS_CLEAR:
            found.append(f"clear {second:.2f}, then {last:.2f}")
        if self.data[1] > LEAST and self.data[-1] < LESS_DATA * self.data[1]:
            found.append(f"data {self.data[1]:.2f}, then {self.data[-1]:.2f} Mb/s")
        return "; ".join(found) or None


def parts_of(folder: Path, seconds: float) -> Parts:
    """The parts of a run from its traces."""

    def part(end: float) -> int:
        return min(PARTS - 1, int((end - 1e-6) / seconds * PARTS))

    clear: list[list[bool]] = [[] for _ in range(PARTS)]
    for end, _, values in seconds_of(folder / "mos.csv", "forward_mos", "backward_mos"):
        if scores := [value for value in values if value is not None]:
            clear[part(end)].append(min(scores) >= MOS_GOOD)
    data, budget = [0.0] * PARTS, [0.0] * PARTS
    for end, kind, values in seconds_of(folder / "flow.csv", "forward_mbps"):
        if kind in {"bulk", "quic"}:
            data[part(end)] += (values[0] or 0.0) / (seconds / PARTS)
    with (folder / "control.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            at = part(float(row["t_s"]))
            budget[at] = max(budget[at], float(row["budget_mbps"] or 0))
    means = [statistics.fmean(seconds) if seconds else None for seconds in clear]
    return Parts(means, [round(rate, 4) for rate in data], budget)


class LongRuns(Store[str, Parts]):
    """Long runs of worlds, kept in a file."""

    def __init__(self, runner: Runner, folder: Path, seconds: int) -> None:
        self.runner, self.folder, self.seconds = runner, folder, seconds
        self._by = runner.hash[:16]

        def read(line: dict[str, Any]) -> tuple[str, Parts] | None:
            if (line["made"], line["seconds"]) != (self._by, seconds):
                return None
            return line["world"], Parts(**line["parts"])

        super().__init__(folder / "long.jsonl", read)

    def one(self, world: World) -> Parts:
        """The run of a world.

        Raises:
            Stopped: The study is being interrupted.
            ProgramError: The program failed.
        """
        key = world.key()
        if known := self.known(key):
            return known
        setting = (*ADAPTIVE, f"duration_s={self.seconds}")
        file = file_of(self.folder, world)
        parts = run_traced(self.runner, file, setting, 1, TRACES, lambda _, folder: parts_of(folder, self.seconds))
        line = {"world": key, "name": world.name(), "made": self._by, "seconds": self.seconds}
        self.keep(key, parts, {**line, "parts": asdict(parts)})
        return parts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    describe(parser, ABOUT, EXAMPLES)
    parser.add_argument("--split", default="validation", choices=SPLITS, help="part of the worlds [validation]")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="number of the first world [0]")
    parser.add_argument("--count", type=positive, default=150, metavar="N", help="number of worlds [150]")
    parser.add_argument("--minutes", type=positive, default=15, metavar="N", help="length of a run [15]")
    add_common(parser)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit code.

    Raises:
        StudyError: A run failed.
        OSError: A file cannot be read or written.
    """
    runner = runner_of(args)
    worlds = [drawn(args.split, number) for number in range(args.first, args.first + args.count)]
    with closing(LongRuns(runner, args.out / "worlds", 60 * args.minutes)) as runs:
        try:
            found = for_all(runner, "long runs", worlds, runs.one, unit="worlds")
        except (KeyboardInterrupt, Stopped):
            return interrupted(runs.made)
        except ProgramError as problem:
            raise StudyError(str(problem)) from None
    table = table_of(found, args.minutes)
    text = "\n".join([table.markdown(), *named(worlds, found)])
    publish(args, runner, f"long-{args.split}", "Adaptive control over many minutes", text, table.heads, table.rows)
    return 0


def table_of(found: Sequence[Parts], minutes: int) -> Table:
    """A line for each part."""
    rows = []
    for part in range(PARTS):
        clear = [clear for run in found if (clear := run.clear[part]) is not None]
        ratios = [run.data[part] / run.data[1] for run in found if run.data[1] > LEAST]
        rows.append(
            [
                str(part + 1),
                f"{minutes * part / PARTS:g} to {minutes * (part + 1) / PARTS:g}",
                f"{statistics.fmean(clear):.3f}" if clear else "none",
                f"{geometric_mean(ratios):.3f}" if ratios else "none",
                str(sum(run.is_high(part) for run in found)),
            ]
        )
    return Table(HEADS, rows, f"{len(found)} worlds.")


def geometric_mean(ratios: Iterable[float]) -> float:
    """It counts ratios under 0.01 as that."""
    return math.exp(statistics.fmean(math.log(max(0.01, ratio)) for ratio in ratios))


def named(worlds: Sequence[World], found: Sequence[Parts]) -> Iterator[str]:
    """The worlds in which the last part is worse than the second."""
    for world, parts in zip(worlds, found, strict=True):
        if words := parts.worse():
            yield f"- {world.name()}: {words}"

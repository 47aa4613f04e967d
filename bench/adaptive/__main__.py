"""Adaptive control against the best fixed setting, over a grid of scenarios.

The oracle is the best fixed setting of each cell, found by a sweep. What is kept in target/adaptive/ is not run again,
so that a run that was ended goes on where it was; results of another program or scenario are passed over.

    cargo build --release && python3 bench/adaptive               # the whole grid: about an hour for the oracle
    python3 bench/adaptive --cells 100                             # a fixed part of it by chance
    python3 bench/adaptive --only hops=4,calls=3 --controls adaptive,none
    python3 bench/adaptive --cells 100 --keep-oracle oracle.jsonl  # oracles of the file, whichever program found them
    python3 bench/adaptive --oracle-from runs.jsonl                # oracles of runs that another program has made
    python3 bench/adaptive --seeds 3-10                            # controls judged by other seeds than the oracle
    python3 bench/adaptive --sample --write-golden                 # the cells of `make test`, with their oracles
    python3 bench/adaptive --changes                               # worlds that change, instead of the grid
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import changes
import grid
import oracle
import picture
import report
from grid import Cell
from oracle import Kept, Outcome
from simulator import FAIRHOP, FREE, ROOT, InterruptedRunError, replace_between
from store import SEEDS, Figures, Runs, UnknownRunError

TARGET = ROOT / "target" / "adaptive"
PAGE = ROOT / "docs" / "validation" / "adaptive.md"
PICTURE = ROOT / "docs" / "validation" / "adaptive-region.svg"
GOLDEN = ROOT / "crates" / "sim" / "tests" / "golden" / "adaptive.jsonl"

#: The path of the picture: beside so many calls, what do three CUBIC flows over four hops carry?
REGION = [Cell(4, calls, 3, 30, "cubic") for calls in picture.CALLS]

T = TypeVar("T")


class Progress:
    """A line that says how far the work is and how long it will take."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        # By the last of them: the first are often known already.
        self.lately = deque([time.monotonic()], maxlen=50)
        self.live = sys.stderr.isatty()

    def step(self) -> None:
        self.done += 1
        self.lately.append(time.monotonic())
        each = (self.lately[-1] - self.lately[0]) / (len(self.lately) - 1)
        told = f"{self.what}: {self.done} of {self.total} cells, {each * (self.total - self.done) / 60:.1f} min left"
        if self.live:
            print(f"\r{told}   ", end="\n" if self.done == self.total else "", file=sys.stderr, flush=True)
        elif self.done in (1, self.total) or self.done % 20 == 0:
            print(told, file=sys.stderr, flush=True)


def on_all_cores(
    runs: Runs, what: str, cells: Sequence[Cell], job: Callable[[Cell], T], done: Callable[[T], None]
) -> dict[Cell, T]:
    """What `job` makes of each cell; `done` is told as they come.

    Raises:
        InterruptedRunError, KeyboardInterrupt: Ctrl-C has been pressed.
    """
    progress = Progress(what, len(cells))
    found: dict[Cell, T] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = {pool.submit(job, cell): cell for cell in cells}
        try:
            for future in as_completed(futures):
                found[futures[future]] = future.result()
                done(found[futures[future]])
                progress.step()
        except BaseException:
            runs.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return found


def under(runs: Runs, control: str, seeds: Sequence[int], cell: Cell) -> Figures:
    """What a cell does under a control, as a mean of the seeds."""
    if discipline := grid.SHAPERS.get(control):
        down, up = (runs.mean(grid.speed_test(cell, way), (FREE,)).goodput_mbps for way in ("down", "up"))
        return runs.mean(cell, grid.shaper(discipline, down, up), seeds)
    return runs.mean(cell, grid.CONTROLS[control], seeds)


def seeds_of(text: str) -> list[int]:
    """`3-10` or `4`."""
    first, _, last = text.partition("-")
    seeds = list(range(int(first), int(last or first) + 1))
    if not seeds or seeds[0] < 0:
        raise ValueError(text)
    return seeds


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 bench/adaptive", description=(__doc__ or "").split("\n")[0])
    controls = [*grid.CONTROLS, *grid.SHAPERS]
    parser.add_argument("--program", type=Path, default=FAIRHOP, metavar="PATH", help="the fairhop to be judged")
    parser.add_argument("--cells", type=int, metavar="N", help="only N cells, by chance but always the same")
    parser.add_argument("--only", default="", metavar="AXIS=VALUE,…", help="only these cells; a key twice allows both")
    parser.add_argument("--direction", default="down", choices=grid.DIRECTIONS, help="of the TCP flows")
    parser.add_argument("--controls", default=",".join(controls), metavar="NAME,…", help="of " + ", ".join(controls))
    parser.add_argument("--seeds", type=seeds_of, metavar="FIRST-LAST", help="of controls, and of changes")
    parser.add_argument("--keep-oracle", type=Path, metavar="FILE", help="believe the oracles in it, and add to them")
    parser.add_argument("--oracle-from", type=Path, metavar="RUNS", help="only cells whose oracle these runs tell")
    parser.add_argument("--runs", type=Path, default=TARGET / "runs.jsonl", metavar="FILE", help="where runs are kept")
    parser.add_argument("--sample", action="store_true", help="only the cells of `make test`")
    parser.add_argument("--changes", action="store_true", help="worlds that change, instead of the grid")
    parser.add_argument("--picture", action="store_true", help="the capacity region, instead of the grid")
    parser.add_argument("--write", action="store_true", help=f"put the result into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--write-golden", action="store_true", help="keep the cells and their oracles for `make test`")
    args = parser.parse_args()
    args.controls = [name for name in args.controls.split(",") if name]
    if unknown := set(args.controls) - set(controls):
        parser.error(f"no control is called {', '.join(sorted(unknown))}; there are {', '.join(controls)}")
    if not args.program.exists():
        parser.error(f"{args.program} is not built: cargo build --release")
    try:
        cells = grid.sample() if args.sample else grid.whole_grid(args.direction)[: args.cells]
        args.grid = grid.only(cells, args.only)
    except ValueError as problem:
        parser.error(str(problem))
    return args


def oracles_of(path: Path, cells: Sequence[Cell]) -> dict[Cell, Outcome]:
    """The oracles that kept runs tell, whichever program made them: of the cells in which the search is complete."""
    runs = Runs(None, path)
    found: dict[Cell, Outcome] = {}
    for cell in cells:
        with suppress(UnknownRunError):
            found[cell] = oracle.seek(runs, cell)
    return found


def measure(args: argparse.Namespace, runs: Runs, cells: Sequence[Cell]) -> report.Measured:
    """The oracle and every control in every cell."""
    kept = Kept(args.keep_oracle)
    if args.oracle_from:
        found = oracles_of(args.oracle_from, cells)
        cells = list(found)
        kept.outcomes |= {cell.name(): outcome for cell, outcome in found.items()}
    missing = [cell for cell in cells if not kept.get(cell)]
    if missing:
        on_all_cores(runs, "oracle", missing, lambda cell: oracle.seek(runs, cell), kept.add)
    oracles = {cell: kept.outcomes[cell.name()] for cell in cells}
    controls: dict[str, dict[Cell, Figures]] = {}
    for control in args.controls:
        job = partial(under, runs, control, args.seeds or SEEDS)
        controls[control] = on_all_cores(runs, control, cells, job, lambda _: None)
    return report.Measured(oracles, controls)


def region(measured: report.Measured) -> str:
    """The picture of the capacity region."""
    best = [(cell.calls, outcome.goodput_mbps, outcome.calls_can) for cell, outcome in measured.oracles.items()]
    curves = [picture.Curve("best fixed setting", best)]
    for control, found in measured.controls.items():
        points = [(cell.calls, figures.goodput_mbps, figures.good) for cell, figures in sorted(found.items())]
        curves.append(picture.Curve(control, points))
    path = REGION[0]
    setting = (
        f"{path.flows} CUBIC downloads over {path.hops} hops, {path.delay_ms} ms to the Internet, 802.11a, 12 Mb/s"
    )
    return picture.capacity_region("What TCP carries beside calls", setting, curves)


def work(args: argparse.Namespace, runs: Runs) -> None:
    """Does what is asked for, prints it, and puts it where it is kept."""
    if args.picture:
        PICTURE.write_text(region(measure(args, runs, REGION)), encoding="utf-8")
        print(f"the capacity region is in {PICTURE}")
        return
    if args.changes:
        name, text = "changes", changes.section(args.program, args.seeds or changes.SEEDS)
    else:
        measured = measure(args, runs, args.grid)
        name, text = args.direction, report.text(measured)
        if args.write_golden:
            lines = [json.dumps({**vars(best), "sets": cell.sets()}) for cell, best in measured.oracles.items()]
            GOLDEN.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(text)
    if args.write:
        replace_between(PAGE, name, text)


def main() -> int:
    args = parse()
    runs = Runs(args.program, args.runs)
    try:
        work(args, runs)
    except (InterruptedRunError, KeyboardInterrupt):
        print(f"\nended; what was run is in {args.runs}, and the same command goes on from there", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Adaptive control against the best fixed setting, over a grid of scenarios.

The oracle is the best fixed setting of each cell, found by a sweep. Results are kept in target/adaptive/ and reused, so
an interrupted call continues where it stopped. Results of another program or scenario are ignored.

    cargo build --release && python3 bench/adaptive               # the whole grid: about an hour for the oracle
    python3 bench/adaptive --cells 100                             # a fixed random sample of it
    python3 bench/adaptive --only hops=4,calls=3 --controls adaptive,none
    python3 bench/adaptive --cells 100 --keep-oracle oracle.jsonl  # oracles of this file, whichever program found them
    python3 bench/adaptive --oracle-from runs.jsonl                # oracles found in the runs of another program
    python3 bench/adaptive --seeds 3-10                            # controls judged on other seeds than the oracle
    python3 bench/adaptive --sample --write-golden                 # the cells of `make test`, with their oracles
    python3 bench/adaptive --changes                               # networks that change, instead of the grid
    python3 bench/adaptive worlds --help                           # drawn worlds, instead of the grid
    python3 bench/adaptive sensitivity --help                      # the controller's constants, in drawn worlds
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
import sensitivity
import worldmain
from grid import Cell
from oracle import Kept, Outcome
from simulator import FAIRHOP, FREE, ROOT, InterruptedRunError, Sets, replace_between
from store import SEEDS, Figures, Runs, UnknownRunError

TARGET = ROOT / "target" / "adaptive"
PICTURE = ROOT / "docs" / "validation" / "adaptive-region.svg"
GOLDEN = ROOT / "crates" / "sim" / "tests" / "golden" / "adaptive.jsonl"

#: The cells of the picture: three CUBIC flows over four hops beside 0 to 11 calls.
REGION = [Cell(4, calls, 3, 30, "cubic") for calls in picture.CALLS]
#: Seeds of the picture. The best fixed setting was found on others (`store.SEEDS`).
REGION_SEEDS = tuple(range(3, 8))
NOTE = (
    "Adaptive control can lie above the best fixed setting: it releases data just after a call's packet has left the",
    "mesh and before the next one sets out, so that they do not collide. A fixed rate or window has no such timing.",
    f"Best fixed setting: chosen on seeds {SEEDS[0]} and {SEEDS[-1]}, drawn with seeds "
    f"{REGION_SEEDS[0]} to {REGION_SEEDS[-1]} like the others.",
)

T = TypeVar("T")


class Progress:
    """A line with the number of finished cells and the estimated time left."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        # Times of the latest steps: the first cells are often known already.
        self.latest = deque([time.monotonic()], maxlen=50)
        self.live = sys.stderr.isatty()

    def step(self) -> None:
        self.done += 1
        self.latest.append(time.monotonic())
        each = (self.latest[-1] - self.latest[0]) / (len(self.latest) - 1)
        status = f"{self.what}: {self.done} of {self.total} cells, {each * (self.total - self.done) / 60:.1f} min left"
        if self.live:
            print(f"\r{status}   ", end="\n" if self.done == self.total else "", file=sys.stderr, flush=True)
        elif self.done in (1, self.total) or self.done % 20 == 0:
            print(status, file=sys.stderr, flush=True)


def for_all(
    runs: Runs, what: str, cells: Sequence[Cell], job: Callable[[Cell], T], done: Callable[[T], None], workers: int
) -> dict[Cell, T]:
    """The result of `job` for each cell; `done` is called with each as it comes.

    Raises:
        InterruptedRunError, KeyboardInterrupt: Ctrl-C was pressed.
    """
    progress = Progress(what, len(cells))
    found: dict[Cell, T] = {}
    with ThreadPoolExecutor(workers) as pool:
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


def setting_of(runs: Runs, control: str, cell: Cell) -> Sets:
    """The overrides of a control in a cell; those of a shaper depend on what the path carries."""
    if discipline := grid.SHAPERS.get(control):
        down, up = (runs.mean(grid.speed_test(cell, way), (FREE,)).goodput_mbps for way in ("down", "up"))
        return grid.shaper(discipline, down, up)
    return grid.CONTROLS[control]


def under(runs: Runs, control: str, seeds: Sequence[int], cell: Cell) -> Figures:
    """A cell's figures under a control, as a mean of the seeds."""
    return runs.mean(cell, setting_of(runs, control, cell), seeds)


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
    parser.add_argument("--program", type=Path, default=FAIRHOP, metavar="PATH", help="the fairhop to run")
    parser.add_argument("--cells", type=int, metavar="N", help="only N cells, a fixed random sample")
    parser.add_argument("--only", default="", metavar="AXIS=VALUE,…", help="only these cells; a key twice allows both")
    parser.add_argument("--direction", default="down", choices=grid.DIRECTIONS, help="of the TCP flows")
    parser.add_argument("--controls", default=",".join(controls), metavar="NAME,…", help="of " + ", ".join(controls))
    parser.add_argument("--seeds", type=seeds_of, metavar="FIRST-LAST", help="seeds of controls, and of changes")
    parser.add_argument("--keep-oracle", type=Path, metavar="FILE", help="use the oracles in it, and add new ones")
    parser.add_argument("--oracle-from", type=Path, metavar="RUNS", help="only cells whose oracle these runs contain")
    parser.add_argument("--runs", type=Path, default=TARGET / "runs.jsonl", metavar="FILE", help="file of the results")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="runs at a time")
    parser.add_argument("--sample", action="store_true", help="only the cells of `make test`")
    parser.add_argument("--changes", action="store_true", help="networks that change, instead of the grid")
    parser.add_argument("--picture", action="store_true", help="the capacity region, instead of the grid")
    parser.add_argument("--write", action="store_true", help=f"put the result into {report.PAGE.relative_to(ROOT)}")
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
    """The oracles found in stored runs of any program, for the cells in which the search is complete."""
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
        for_all(runs, "oracle", missing, lambda cell: oracle.seek(runs, cell), kept.add, args.workers)
    oracles = {cell: kept.outcomes[cell.name()] for cell in cells}
    controls: dict[str, dict[Cell, Figures]] = {}
    for control in args.controls:
        job = partial(under, runs, control, args.seeds or SEEDS)
        controls[control] = for_all(runs, control, cells, job, lambda _: None, args.workers)
    return report.Measured(oracles, controls)


def region(args: argparse.Namespace, runs: Runs) -> str:
    """The picture of the capacity region, on other seeds than those of the oracle's search."""
    kept = Kept(args.keep_oracle)
    missing = [cell for cell in REGION if not kept.get(cell)]
    for_all(runs, "oracle", missing, lambda cell: oracle.seek(runs, cell), kept.add, args.workers)

    def series(name: str, setting: Callable[[Cell], Sets]) -> picture.Series:
        def point(cell: Cell) -> picture.Point:
            return picture.Point.of(cell.calls, [runs.one(cell, setting(cell), seed) for seed in REGION_SEEDS])

        points = for_all(runs, name, REGION, point, lambda _: None, args.workers)
        return picture.Series(name, [points[cell] for cell in REGION])

    several = [series("best fixed setting", lambda cell: (kept.outcomes[cell.name()].setting,))]
    several += [series(control, partial(setting_of, runs, control)) for control in args.controls]
    path = REGION[0]
    setting = (
        f"{path.flows} CUBIC downloads over {path.hops} hops, {path.delay_ms} ms to the Internet, 802.11a, 12 Mb/s; "
        f"means of {len(REGION_SEEDS)} seeds"
    )
    return picture.capacity_region("What TCP carries beside calls", setting, several, NOTE)


def work(args: argparse.Namespace, runs: Runs) -> None:
    """Measures what the arguments ask for, prints it, and writes it to its file."""
    if args.picture:
        PICTURE.write_text(region(args, runs), encoding="utf-8")
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
        replace_between(report.PAGE, name, text)


def main() -> int:
    other = {"worlds": worldmain.run, "sensitivity": sensitivity.run}.get(next(iter(sys.argv[1:]), ""))
    if other:
        try:
            other(sys.argv[2:])
        except InterruptedRunError:
            print("\ninterrupted; the same command continues from there", file=sys.stderr)
            return 130
        except worldmain.FailedWorldsError as problem:
            print(problem, file=sys.stderr)
            return 1
        return 0
    args = parse()
    runs = Runs(args.program, args.runs)
    try:
        work(args, runs)
    except (InterruptedRunError, KeyboardInterrupt):
        print(f"\ninterrupted; results are in {args.runs}, and the same command continues from there", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Adaptive control against the best fixed setting, over a grid of scenarios.

The oracle is the best fixed setting of each cell, found by a sweep. What is kept in target/adaptive/ is not run again,
so that a run that was ended goes on where it was; results of another program or scenario are passed over.

    cargo build --release && python3 bench/adaptive               # the whole grid, about an hour
    python3 bench/adaptive --cells 100                             # a fixed part of it by chance
    python3 bench/adaptive --only hops=4,calls=3 --controls adaptive,none
    python3 bench/adaptive --cells 100 --keep-oracle oracle.jsonl  # oracles of the file, whichever program found them
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import grid
import oracle
import report
from grid import Cell
from oracle import Kept, Outcome
from simulator import FAIRHOP, FREE, ROOT, InterruptedRunError, Sets
from store import Figures, Runs

TARGET = ROOT / "target" / "adaptive"

T = TypeVar("T")


class Progress:
    """A line that says how far the work is and how long it will take."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done, self.began = what, total, 0, time.monotonic()
        self.live = sys.stderr.isatty()

    def step(self) -> None:
        self.done += 1
        left = (time.monotonic() - self.began) / self.done * (self.total - self.done)
        told = f"{self.what}: {self.done} of {self.total} cells, {left / 60:.1f} min left"
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


def settings(runs: Runs, control: str, cell: Cell) -> Sets:
    """What a control is in a cell."""
    if control == grid.SHAPER:
        return grid.shaper(runs.mean(grid.speed_test(cell), (FREE,)).goodput_mbps)
    return grid.CONTROLS[control]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 bench/adaptive", description=(__doc__ or "").split("\n")[0])
    controls = [*grid.CONTROLS, grid.SHAPER]
    parser.add_argument("--program", type=Path, default=FAIRHOP, metavar="PATH", help="the fairhop to be judged")
    parser.add_argument("--cells", type=int, metavar="N", help="only N cells, by chance but always the same")
    parser.add_argument("--only", default="", metavar="AXIS=VALUE,…", help="only these cells; a key twice allows both")
    parser.add_argument("--direction", default="down", choices=grid.DIRECTIONS, help="of the TCP flows")
    parser.add_argument("--controls", default=",".join(controls), metavar="NAME,…", help="of " + ", ".join(controls))
    parser.add_argument("--keep-oracle", type=Path, metavar="FILE", help="believe the oracles in it, and add to them")
    parser.add_argument("--runs", type=Path, default=TARGET / "runs.jsonl", metavar="FILE", help="where runs are kept")
    args = parser.parse_args()
    args.controls = [name for name in args.controls.split(",") if name]
    if unknown := set(args.controls) - set(controls):
        parser.error(f"no control is called {', '.join(sorted(unknown))}; there are {', '.join(controls)}")
    if not args.program.exists():
        parser.error(f"{args.program} is not built: cargo build --release")
    try:
        args.grid = grid.only(grid.whole_grid(args.direction)[: args.cells], args.only)
    except ValueError as problem:
        parser.error(str(problem))
    return args


def measure(args: argparse.Namespace, runs: Runs) -> report.Measured:
    """The oracle and every control in every cell."""
    kept = Kept(args.keep_oracle)
    adding = threading.Lock()

    def add(outcome: Outcome) -> None:
        with adding:
            kept.add(outcome)

    missing = [cell for cell in args.grid if not kept.get(cell)]
    if missing:
        on_all_cores(runs, "oracle", missing, lambda cell: oracle.seek(runs, cell), add)
    oracles = {cell: kept.outcomes[cell.name()] for cell in args.grid}
    controls: dict[str, dict[Cell, Figures]] = {}
    for control in args.controls:
        controls[control] = on_all_cores(
            runs,
            control,
            args.grid,
            lambda cell, control=control: runs.mean(cell, settings(runs, control, cell)),  # type: ignore[misc]
            lambda _: None,
        )
    return report.Measured(oracles, controls)


def main() -> int:
    args = parse()
    runs = Runs(args.program, args.runs)
    try:
        measured = measure(args, runs)
    except (InterruptedRunError, KeyboardInterrupt):
        print(f"\nended; what was run is in {args.runs}, and the same command goes on from there", file=sys.stderr)
        return 130
    print(report.text(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())

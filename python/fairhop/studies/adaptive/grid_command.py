"""`fairhop study adaptive`: adaptive control against the best fixed setting, over a grid of scenarios.

The oracle is the best fixed setting of each cell, found by a search. Results are kept and reused, so an interrupted
study goes on where it stopped. Results of another program or scenario are ignored.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from fairhop.studies import report
from fairhop.studies.adaptive import changes, grid, grid_oracle, grid_tables, picture
from fairhop.studies.adaptive.grid import Cell
from fairhop.studies.adaptive.grid_oracle import Kept, Outcome
from fairhop.studies.adaptive.grid_runs import SEEDS, Figures, Runs
from fairhop.studies.adaptive.output import add_common, check_page, describe, positive, publish, runner_of, update_page
from fairhop.studies.adaptive.parallel import for_all
from fairhop.studies.adaptive.store import UnknownRunError
from fairhop.studies.command import StudyError, interrupted
from fairhop.studies.lab import FREE, ProgramError, Runner, Sets, Stopped

ABOUT = """\
Adaptive control against the best fixed setting (the oracle) in cells of a grid: calls beside TCP over a string of
nodes, by hops, calls, TCP flows, delay to the Internet and TCP variant. A search finds the oracle of each cell.

  fairhop study adaptive worlds --help         networks drawn at random, instead of the grid
  fairhop study adaptive long --help           the same for many minutes
  fairhop study adaptive sensitivity --help    what each constant of the controller does, in drawn worlds"""

EXAMPLES = """\
examples:
  fairhop study adaptive                                  12 cells: less than a minute
  fairhop study adaptive --cells 200                      a fair sample: the cells are in a fixed random order
  fairhop study adaptive --only hops=4,calls=3 --controls adaptive,none
  fairhop study adaptive --full --controls adaptive --seeds 3-8      other seeds than those that chose the oracle
  fairhop study adaptive --changes                        networks that change, instead of the grid
  fairhop study adaptive --picture region.svg             how much TCP fits beside how many calls
  fairhop study adaptive --full --keep-oracle best.jsonl  for another controller: oracles of the file, whichever
                                                          program found them, and new ones added to it

Tables are printed as Markdown; DIR has them as a page and the cells as CSV. Every run is kept in DIR, too: after
Ctrl-C the same command goes on, and another version of the program runs anew."""

#: The cells of the picture: three CUBIC flows over four hops beside 0 to 11 calls.
REGION = [Cell(4, calls, 3, 30, "cubic") for calls in picture.CALLS]
#: Seeds of the picture. The best fixed setting was found on others (`grid_runs.SEEDS`).
REGION_SEEDS = tuple(range(3, 8))
NOTE = (
    "Adaptive control can lie above the best fixed setting: it releases data just after a call's packet has left the",
    "mesh and before the next one sets out, so that they do not collide. A fixed rate or window has no such timing.",
    f"Best fixed setting: chosen on seeds {SEEDS[0]} and {SEEDS[-1]}, drawn with seeds "
    f"{REGION_SEEDS[0]} to {REGION_SEEDS[-1]} like the others.",
)


# ---- arguments ------------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    describe(parser, ABOUT, EXAMPLES)
    controls = [*grid.CONTROLS, *grid.SHAPERS]
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--quick",
        action="store_true",
        help=f"the first {grid.QUICK_CELLS} cells of a fixed random order (the default without --only)",
    )
    form.add_argument("--full", action="store_true", help=f"all {len(grid.whole_grid('down'))} cells: hours")
    form.add_argument("--cells", type=positive, metavar="N", help="the first N cells")
    form.add_argument("--sample", action="store_true", help="the cells of the test suite")
    parser.add_argument("--only", default="", metavar="AXIS=VALUE,…", help="only these cells; a key twice allows both")
    parser.add_argument("--direction", default="down", choices=grid.DIRECTIONS, help="of the TCP flows [down]")
    parser.add_argument(
        "--controls", default=",".join(controls), metavar="NAME,…", help=f"of {', '.join(controls)} [default: all]"
    )
    parser.add_argument(
        "--seeds",
        type=seeds_of,
        metavar="FIRST-LAST",
        help=f"seeds of controls [{SEEDS[0]}-{SEEDS[-1]}], and of changes [{changes.SEEDS[0]}-{changes.SEEDS[-1]}]",
    )
    parser.add_argument("--keep-oracle", type=Path, metavar="FILE", help="use the oracles in it, and add new ones")
    parser.add_argument(
        "--oracle-from",
        type=Path,
        metavar="FILE",
        help="only cells whose oracle this file of kept runs (DIR/grid/runs.jsonl of any program) contains",
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--changes", action="store_true", help="networks that change, instead of the grid")
    instead.add_argument("--picture", type=Path, metavar="FILE", help="draw the capacity region, instead of the grid")
    parser.add_argument("--page", type=Path, metavar="FILE", help="update docs/validation/adaptive-grid.md, too")
    parser.add_argument("--golden", type=Path, metavar="FILE", help="write the cells and their oracles as JSON lines")
    add_common(parser)
    parser.set_defaults(command=run)


def seeds_of(text: str) -> range:
    """`3-10` or `4`."""
    first, _, last = text.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal() and int(first) <= int(last or first)):
        raise argparse.ArgumentTypeError(f"{text} is not of the form 3-10 or 4")
    return range(int(first), int(last or first) + 1)


def controls_of(text: str) -> list[str]:
    """The controls of `--controls`.

    Raises:
        StudyError: A name is unknown.
    """
    known = [*grid.CONTROLS, *grid.SHAPERS]
    names = [name for name in text.split(",") if name]
    if unknown := set(names) - set(known):
        raise StudyError(f"no control is called {', '.join(sorted(unknown))}\n  help: there are {', '.join(known)}")
    return names


def cells_of(args: argparse.Namespace) -> list[Cell]:
    """The chosen cells.

    Raises:
        StudyError: There are none.
    """
    whole = not (args.quick or args.cells or args.sample) and (args.full or args.only)
    count = None if whole else args.cells or grid.QUICK_CELLS
    cells = grid.sample() if args.sample else grid.whole_grid(args.direction)[:count]
    try:
        chosen = grid.only(cells, args.only)
    except ValueError as problem:
        raise StudyError(str(problem)) from None
    if not chosen:
        raise StudyError(f"none of {len(cells)} cells is {args.only}\n  help: `--full --only …` chooses from all cells")
    return chosen


def form_of(args: argparse.Namespace) -> str:
    """The chosen cells, in file names."""
    words = [f"cells-{args.cells}" if args.cells else "sample" if args.sample else "quick" if args.quick else ""]
    words += [f"only-{args.only.replace(',', '-')}" if args.only else "" if words[0] or args.full else "quick"]
    return "-".join(filter(None, words)) or "full"


# ---- measuring ------------------------------------------------------------------------------------------------------


def setting_of(runs: Runs, control: str, cell: Cell) -> Sets:
    """The overrides of a control in a cell; those of a shaper depend on what the path carries."""
    if discipline := grid.SHAPERS.get(control):
        down, up = (runs.mean(grid.speed_test(cell, way), (FREE,)).goodput_mbps for way in ("down", "up"))
        return grid.shaper(discipline, down, up)
    return grid.CONTROLS[control]


def under(runs: Runs, control: str, seeds: Sequence[int], cell: Cell) -> Figures:
    """A cell's figures under a control, as a mean of the seeds."""
    return runs.mean(cell, setting_of(runs, control, cell), seeds)


def oracles_of(path: Path, cells: Sequence[Cell]) -> dict[Cell, Outcome]:
    """The oracles found in stored runs of any program, for the cells in which the search is complete."""
    runs = Runs(None, path)
    found: dict[Cell, Outcome] = {}
    for cell in cells:
        with suppress(UnknownRunError):
            found[cell] = grid_oracle.seek(runs, cell)
    return found


def seek_missing(runner: Runner, runs: Runs, kept: Kept, cells: Sequence[Cell]) -> None:
    """Searches the oracles that are not known."""
    missing = [cell for cell in cells if not kept.get(cell)]
    if missing:
        for_all(runner, "oracle", missing, lambda cell: grid_oracle.seek(runs, cell), done=kept.add)


def measure(args: argparse.Namespace, runner: Runner, runs: Runs) -> grid_tables.Measured:
    """The oracle and every control in every cell.

    Raises:
        StudyError: The stored runs have no oracle of any cell.
    """
    cells = cells_of(args)
    kept = Kept(args.keep_oracle)
    if args.oracle_from:
        if not args.oracle_from.exists():
            raise StudyError(f"there is no file {args.oracle_from}")
        found = oracles_of(args.oracle_from, cells)
        if not found:
            raise StudyError(f"{args.oracle_from} has no complete search of the {len(cells)} cells")
        cells = list(found)
        kept.outcomes |= {cell.name(): outcome for cell, outcome in found.items()}
    seek_missing(runner, runs, kept, cells)
    oracles = {cell: kept.outcomes[cell.name()] for cell in cells}
    controls: dict[str, dict[Cell, Figures]] = {}
    for control in controls_of(args.controls):
        found_all = for_all(runner, control, cells, partial(under, runs, control, args.seeds or SEEDS))
        controls[control] = dict(zip(cells, found_all, strict=True))
    return grid_tables.Measured(oracles, controls)


def region(args: argparse.Namespace, runner: Runner, runs: Runs) -> str:
    """The picture of the capacity region, on other seeds than those of the oracle's search."""
    kept = Kept(args.keep_oracle)
    seek_missing(runner, runs, kept, REGION)

    def series(name: str, setting: Callable[[Cell], Sets]) -> picture.Series:
        def point(cell: Cell) -> picture.Point:
            return picture.Point.of(cell.calls, [runs.one(cell, setting(cell), seed) for seed in REGION_SEEDS])

        return picture.Series(name, for_all(runner, name, REGION, point))

    several = [series("best fixed setting", lambda cell: (kept.outcomes[cell.name()].setting,))]
    several += [series(control, partial(setting_of, runs, control)) for control in controls_of(args.controls)]
    path = REGION[0]
    setting = (
        f"{path.flows} CUBIC downloads over {path.hops} hops, {path.delay_ms} ms to the Internet, 802.11a, 12 Mb/s; "
        f"means of {len(REGION_SEEDS)} seeds"
    )
    return picture.capacity_region("What TCP carries beside calls", setting, several, NOTE)


# ---- the command ----------------------------------------------------------------------------------------------------


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit code.

    Raises:
        StudyError: The arguments are wrong, or a run failed.
        OSError: A file cannot be read or written.
    """
    controls_of(args.controls)
    cells_of(args)
    if (args.picture and args.page) or (args.golden and (args.picture or args.changes)):
        raise StudyError("--page and --golden are of the grid\n  help: leave out --picture or --changes")
    check_page(args.page, "changes" if args.changes else args.direction)
    if args.page and not args.changes and form_of(args) == "quick":
        raise StudyError("--page takes more cells than a quick study has\n  help: add --full, or --cells N")
    runner = runner_of(args)
    try:
        if args.changes:
            return of_changes(args, runner)
        return of_grid(args, runner)
    except ProgramError as problem:
        raise StudyError(str(problem)) from None


def of_changes(args: argparse.Namespace, runner: Runner) -> int:
    """Networks that change."""
    try:
        table = changes.compared(runner, args.seeds or changes.SEEDS)
    except (KeyboardInterrupt, Stopped):
        return interrupted(sum(runner.made.values()))
    title = "Adaptive control in networks that change"
    publish(args, runner, "changes", title, table.markdown(), table.heads, table.rows)
    update_page(args.page, "changes", table.markdown())
    return 0


def of_grid(args: argparse.Namespace, runner: Runner) -> int:
    """The grid, or its picture."""
    with closing(Runs(runner, args.out / "grid" / "runs.jsonl")) as runs:
        try:
            if args.picture:
                report.write(args.picture, region(args, runner, runs))
                print(f"the capacity region is in {args.picture}")
                return 0
            measured = measure(args, runner, runs)
        except (KeyboardInterrupt, Stopped):
            return interrupted(runs.made)
    text = grid_tables.text(measured)
    if args.golden:
        lines = [json.dumps({**vars(best), "sets": cell.sets()}) for cell, best in measured.oracles.items()]
        report.write(args.golden, "\n".join(lines) + "\n")
    title = "Adaptive control against the best fixed setting"
    name = f"grid-{args.direction}-{form_of(args)}"
    publish(args, runner, name, title, text, *grid_tables.every_cell(measured))
    update_page(args.page, args.direction, text)
    return 0

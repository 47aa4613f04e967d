"""Calls to the Internet over a link that uploads fill: without control and under the adaptive controller.

Two tables: two hops of k-control and a slow link behind them, by its rate and the number of uploads; and drawn
worlds with calls from outside, uploads and a slow Internet, from number 4000 of train on. Nothing was tuned on these.

It needs the Python package (`make wheel`, then `pip install` with its path).

    python3 bench/uplink.py [--program target/release/fairhop] [--against OTHER] [--worlds 4000]

--against adds a column for the adaptive controller of another program.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fairhop.studies.adaptive.parallel import for_all
from fairhop.studies.adaptive.store import CLEAR
from fairhop.studies.adaptive.worlds import World, drawn
from fairhop.studies.adaptive.worlds_runs import ADAPTIVE, JUDGING
from fairhop.studies.lab import ProgramError, Runner, Sets, Stopped, run_words
from fairhop.studies.model import Table

RATES = (0.4, 0.7, 1.5, 3.0)
UPLOADS = (1, 3, 10, 30)
FIRST = 4000
NONE: Sets = ('control={ kind = "none" }',)

#: A scenario, its changes and the seeds of its runs.
Case = tuple[str, Sets, Sequence[int]]
#: Means over the seeds: the fraction of clear call-seconds, and the goodput of TCP in Mb/s.
Means = tuple[float, float]


def slow_link(mbps: float, uploads: int) -> Case:
    sets = (
        *("topology.hops=2", "traffic.0.from=internet", "traffic.1.from=2", "traffic.1.to=internet"),
        *(f"traffic.1.count={uploads}", "traffic.1.profile=linux"),
        *(f"internet.rate_mbps={mbps}", "internet.queue={ packets = 300 }"),
    )
    return "k-control", sets, (1, 2, 3)


def is_meant(world: World) -> bool:
    has_uploads = not {"data up", "data both"}.isdisjoint(world.labels)
    return has_uploads and {"internet slow", "calls from outside"} <= set(world.labels)


def means(runner: Runner, case: Case, control: Sets) -> Means:
    scenario, sets, seeds = case
    totals = [runner.call(*run_words(scenario, (*sets, *control), seed))["totals"] for seed in seeds]
    return (
        statistics.fmean(each["calls_clear"] for each in totals),
        statistics.fmean(each["tcp_goodput_mbps"] for each in totals),
    )


def tables(columns: dict[str, tuple[Runner, Sets]], worlds: int, folder: Path) -> None:
    """Measures and prints both tables.

    Raises:
        ProgramError: A run failed.
        KeyboardInterrupt, Stopped: Ctrl-C was pressed.
    """

    def measured(what: str, cases: Sequence[Case]) -> list[list[Means]]:
        return [
            for_all(runner, f"{what}, {head}", cases, lambda case: means(runner, case, control), unit="cases")  # noqa: B023
            for head, (runner, control) in columns.items()
        ]

    cells = [(mbps, uploads) for mbps in RATES for uploads in UPLOADS]
    found = measured("slow link", [slow_link(*cell) for cell in cells])
    rows = [
        [f"{mbps:g}", str(uploads), *(f"{100 * clear:.0f} %, {tcp:.2f}" for clear, tcp in row)]
        for (mbps, uploads), *row in zip(cells, *found, strict=True)
    ]
    print(Table(("Mb/s", "uploads", *columns), rows).markdown())

    chosen = [world for world in (drawn("train", FIRST + n) for n in range(worlds)) if is_meant(world)]
    if not chosen:
        raise ProgramError("none of these worlds has such calls and uploads\n  help: give --worlds a larger number")
    cases: list[Case] = []
    for world in chosen:
        path = folder / f"{world.number}.toml"
        path.write_text(world.text(), encoding="utf-8")
        cases.append((str(path), (), JUDGING))
    found = measured("drawn worlds", cases)
    rows = [
        ["calls good", *(str(sum(clear >= CLEAR for clear, _ in column)) for column in found)],
        ["clear", *(f"{100 * statistics.fmean(clear for clear, _ in column):.0f} %" for column in found)],
        ["TCP, Mb/s", *(f"{statistics.fmean(tcp for _, tcp in column):.2f}" for column in found)],
    ]
    print(Table(("", *columns), rows, f"{len(chosen)} drawn worlds").markdown())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("target/release/fairhop"))
    parser.add_argument("--against", type=Path, help="another program, to compare with")
    parser.add_argument("--worlds", type=int, default=4000, help="number of drawn worlds to choose from [4000]")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            runner = Runner(args.program, folder)
            columns: dict[str, tuple[Runner, Sets]] = {"no control": (runner, NONE)}
            if args.against:
                columns["adaptive, other program"] = (Runner(args.against, folder), ADAPTIVE)
            columns["adaptive"] = (runner, ADAPTIVE)
            tables(columns, args.worlds, folder)
        except (OSError, ProgramError) as problem:
            sys.exit(str(problem))
        except (KeyboardInterrupt, Stopped):
            sys.exit(130)


if __name__ == "__main__":
    main()

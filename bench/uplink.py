"""Calls to the Internet over a link that uploads fill: without control and under the adaptive controller.

Two tables: two hops of k-control and a slow link behind them, by its rate and the number of uploads; and drawn
worlds with calls from outside, uploads and a slow Internet, from number 4000 of train on. Nothing was tuned on these.

It needs the Python package (`make wheel`, then `pip install` with its path).

    python3 bench/uplink.py [--program target/release/fairhop] [--against OTHER] [--worlds 4000]

--against adds a column for the adaptive controller of another program.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fairhop.studies.adaptive.worlds import drawn

RATES = (0.4, 0.7, 1.5, 3.0)
UPLOADS = (1, 3, 10, 30)
FIRST = 4000
GOOD = 0.95


@dataclass(frozen=True)
class Means:
    """Over seeds: the fraction of clear call-seconds, and the goodput of TCP."""

    clear: float
    mbps: float


def run(program: Path, scenario: str, sets: Sequence[str], seeds: Sequence[int]) -> Means | None:
    """The means of some runs; none where the program refuses the scenario."""
    found = []
    for seed in seeds:
        command = [str(program), "run", scenario, "--seed", str(seed), "--json"]
        done = subprocess.run([*command, *(word for each in sets for word in ("--set", each))], capture_output=True)
        if done.returncode != 0:
            return None
        totals = json.loads(done.stdout)["totals"]
        found.append((totals["calls_clear"], totals["tcp_goodput_mbps"]))
    return Means(*(statistics.fmean(column) for column in zip(*found, strict=True)))


def slow_link(mbps: float, uploads: int) -> list[str]:
    return [
        *("topology.hops=2", "traffic.0.from=internet", "traffic.1.from=2", "traffic.1.to=internet"),
        *(f"traffic.1.count={uploads}", "traffic.1.profile=linux"),
        *(f"internet.rate_mbps={mbps}", "internet.queue={ packets = 300 }"),
    ]


def is_meant(labels: Sequence[str]) -> bool:
    return {"internet slow", "calls from outside"} <= set(labels) and not {"data up", "data both"}.isdisjoint(labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("target/release/fairhop"))
    parser.add_argument("--against", type=Path, help="another program, to compare with")
    parser.add_argument("--worlds", type=int, default=4000, help="number of drawn worlds to choose from [4000]")
    args = parser.parse_args()
    program = args.program.resolve()
    others = [args.against.resolve()] if args.against else []
    controls = [(program, "none"), *((other, "adaptive") for other in others), (program, "adaptive")]
    heads = ["no control", *("adaptive, other program" for _ in others), "adaptive"]

    def under_all(scenario: str, sets: Sequence[str], seeds: Sequence[int]) -> list[Means] | None:
        settings = [(each, [*sets, f'control={{ kind = "{kind}" }}']) for each, kind in controls]
        found = [run(each, scenario, all_sets, seeds) for each, all_sets in settings]
        return None if None in found else [means for means in found if means is not None]

    with ThreadPoolExecutor(os.cpu_count()) as pool, tempfile.TemporaryDirectory() as folder:

        def world(number: int) -> list[Means] | None:
            path = Path(folder, f"{number}.toml")
            path.write_text(drawn("train", number).text())
            return under_all(str(path), [], (1, 2))

        print(f"| Mb/s | uploads | {' | '.join(heads)} |\n|---|---|{'---|' * len(heads)}")
        cells = [(mbps, uploads) for mbps in RATES for uploads in UPLOADS]
        found = pool.map(lambda cell: under_all("k-control", slow_link(*cell), (1, 2, 3)), cells)
        for (mbps, uploads), means in zip(cells, found, strict=True):
            if means is None:
                sys.exit(f"{program} refuses k-control: is it of this version?")
            shown = " | ".join(f"{100 * each.clear:.0f} %, {each.mbps:.2f}" for each in means)
            print(f"| {mbps:g} | {uploads} | {shown} |", flush=True)

        numbers = [n for n in range(FIRST, FIRST + args.worlds) if is_meant(drawn("train", n).labels)]
        worlds = [means for means in pool.map(world, numbers) if means is not None]
        if not worlds:
            sys.exit("none of these worlds has such calls and uploads: give --worlds a larger number")
        print(f"\n{len(worlds)} drawn worlds\n\n| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
        rows: list[tuple[str, Callable[[list[Means]], str]]] = [
            ("calls good", lambda column: str(sum(each.clear >= GOOD for each in column))),
            ("clear", lambda column: f"{100 * statistics.fmean(each.clear for each in column):.0f} %"),
            ("TCP, Mb/s", lambda column: f"{statistics.fmean(each.mbps for each in column):.2f}"),
        ]
        columns = [list(column) for column in zip(*worlds, strict=True)]
        for name, of in rows:
            print(f"| {name} | {' | '.join(of(column) for column in columns)} |")


if __name__ == "__main__":
    main()

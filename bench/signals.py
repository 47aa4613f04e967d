"""How well each signal of a gateway tells the load: its change with the load, over its spread from second to second.

Drawn worlds in which one pace of downloads is the best fixed setting. Each is run at parts of that pace, with a
controller that only watches. Separation is the distance of two means over the spread of a single second (d'); a
separation of 2 needs (2 / d')² seconds. The second table has the mean delay of calls over the pace, relative to that
at 0.6 of the best pace. The table of the worlds is made by `fairhop study adaptive worlds`.

It needs the Python package (`make wheel`, then `pip install` with its path).

    python3 bench/signals.py out/study/adaptive/worlds-train.csv [--worlds 60] [--seed 7]
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import fairhop
from fairhop.studies.adaptive.parallel import Progress
from fairhop.studies.adaptive.store import CLEAR
from fairhop.studies.adaptive.worlds import LEARNING_S, World, drawn
from fairhop.studies.model import Table

#: Pairs of loads that are told apart, as parts of the best pace.
PAIRS = ((0.8, 1.0), (0.8, 1.2))
#: The part of the best pace to which the delays of calls at the others are compared.
LIGHT = 0.6
PARTS = (LIGHT, *sorted(set().union(*PAIRS)))
SIGNALS = {
    "loss": "packets lost or late",
    "delay": "mean delay of call packets",
    "jitter": "jitter of call packets",
    "excess": "excess of TCP's round trips",
}
#: Classes of worlds in which the load or the calls change, or not all calls and data take the gateway's pace.
LEFT_OUT = {
    "calls 0",
    "calls come and go",
    "calls inside the mesh",
    "internet slow",
    "internet lossy",
    "silence suppression",
}
NEEDED = {"no change", "data down"}
HELP = "\n  help: make the table with `fairhop study adaptive worlds --split train`"


@dataclass(frozen=True)
class Case:
    """A world and the best pace in it."""

    world: World
    pace_mbps: float


#: Values of each signal, one a second, by the part of the best pace.
Watched: TypeAlias = dict[float, dict[str, list[float]]]


class Watcher:
    """Paces data, and notes the signals of each second after learning."""

    def __init__(self, pace_mbps: float) -> None:
        self.policy = fairhop.Policy(down_mbps=pace_mbps)
        self.seconds: dict[str, list[float]] = {name: [] for name in SIGNALS}

    def __call__(self, seen: fairhop.Observation) -> fairhop.Policy:
        tick = round(10 * seen.time_s)
        if tick % 10 == 0 and tick > 10 * LEARNING_S and seen.calls:
            self.note("loss", [(call.loss or 0) + (call.late or 0) for call in seen.calls if call.loss is not None])
            self.note("delay", [call.delay_ms for call in seen.calls if call.delay_ms is not None])
            self.note("jitter", [call.jitter_ms for call in seen.calls if call.jitter_ms is not None])
            self.note("excess", [] if seen.excess_ms is None else [seen.excess_ms])
        return self.policy

    def note(self, signal: str, values: list[float]) -> None:
        if values:
            self.seconds[signal].append(statistics.fmean(values))


def cases(table: Path, count: int) -> list[Case]:
    """The first worlds of a table in which a pace of data is the best fixed setting."""
    found = []
    with table.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            classes = set(row["classes"].split("; "))
            pace = re.search(r'"data-pacing", rate_kbps = ([\d.]+)', row["setting"])
            if row["control"] != "best fixed setting" or not pace or float(row["clear"]) < CLEAR:
                continue
            if classes >= NEEDED and classes.isdisjoint(LEFT_OUT):
                found.append(Case(drawn(row["split"], int(row["world"])), float(pace[1]) / 1e3))
    return found[:count]


def watch(case: Case, seed: int) -> Watched:
    scenario = fairhop.Scenario.from_toml(case.world.text())
    watched: Watched = {}
    for part in PARTS:
        watcher = Watcher(part * case.pace_mbps)
        fairhop.run(scenario, seeds=(seed,), control=watcher)
        watched[part] = watcher.seconds
    return watched


def watch_all(chosen: Sequence[Case], seed: int) -> list[Watched]:
    progress = Progress("signals", len(chosen), "worlds")
    found = []
    for case in chosen:
        found.append(watch(case, seed))
        progress.step()
    return found


def separation(low: list[float], high: list[float]) -> float | None:
    """The distance of the means over the spread of a second; none without a signal or a spread."""
    if min(len(low), len(high)) < 2:
        return None
    distance = statistics.fmean(high) - statistics.fmean(low)
    if distance == 0:
        return 0.0
    spread = math.sqrt((statistics.pvariance(low) + statistics.pvariance(high)) / 2)
    return distance / spread if spread > 0 else None


def quartiles(values: Sequence[float]) -> str:
    found = statistics.quantiles(values, n=4) if len(values) > 1 else []
    return ", ".join(f"{value:.2f}" for value in found) or "none"


def rows(found: Sequence[Watched]) -> Iterator[list[str]]:
    for signal, name in SIGNALS.items():
        row = [name]
        for low, high in PAIRS:
            each = (separation(world[low][signal], world[high][signal]) for world in found)
            row.append(quartiles([value for value in each if value is not None]))
        yield row


def mean_delays(found: Sequence[Watched]) -> list[dict[float, float]]:
    """The mean delay of calls in ms at each part of the best pace, for the worlds that have one at all of them."""
    watched = [world for world in found if all(world[part]["delay"] for part in PARTS)]
    return [{part: statistics.fmean(world[part]["delay"]) for part in PARTS} for world in watched]


def delays_by_load(delays: Sequence[dict[float, float]]) -> Iterator[list[str]]:
    """The mean delay over the pace, relative to that at the light load."""
    for part in PARTS[1:]:
        relative = [(world[part] / part) / (world[LIGHT] / LIGHT) for world in delays if world[LIGHT] > 0]
        yield [f"{part:g}", quartiles(relative)]


def delays_at_best(delays: Sequence[dict[float, float]]) -> str:
    """The range of the mean delay at the best pace."""
    means = [world[1.0] for world in delays]
    return f"{min(means):.2g} to {max(means):.2g} ms" if means else "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("table", type=Path, help="worlds-SPLIT.csv of `fairhop study adaptive worlds`")
    parser.add_argument("--worlds", type=int, default=60, help="maximum number of worlds [60]")
    parser.add_argument("--seed", type=int, default=7, help="seed of the runs; it should not have chosen the paces [7]")
    args = parser.parse_args()
    try:
        chosen = cases(args.table, args.worlds)
        if not chosen:
            sys.exit(f"{args.table} has no world in which a pace of data is the best fixed setting{HELP}")
        found = watch_all(chosen, args.seed)
    except KeyError as column:
        sys.exit(f"{args.table} has no column {column}{HELP}")
    except (OSError, ValueError, fairhop.RunError) as problem:
        sys.exit(f"{problem}{HELP}")
    except KeyboardInterrupt:
        sys.exit(130)
    heads = [f"{low:g} and {high:g} of the best pace" for low, high in PAIRS]
    print(Table(("signal", *heads), list(rows(found)), f"{len(found)} drawn worlds, quartiles").markdown())
    delays = mean_delays(found)
    by_load = ("part of the best pace", "delay of calls over the pace")
    print(Table(by_load, list(delays_by_load(delays)), f"relative to {LIGHT:g} of it, quartiles").markdown())
    print(f"Mean delay of call packets at the best pace: {delays_at_best(delays)}")


if __name__ == "__main__":
    main()

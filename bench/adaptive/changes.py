"""Changing worlds: how soon all calls are clear again after each change.

Judged are the one-second windows of calls. After a change, what counts is the windows that begin two seconds later or
after, up to the next change; and when two seconds in a row begin in which all calls are clear.
"""

from __future__ import annotations

import csv
import statistics
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from grid import CONTROLS
from simulator import FREE, MOS_GOOD, ROOT, Result, Sets, fairhop_run, table, tcp_mbps

WORLDS = {
    "change-calls": "calls come and go every 10 s",
    "change-flows": "TCP flows start in tens",
    "change-rate": "a hop's rate falls by half for 30 s",
    "change-hop": "a hop is added, another one, and both are gone",
}
SEEDS = tuple(range(1, 6))
#: Seconds that a control has to find back.
GRACE = 2
#: What is held against each other. Without TCP, the calls are as clear as they can be.
HELD: dict[str, Sets] = {
    "adaptive": CONTROLS["adaptive"],
    "none": CONTROLS["none"],
    "edca": CONTROLS["edca"],
    "no TCP": (),
}


@dataclass(frozen=True)
class Change:
    """What the seconds after one change show, in one run."""

    #: Call-seconds from the grace on, and how many of them were clear.
    whole: int
    clear: int
    #: Seconds from the change to the first of two in a row in which all calls are clear; none where there are none.
    back_s: int | None


def times_of(scenario: dict[str, object]) -> list[int]:
    """When something changes after the start, and the end."""
    entries = scenario["traffic"]
    assert isinstance(entries, list)
    changes = scenario.get("change", [])
    assert isinstance(changes, list)
    times = {entry[key] for entry in entries for key in ("start_s", "stop_s") if key in entry}
    times |= {change["at_s"] for change in changes}
    return [*sorted(int(time) for time in times if time > 0), int(str(scenario["duration_s"]))]


def without_tcp(scenario: dict[str, object]) -> Sets:
    """The overrides that take the TCP flows away."""
    entries = scenario["traffic"]
    assert isinstance(entries, list)
    return tuple(f"traffic.{number}.count=0" for number, entry in enumerate(entries) if entry["kind"] == "bulk")


def clear_by_second(trace: Path) -> dict[int, list[bool]]:
    """Whether each call that speaks is clear, by the second's beginning."""
    seconds: dict[int, list[bool]] = defaultdict(list)
    with trace.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            scores = [float(row[key]) for key in ("forward_mos", "backward_mos") if row[key]]
            if scores:
                seconds[round(float(row["t_s"])) - 1].append(min(scores) >= MOS_GOOD)
    return seconds


def changes_of(seconds: dict[int, list[bool]], times: Sequence[int]) -> list[Change]:
    found: list[Change] = []
    for at, until in pairwise(times):
        judged = [good for second in range(at + GRACE, until) for good in seconds[second]]
        clear = [all(seconds[second]) for second in range(at, until)]
        back = next((after for after, pair in enumerate(pairwise(clear)) if all(pair)), None)
        found.append(Change(len(judged), sum(judged), back))
    return found


def run(program: Path, world: str, sets: Sets, seed: int) -> tuple[list[Change], Result]:
    """One run, and what followed on each of its changes."""
    path = ROOT / "scenarios" / f"{world}.toml"
    times = times_of(tomllib.loads(path.read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        result = fairhop_run(world, sets, seed, "--trace", "mos", "--out", str(out), program=program)
        return changes_of(clear_by_second(out / "mos.csv"), times), result


def quality(changes: Iterable[Change]) -> list[str]:
    changes = list(changes)
    late = sum(change.back_s is None or change.back_s > GRACE for change in changes)
    backs = sorted(change.back_s for change in changes if change.back_s is not None)
    clear = sum(change.clear for change in changes) / max(1, sum(change.whole for change in changes))
    return [
        f"{clear:.3f}",
        f"{len(changes) - late} of {len(changes)}",
        f"{statistics.median(backs):g}" if backs else "never",
        "never" if len(backs) < len(changes) else str(backs[-1]),
    ]


def section(program: Path, seeds: Sequence[int] = SEEDS) -> str:
    """The table of all worlds and what is held against each other in them."""
    rows: list[list[str]] = []
    for world, said in WORLDS.items():
        scenario = tomllib.loads((ROOT / "scenarios" / f"{world}.toml").read_text(encoding="utf-8"))
        for name, sets in HELD.items():
            overrides = sets or (FREE, *without_tcp(scenario))
            runs = [run(program, world, overrides, seed) for seed in seeds]
            changes = [change for found, _ in runs for change in found]
            carried = statistics.fmean(tcp_mbps(result) for _, result in runs)
            rows.append([f"{said} (`{world}`)", name, *quality(changes), f"{carried:.2f}"])
    heads = (
        "world",
        "control",
        f"clear from {GRACE} s on",
        f"back within {GRACE} s",
        "median, s",
        "slowest, s",
        "TCP, Mb/s",
    )
    return table(heads, rows)

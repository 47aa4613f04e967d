"""Networks that change: how soon all calls are clear again after each change.

The unit is a one-second window of a call. After a change, the windows that begin two seconds later or more count, up to
the next change. Calls are back at the start of the first two consecutive seconds in which all calls are clear.
"""

from __future__ import annotations

import csv
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairhop.studies.adaptive.grid import CONTROLS
from fairhop.studies.adaptive.parallel import for_all
from fairhop.studies.lab import FREE, MOS_GOOD, Lab, Result, Runner, Sets, tcp_mbps
from fairhop.studies.model import Table

SCENARIOS = {
    "change-calls": "calls come and go every 10 s",
    "change-flows": "TCP flows start in tens",
    "change-rate": "a hop's rate falls by half for 30 s",
    "change-hop": "two hops are added one after the other, then both removed",
    "change-fail": "a relay fails, returns, and fails again",
}
SEEDS = range(1, 6)
#: Seconds after a change that do not count.
GRACE = 2
#: The controls that are compared. Without TCP, calls are as clear as they can be.
COMPARED: dict[str, Sets] = {
    "adaptive": CONTROLS["adaptive"],
    "none": CONTROLS["none"],
    "edca": CONTROLS["edca"],
    "no TCP": (),
}


@dataclass(frozen=True)
class Change:
    """The seconds after one change in one run."""

    #: Call-seconds after the grace time, and how many of them were clear.
    judged: int
    clear: int
    #: Seconds from the change until all calls are clear for two seconds; none if that never happens.
    back_s: int | None


def times_of(scenario: dict[str, object]) -> list[int]:
    """The times of all changes after the start, and the end, in seconds."""
    entries = scenario["traffic"]
    assert isinstance(entries, list)
    changes = scenario.get("change", [])
    assert isinstance(changes, list)
    times = {entry[key] for entry in entries for key in ("start_s", "stop_s") if key in entry}
    times |= {change["at_s"] for change in changes}
    return [*sorted(int(time) for time in times if time > 0), int(str(scenario["duration_s"]))]


def without_tcp(scenario: dict[str, object]) -> Sets:
    """The overrides that remove the TCP flows."""
    entries = scenario["traffic"]
    assert isinstance(entries, list)
    return tuple(f"traffic.{number}.count=0" for number, entry in enumerate(entries) if entry["kind"] == "bulk")


def clear_by_second(trace: Path) -> dict[int, list[bool]]:
    """Whether each active call is clear, by the start of the second."""
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


def figures_of(result: Result, out: Path) -> dict[str, Any]:
    """What is kept of a run: call quality second by second, and goodput."""
    return {"clear": list(clear_by_second(out / "mos.csv").items()), "mbps": tcp_mbps(result)}


def quality(changes: Iterable[Change]) -> list[str]:
    changes = list(changes)
    late = sum(change.back_s is None or change.back_s > GRACE for change in changes)
    backs = sorted(change.back_s for change in changes if change.back_s is not None)
    clear = sum(change.clear for change in changes) / max(1, sum(change.judged for change in changes))
    return [
        f"{clear:.3f}",
        f"{len(changes) - late} of {len(changes)}",
        f"{statistics.median(backs):g}" if backs else "never",
        "never" if len(backs) < len(changes) else str(backs[-1]),
    ]


def compared(runner: Runner, seeds: range) -> Table:
    """The table of all scenarios and controls.

    Raises:
        KeyboardInterrupt, Stopped: Ctrl-C was pressed.
        ProgramError: The program failed.
    """
    lab = Lab(runner, seeds, owner="changes")
    scenarios = {name: tomllib.loads(runner.printed("scenarios", name)) for name in SCENARIOS}

    def row(of: tuple[str, str]) -> list[str]:
        scenario, control = of
        sets = COMPARED[control] or (FREE, *without_tcp(scenarios[scenario]))
        runs = lab.files(scenario, sets, ("--trace", "mos"), "call quality by second", figures_of)
        times = times_of(scenarios[scenario])
        changes = [change for run in runs for change in changes_of(defaultdict(list, run["clear"]), times)]
        carried = statistics.fmean(run["mbps"] for run in runs)
        return [f"{SCENARIOS[scenario]} (`{scenario}`)", control, *quality(changes), f"{carried:.2f}"]

    pairs = [(scenario, control) for scenario in SCENARIOS for control in COMPARED]
    rows = for_all(runner, "changes", pairs, row, unit="settings")
    heads = (
        "scenario",
        "control",
        f"clear from {GRACE} s on",
        f"back within {GRACE} s",
        "median, s",
        "slowest, s",
        "TCP, Mb/s",
    )
    return Table(heads, rows)

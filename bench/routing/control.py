"""Adaptive control while routes break: TCP and calls with a controller that knows broken routes, and one that does not.

The gateway is node 0. Calls and downloads come from the Internet behind it. `route_silent_s` at infinity switches the
controller's knowledge of routes off. The worlds of the walker were used to design it; the others were not.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from simulator import MOS_GOOD, Result

#: Settings of [routing.aodv] by name.
NOTICED_BY = {"HELLO": "link_feedback = false", "both": ""}
#: Settings of the controller by column.
AWARE = {"unaware": "route_silent_s = 1e9", "aware": ""}
SEEDS = range(11, 15)
#: Seconds after an interruption that are looked at apart.
AFTER_S = 10.0
#: The first seconds do not count: the controller is learning.
WARMUP_S = 5.0


@dataclass(frozen=True)
class Place:
    """Nodes and how they move; the length of a run in seconds."""

    topology: str
    duration_s: float


def walker(spacing_m: float, speed_mps: float) -> Place:
    """Node 3 walks along nodes 0, 1 and 2 and back, up to 2.8 times their distance."""
    far = spacing_m * 620 / 220
    time = far / speed_mps
    waypoints = ", ".join(
        f"{{ at_s = {at:.3f}, x_m = {x:.3f}, y_m = 10 }}"
        for at, x in ((20, 0.0), (20 + time, far), (20 + 2 * time, 0.0))
    )
    nodes = ", ".join(f"{{ x_m = {spacing_m * number}, y_m = 0 }}" for number in range(3))
    topology = (
        f'[topology]\nkind = "explicit"\ngateway = 0\n'
        f"nodes = [{nodes}, {{ x_m = 0, y_m = 10, waypoints = [{waypoints}] }}]\n"
    )
    return Place(topology, 40 + 2 * time)


def waypoint(speed_mps: str, moves: bool = True) -> Place:
    """Fourteen nodes on 800 m x 300 m, of which all but the gateway move."""
    topology = '[topology]\nkind = "random"\nnodes = 14\nwidth_m = 800\nheight_m = 300\ngateway = 0\n'
    if moves:
        topology += (
            '\n[mobility]\nkind = "random-waypoint"\nwidth_m = 800\nheight_m = 300\n'
            f"speed_mps = {speed_mps}\nnodes = {list(range(1, 14))}\n"
        )
    return Place(topology, 120)


def flows(*entries: tuple[str, int, int]) -> str:
    """Kind, destination and number of flows from the Internet."""
    return "".join(
        f'[[traffic]]\nkind = "{kind}"\nfrom = "internet"\nto = {to}\ncount = {count}\n' for kind, to, count in entries
    )


TO_WALKER = flows(("call", 3, 2), ("bulk", 3, 2))
TO_SEVERAL = flows(("call", 1, 1), ("call", 2, 1), ("bulk", 1, 1), ("bulk", 3, 2))
#: Place, what notices a broken link, capture rule, traffic.
WORLDS = {
    "walker (design)": (walker(220, 10), "HELLO", "first", TO_WALKER),
    "walker with feedback (design)": (walker(220, 10), "both", "first", TO_WALKER),
    "walker, overlaps are lost": (walker(220, 10), "HELLO", "none", TO_WALKER),
    "slow walker, 180 m, 4 calls": (walker(180, 5), "HELLO", "first", flows(("call", 3, 4), ("bulk", 3, 3))),
    "waypoint, 2 to 8 m/s": (waypoint("[2, 8]"), "HELLO", "first", TO_SEVERAL),
    "waypoint, overlaps are lost": (waypoint("[2, 8]"), "HELLO", "none", TO_SEVERAL),
    "waypoint, 1 to 3 m/s": (waypoint("[1, 3]"), "HELLO", "first", TO_SEVERAL),
    "waypoint with feedback": (waypoint("[2, 8]"), "both", "first", TO_SEVERAL),
    "the same at rest": (waypoint("", moves=False), "HELLO", "first", TO_SEVERAL),
}


@dataclass(frozen=True)
class Controlled:
    """A run."""

    world: str
    aware: str
    seed: int
    table: str = "control"
    options: tuple[str, ...] = tuple(
        word for what in ("mos", "control", "interruption", "flow") for word in ("--trace", what)
    )

    @property
    def name(self) -> str:
        """Its name in the file of results."""
        return f"control-{self.world}-{self.aware}-{self.seed}"

    def scenario(self) -> str:
        """The scenario's text."""
        place, noticed_by, rule, traffic = WORLDS[self.world]
        return f"""name = "{self.world}"
duration_s = {place.duration_s:.3f}
warmup_s = {WARMUP_S}

[radio]
standard = "802.11a"
rate_mbps = 12
capture = "{rule}"
propagation = {{ model = "range", receive_m = 250, carrier_sense_m = 550 }}

{place.topology}
[internet]
delay_ms = 30
rate_mbps = 100

[routing]
protocol = "aodv"
aodv = {{ {NOTICED_BY[noticed_by]} }}

[control]
kind = "adaptive"
tuning = {{ {AWARE[self.aware]} }}

{traffic}"""

    def kept(self, result: Result, folder: Path) -> dict[str, Any]:
        """What is stored of a run."""
        ends = [
            float(row["t_s"]) + float(row["length_s"])
            for row in rows(folder / "interruption.csv")
            if row["flow"].startswith("call")
        ]

        def is_after(end_s: float) -> bool:
            """Whether the second up to this time is among those after an interruption."""
            return any(end < end_s - 1 and end_s <= end + 1 + AFTER_S for end in ends)

        good: dict[bool, list[bool]] = {False: [], True: []}
        for row in rows(folder / "mos.csv"):
            at = float(row["t_s"])
            if at > WARMUP_S:
                scores = [float(row[way]) for way in ("forward_mos", "backward_mos") if row[way]]
                good[is_after(at)].append(min(scores, default=5.0) >= MOS_GOOD)
        tcp: dict[float, float] = {}
        for row in rows(folder / "flow.csv"):
            if row["kind"] != "call" and is_after(float(row["t_s"])):
                tcp[float(row["t_s"])] = tcp.get(float(row["t_s"]), 0.0) + float(row["forward_mbps"])
        decisions = rows(folder / "control.csv")
        named = sum("interrupted by the route" in row["reason"] for row in decisions)
        learning = [row["state"] == "learning" for row in decisions]
        both = good[False] + good[True]
        return {
            "tcp_mbps": result["totals"]["tcp_goodput_mbps"],
            "clear": sum(both) / max(1, len(both)),
            "tcp_after_mbps": sum(tcp.values()) / len(tcp) if tcp else None,
            "clear_after": sum(good[True]) / len(good[True]) if good[True] else None,
            "interruptions": len(ends),
            "named_s": named / 10,
            "learnt_anew": sum(now and not before for before, now in pairwise(learning[100:])),
            "routing": result.get("routing"),
        }


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a time series; none where it has not been written."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def controlled() -> Iterator[Controlled]:
    """All runs."""
    for world in WORLDS:
        for aware in AWARE:
            for seed in SEEDS:
                yield Controlled(world, aware, seed)

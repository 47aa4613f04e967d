"""A walker along a string of three nodes: what each handover costs a flow, by what notices that a link is gone.

Nodes 0, 1 and 2 stand at 0, 220 and 440 m. The walker goes from (0, 10) m to 620 m at 10 m/s from 5 s on, and straight
back. Its flow goes to node 0. The direct link is lost at 30.0 s, the one to node 1 at 52.0 s; it is in reach of node 0
again from 104 s on. ns-2 and ns-3 had the same walk.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator import Result

#: [routing] by column.
ROUTING = {
    "routes known at once": "",
    "HELLO and feedback": 'protocol = "aodv"\n',
    "feedback": 'protocol = "aodv"\naodv = { hello = "off" }\n',
    "HELLO": 'protocol = "aodv"\naodv = { link_feedback = false }\n',
}
#: When silences of the two handovers outwards and of the one inwards begin, in seconds.
HANDOVERS_S = {"30 s": (25.0, 45.0), "52 s": (45.0, 75.0), "way back": (85.0, 135.0)}
FLOWS = {
    "cbr": 'kind = "cbr"\nrate_kbps = 160\npayload_bytes = 1000\nstop_s = 143\n',
    "tcp": 'kind = "bulk"\nmss_bytes = 1460\nmax_window_packets = 64\nsack = false\nbyte_counting = false\n'
    "initial_window_packets = 2\ndelayed_ack_segments = 1\nrto_min_ms = 1000.0\n",
}
#: Seeds by flow, as the peers had them.
SEEDS = {"cbr": 10, "tcp": 5}


@dataclass(frozen=True)
class Walk:
    """A run."""

    traffic: str
    routing: str
    seed: int
    table: str = "walker"
    options: tuple[str, ...] = ("--trace", "interruption")

    @property
    def name(self) -> str:
        """Its name in the file of results."""
        return f"walker-{self.traffic}-{self.routing}-{self.seed}".replace(" ", "")

    def scenario(self) -> str:
        """The scenario's text."""
        return f"""name = "{self.name}"
duration_s = 144

[radio]
standard = "802.11b"
rate_mbps = 2
basic_rates_mbps = [1]
capture = "first"
capture_db = 10.0
propagation = {{ model = "range", receive_m = 250, carrier_sense_m = 550 }}

[topology]
kind = "explicit"
nodes = [
  {{ x_m = 0, y_m = 0 }},
  {{ x_m = 220, y_m = 0 }},
  {{ x_m = 440, y_m = 0 }},
  {{ x_m = 0, y_m = 10, waypoints = [
    {{ at_s = 5, x_m = 0, y_m = 10 }},
    {{ at_s = 67, x_m = 620, y_m = 10 }},
    {{ at_s = 129, x_m = 0, y_m = 10 }},
  ] }},
]

[mac]
short_retry_limit = 7
long_retry_limit = 4
turnaround_us = 0.0
queue = {{ packets = 49 }}

[routing]
{ROUTING[self.routing]}
[[traffic]]
from = 3
to = 0
start_s = 1
{FLOWS[self.traffic]}"""

    def kept(self, result: Result, folder: Path) -> dict[str, Any]:
        """What is stored of a run."""
        flow = result["flows"][0]
        interruptions = folder / "interruption.csv"
        silences: list[tuple[float, float]] = []
        if interruptions.exists():
            with interruptions.open(encoding="utf-8") as file:
                rows = [row for row in csv.DictReader(file) if row["direction"] == "forward"]
                silences = [(float(row["t_s"]), float(row["length_s"])) for row in rows]
        return {
            "goodput_mbps": flow["goodput_mbps"],
            "delivered": 1 - flow["loss"],
            "lost": flow["lost"],
            "routing": result.get("routing"),
            "silences": silences,
        }


def walks() -> Iterator[Walk]:
    """V3: the roaming walker."""
    for traffic in FLOWS:
        for routing in ROUTING:
            for seed in range(1, SEEDS[traffic] + 1):
                yield Walk(traffic, routing, seed)


def handover(name: str, kept: dict[str, Any]) -> float:
    """The longest silence that begins around a handover, in seconds; 0 where none is longer than a second."""
    begin, end = HANDOVERS_S[name]
    return max((length for at, length in kept["silences"] if begin <= at < end), default=0.0)

"""The grid: cells of hops, calls, TCP flows, Internet delay and TCP variant, and the controls that run in each."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass

from fairhop.studies.lab import FREE, Sets

SCENARIO = "adaptive-grid"

HOPS = (1, 2, 3, 4, 5, 6)
CALLS = (0, 1, 3, 6, 9)
FLOWS = (1, 3, 10, 30)
DELAYS_MS = (10, 30, 150)
VARIANTS = ("reno", "cubic", "bbr")
DIRECTIONS = ("down", "up", "mixed")


@dataclass(frozen=True, order=True)
class Cell:
    """A point of the grid. `mixed` is half downloads and half uploads; an odd number has one upload more."""

    hops: int
    calls: int
    flows: int
    delay_ms: int
    variant: str
    direction: str = "down"

    def name(self) -> str:
        return (
            f"hops={self.hops} calls={self.calls} flows={self.flows} delay={self.delay_ms} "
            f"tcp={self.variant} direction={self.direction}"
        )

    @classmethod
    def named(cls, name: str) -> Cell:
        """The cell with this name."""
        words = dict(word.split("=", 1) for word in name.split())
        hops, calls, flows, delay = (int(words[key]) for key in ("hops", "calls", "flows", "delay"))
        return cls(hops, calls, flows, delay, words["tcp"], words["direction"])

    def axes(self) -> dict[str, str]:
        """The values of the axes by their names."""
        return dict(word.split("=", 1) for word in self.name().split())

    def sets(self) -> Sets:
        """The overrides that turn the scenario into this cell."""
        downloads = {"down": self.flows, "up": 0, "mixed": self.flows // 2}[self.direction]
        # Only the receivers' RTCP reports show the gateway how uploads affect calls into the mesh.
        reports = () if self.direction == "down" else ("traffic.0.rtcp_interval_s=1",)
        return (
            *reports,
            f"topology.hops={self.hops}",
            f"internet.delay_ms={self.delay_ms}",
            f"traffic.0.to={self.hops}",
            f"traffic.0.count={self.calls}",
            f"traffic.1.to={self.hops}",
            f"traffic.1.count={downloads}",
            f"traffic.1.tcp={self.variant}",
            f"traffic.2.from={self.hops}",
            f"traffic.2.count={self.flows - downloads}",
            f"traffic.2.tcp={self.variant}",
        )


def whole_grid(direction: str) -> list[Cell]:
    """All cells of a direction in a fixed random order: the first N are a fair sample."""
    cells = [Cell(*point, direction) for point in itertools.product(HOPS, CALLS, FLOWS, DELAYS_MS, VARIANTS)]
    random.Random(1).shuffle(cells)
    return cells


#: Random cells of the sample with downloads and with uploads, and other cells in which the adaptive control was worst,
#: alternately by calls and by TCP.
RANDOM_CELLS = 45
UPLOAD_CELLS = 25
WORST: tuple[str, ...] = (
    "hops=3 calls=1 flows=1 delay=30 tcp=bbr direction=down",
    "hops=4 calls=9 flows=1 delay=150 tcp=reno direction=down",
    "hops=4 calls=1 flows=10 delay=30 tcp=bbr direction=down",
    "hops=4 calls=9 flows=1 delay=10 tcp=cubic direction=down",
    "hops=6 calls=6 flows=30 delay=10 tcp=bbr direction=down",
    "hops=4 calls=9 flows=30 delay=30 tcp=bbr direction=down",
    "hops=6 calls=6 flows=30 delay=10 tcp=cubic direction=down",
    "hops=4 calls=9 flows=30 delay=30 tcp=cubic direction=down",
    "hops=6 calls=6 flows=30 delay=10 tcp=reno direction=down",
    "hops=4 calls=9 flows=30 delay=30 tcp=reno direction=down",
    "hops=6 calls=1 flows=30 delay=150 tcp=bbr direction=down",
    "hops=6 calls=6 flows=1 delay=30 tcp=bbr direction=down",
    "hops=6 calls=6 flows=10 delay=150 tcp=bbr direction=down",
    "hops=5 calls=6 flows=1 delay=30 tcp=cubic direction=down",
    "hops=4 calls=3 flows=1 delay=150 tcp=bbr direction=down",
)


#: Cells of a quick study.
QUICK_CELLS = 12


def sample() -> list[Cell]:
    """The fixed cells that `make test` runs. Only the random ones are a fair sample."""
    uploads = whole_grid("up")[:UPLOAD_CELLS]
    return [*whole_grid("down")[:RANDOM_CELLS], *map(Cell.named, WORST), *uploads]


def only(cells: Iterable[Cell], filters: str) -> list[Cell]:
    """The cells that match a filter such as `hops=4,calls=3`; a key given twice allows both values."""
    allowed: dict[str, set[str]] = {}
    for word in filter(None, filters.split(",")):
        key, _, value = word.partition("=")
        allowed.setdefault(key, set()).add(value)
    keys = Cell(1, 0, 1, 10, "reno").axes()
    if unknown := allowed.keys() - keys.keys():
        raise ValueError(f"no axis is called {', '.join(sorted(unknown))}; there are {', '.join(keys)}")
    return [cell for cell in cells if all(cell.axes()[key] in values for key, values in allowed.items())]


# ---- settings -------------------------------------------------------------------------------------------------------

#: The adaptive control, no control, and what is used today.
CONTROLS: dict[str, Sets] = {
    "adaptive": ('control={ kind = "adaptive" }',),
    "none": (FREE,),
    "priority": ('control={ kind = "priority" }',),
    "edca": (FREE, "mac.edca=true"),
    "fq-codel": (FREE, 'mac.queue={ discipline = "fq-codel", packets = 1000 }'),
}
#: Shapers at the gateway and their disciplines. Their rates depend on what the path carries.
SHAPERS = {"shaper": "drop-tail", "cake": "cake"}
#: A shaper's rate as a fraction of the measured capacity.
SHAPED = 0.9
#: Bytes of a segment as a shaper counts them, and of its payload.
COUNTED, PAYLOAD = 1514, 1460


def speed_test(cell: Cell, direction: str) -> Cell:
    """The measurement by which a shaper is set: ten CUBIC flows over this path and no calls."""
    return Cell(cell.hops, 0, 10, 10, "cubic", direction)


def shaper(discipline: str, down_mbps: float, up_mbps: float) -> Sets:
    """Shapers at 90 % of the goodput measured in each direction."""
    rate, up = (round(SHAPED * mbps * COUNTED / PAYLOAD * 1e3) for mbps in (down_mbps, up_mbps))
    return (f'control={{ kind = "shaper", rate_kbps = {rate}, up_kbps = {up}, discipline = "{discipline}" }}',)

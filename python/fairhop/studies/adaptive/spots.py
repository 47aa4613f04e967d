"""Where the nodes of a drawn world stand, and which of them receive each other.

Shadowing is drawn here, and a world carries it as a loss matrix: the simulator would draw it anew for each seed, so
that every seed would be another network.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

Spot = tuple[float, float]

#: Minimum sensitivity in dBm by rate in Mb/s (IEEE 802.11-2020, tables 15-5, 16-4 and 17-18).
SENSITIVITY = {1: -80, 2: -80, 5.5: -76, 11: -76} | {
    6: -82,
    9: -81,
    12: -79,
    18: -77,
    24: -74,
    36: -70,
    48: -66,
    54: -65,
}
#: A loss without a signal, as the scenario's matrix defines it, in dB.
NO_SIGNAL_DB = 1000.0


@dataclass(frozen=True)
class Log:
    """Log-distance path loss with shadowing that is drawn once for a pair of nodes."""

    exponent: float
    reference_loss_db: float
    shadowing_db: float
    tx_power_dbm: float

    def loss(self, distance_m: float) -> float:
        """Mean loss in dB."""
        return self.reference_loss_db + 10 * self.exponent * math.log10(max(distance_m, 1.0))

    def distance(self, power_dbm: float) -> float:
        """The distance in metres at which the mean power is this."""
        return float(10 ** ((self.tx_power_dbm - power_dbm - self.reference_loss_db) / (10 * self.exponent)))


@dataclass(frozen=True)
class Places:
    """Nodes, and the power with which each receives each other in dBm above what it needs."""

    spots: tuple[Spot, ...]
    #: By pair of nodes: how much more power arrives than a decodable frame needs at the common rate, in dB. With a
    #: plain range: 0 or more where nodes are in range.
    margin: dict[tuple[int, int], float]
    #: The loss matrix, if there is shadowing.
    loss_db: tuple[tuple[float, ...], ...] | None = None

    def neighbours(self, node: int) -> list[int]:
        return [other for other in range(len(self.spots)) if self.margin.get((node, other), -1.0) >= 0]

    def hops(self, gateway: int = 0, without: int | None = None) -> dict[int, int]:
        """Hops from the gateway to each node that it reaches; `without` is a node that failed."""
        found = {gateway: 0}
        queue = deque([gateway])
        while queue:
            node = queue.popleft()
            for other in self.neighbours(node):
                if other not in found and other != without:
                    found[other] = found[node] + 1
                    queue.append(other)
        return found

    def path(self, to: int, gateway: int = 0) -> list[int]:
        """A shortest path from the gateway."""
        hops = self.hops(gateway)
        path = [to]
        while path[-1] != gateway:
            before = [node for node in self.neighbours(path[-1]) if hops.get(node, math.inf) == hops[path[-1]] - 1]
            path.append(before[0])
        return path[::-1]


def in_range(spots: Sequence[Spot], receive_m: float) -> Places:
    """Nodes that decode each other within a radius."""
    margin = {
        (one, other): receive_m - math.dist(spots[one], spots[other])
        for one in range(len(spots))
        for other in range(len(spots))
        if one != other
    }
    return Places(tuple(spots), margin)


def in_shadow(spots: Sequence[Spot], log: Log, needed_dbm: float, draw: random.Random) -> Places:
    """Nodes under log-distance path loss with shadowing, equal in both directions."""
    number = len(spots)
    loss = [[0.0] * number for _ in spots]
    margin: dict[tuple[int, int], float] = {}
    for one in range(number):
        for other in range(one):
            mean = log.loss(math.dist(spots[one], spots[other]))
            value = round(mean + draw.gauss(0.0, log.shadowing_db), 2)
            loss[one][other] = loss[other][one] = value
            above = log.tx_power_dbm - value - needed_dbm
            margin[one, other] = margin[other, one] = above
    return Places(tuple(spots), margin, tuple(tuple(row) for row in loss))


def string(hops: int, spacing_m: float) -> list[Spot]:
    return [(round(spacing_m * node, 1), 0.0) for node in range(hops + 1)]


def grid(columns: int, rows: int, spacing_m: float) -> list[Spot]:
    return [
        (round(spacing_m * column, 1), round(spacing_m * row, 1)) for row in range(rows) for column in range(columns)
    ]


def ring(nodes: int, spacing_m: float) -> list[Spot]:
    radius = spacing_m / (2 * math.sin(math.pi / nodes))
    angles = (2 * math.pi * node / nodes for node in range(nodes))
    return [(round(radius * (1 + math.cos(a)), 1), round(radius * (1 + math.sin(a)), 1)) for a in angles]


def mesh(nodes: int, spacing_m: float, draw: random.Random) -> list[Spot]:
    """Nodes in a rectangle, none of them close to another: a new node stands within reach of an old one."""
    width = spacing_m * math.sqrt(nodes) * draw.uniform(0.7, 1.3)
    height = spacing_m**2 * nodes / width
    found: list[Spot] = []
    while len(found) < nodes:
        at = (round(draw.uniform(0, width), 1), round(draw.uniform(0, height), 1))
        near = min((math.dist(at, other) for other in found), default=spacing_m)
        if 0.4 * spacing_m <= near <= 1.1 * spacing_m:
            found.append(at)
    return found

"""Max-min shares of C-load and fairness indices (Osipov and Tschudin 2007; Jain 1984)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairhop import _native


@dataclass(frozen=True)
class Allocation:
    """Shares of C-load."""

    #: C-load share by association. Calls get their demand.
    shares: NDArray[np.float64]
    #: By association, the region that limits its share. None for calls, and for associations at their limit.
    bottlenecks: list[int | None]
    #: Regions in which the demand of the calls alone exceeds 1.
    overloaded: list[int]


def max_min(
    regions: Sequence[Sequence[int]],
    associations: int,
    *,
    weight: ArrayLike = 1.0,
    limit: ArrayLike = np.inf,
    call_load: ArrayLike = np.nan,
) -> Allocation:
    """Max-min fair shares with weights, limits and calls.

    `regions` lists the associations of each L-region. An association with a `call_load` other than NaN is a call, which
    needs exactly this C-load and is served first.

    >>> max_min([[0, 1], [1, 2]], 3).shares
    array([0.5, 0.5, 0.5])
    """

    def each(values: ArrayLike) -> list[float]:
        return [float(value) for value in np.broadcast_to(np.asarray(values, float), associations)]

    lists = [[int(association) for association in region] for region in regions]
    shares, bottlenecks, overloaded = _native.max_min(lists, each(weight), each(limit), each(call_load))
    return Allocation(np.array(shares), bottlenecks, overloaded)


def jain(shares: ArrayLike) -> float | None:
    """Jain's index: 1 for equal shares, 1/n if one has everything; None without shares."""
    return _native.jain_index([float(share) for share in np.ravel(np.asarray(shares, float))])


def unfairness(fair: ArrayLike, actual: ArrayLike) -> float | None:
    """The unfairness index of osipov2007: how far actual rates are from the fair ones; None if it does not exist."""
    fair, actual = np.asarray(fair, float), np.asarray(actual, float)
    return _native.unfairness([float(rate) for rate in fair.ravel()], [float(rate) for rate in actual.ravel()])

"""Delay outage over a slotted wireless link, and the largest window that keeps it rare (Cai et al. 2005)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairhop import _native


@lru_cache(maxsize=256)
def _link(error: float, memory: float, arq: str) -> _native.Link:
    return _native.Link(error, memory, arq)


def delay_outage(
    error: ArrayLike,
    slots: ArrayLike,
    window: ArrayLike,
    *,
    memory: float = 0.0,
    arq: str = "persistent",
    start: str = "any-slot",
) -> NDArray[np.float64]:
    """Probability that a packet takes more than `slots` slots for a round trip with `window` packets outstanding.

    `error` is the probability that a slot is lost, `memory` the memory of the channel from 0 to under 1; `arq` is
    persistent or optimal; `start` is any-slot, as in the paper, or after-success, which is exact for channels with
    memory.
    """

    def one(error: float, slots: int, window: int) -> float:
        return _link(float(error), memory, arq).delay_outage(int(slots), int(window), start)

    return np.vectorize(one, otypes=[float])(error, slots, window)[()]  # type: ignore[no-any-return]


def max_window(
    error: ArrayLike,
    slots: ArrayLike,
    *,
    bound: float = 0.01,
    memory: float = 0.0,
    arq: str = "persistent",
    start: str = "any-slot",
) -> NDArray[np.int64]:
    """The largest window with a delay outage of at most `bound`; 0 if even one packet exceeds it.

    >>> int(max_window(0.1, 40))
    31
    """

    def one(error: float, slots: int) -> int:
        return _link(float(error), memory, arq).max_window(int(slots), bound, start)

    return np.vectorize(one, otypes=[np.int64])(error, slots)[()]  # type: ignore[no-any-return]

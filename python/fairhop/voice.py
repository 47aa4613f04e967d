"""Call quality by the E-model (ITU-T G.107, Cole and Rosenbluth 2001), on NumPy arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairhop import _native

Array = NDArray[np.float64]


def mos(loss: ArrayLike, delay_ms: ArrayLike, *, codec: str = "g729a", playout_ms: float = 60.0) -> Array:
    """Mean opinion score of one direction of a call, 1 to 4.5.

    `loss` is the fraction of packets lost or late; `delay_ms` is the one-way delay of the network, with a playout
    buffer that of the fastest packet. Codecs: g729a, g711, g723.1, opus.

    >>> float(mos(0.02, 104).round(2))
    3.6
    """
    losses, delays, out = _broadcast(loss, delay_ms)
    _native.mos(codec, losses, delays, playout_ms, out)
    return out[()]


def r_factor(loss: ArrayLike, delay_ms: ArrayLike, *, codec: str = "g729a", playout_ms: float = 60.0) -> Array:
    """The rating R of one direction of a call; arguments as in :func:`mos`."""
    losses, delays, out = _broadcast(loss, delay_ms)
    _native.r_factor(codec, losses, delays, playout_ms, out)
    return out[()]


def mos_of_r(r: ArrayLike) -> Array:
    """The mean opinion score of a rating (G.107 annex B)."""
    return np.vectorize(_native.mos_of_r, otypes=[float])(r)[()]  # type: ignore[no-any-return]


def _broadcast(loss: ArrayLike, delay_ms: ArrayLike) -> tuple[Array, Array, Array]:
    losses, delays = np.broadcast_arrays(np.asarray(loss, float), np.asarray(delay_ms, float))
    losses, delays = np.ascontiguousarray(losses), np.ascontiguousarray(delays)
    return losses, delays, np.empty(losses.shape)

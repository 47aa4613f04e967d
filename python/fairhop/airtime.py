"""Channel time of packets and upper bounds for a path of equal radio hops, on NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairhop import _native


@dataclass(frozen=True)
class Path:
    """A line of equal hops.

    The bounds are those of a perfect schedule without collisions, losses and queues, one kind of traffic at a time.
    """

    #: Number of hops.
    hops: int = 1
    #: 802.11a, 802.11b or 802.11g.
    standard: str = "802.11a"
    #: Rate of data frames in Mb/s.
    rate_mbps: float = 12.0
    #: Rates of control frames in Mb/s.
    basic_rates_mbps: tuple[float, ...] = (6.0,)
    #: long or short.
    preamble: str = "long"
    #: Frames of more bytes use RTS and CTS; None: never.
    rts_threshold: int | None = None
    #: Number of hops over which a frame is sensed and interferes.
    reach: int = 2
    #: Receivers keep a frame despite a weaker one from within that reach.
    capture: bool = False

    @cached_property
    def _native(self) -> _native.Path:
        return _native.Path(
            self.standard,
            self.rate_mbps,
            list(self.basic_rates_mbps),
            self.preamble,
            self.rts_threshold,
            self.hops,
            self.reach,
            self.capture,
        )

    def packet_us(self, ip_bytes: ArrayLike) -> NDArray[np.float64]:
        """Channel time of an IP packet on one hop in microseconds, mean backoff included."""
        return np.vectorize(lambda size: sum(self._native.packet_us(int(size))), otypes=[float])(ip_bytes)[()]  # type: ignore[no-any-return]

    def packet_parts_us(self, ip_bytes: int) -> dict[str, float]:
        """The parts of that time."""
        names = ("difs", "backoff", "protection", "data", "acknowledgment")
        return dict(zip(names, self._native.packet_us(ip_bytes), strict=True))

    def udp_mbps(self, payload_bytes: ArrayLike = 1472) -> NDArray[np.float64]:
        """Upper bound of one-way UDP goodput in Mb/s."""
        return np.vectorize(lambda size: self._native.udp_mbps(int(size)), otypes=[float])(payload_bytes)[()]  # type: ignore[no-any-return]

    def tcp_mbps(
        self, mss: ArrayLike = 1460, *, options: int = 0, segments_per_ack: float = 2.0
    ) -> NDArray[np.float64]:
        """Upper bound of one-way TCP goodput in Mb/s; `options` bytes of TCP options in segments and ACKs."""

        def one(size: int) -> float:
            return self._native.tcp_mbps(int(size), options, segments_per_ack)

        return np.vectorize(one, otypes=[float])(mss)[()]  # type: ignore[no-any-return]

    def calls(self, codec: str = "g729a") -> int:
        """Upper bound of the number of calls, each with a stream in both directions along the whole path."""
        return self._native.calls(codec)

"""Policies of controllers that are written in Python.

A controller is a function or a class whose instances can be called. At each tick (ten a second) it gets an
:class:`fairhop.Observation`, which is what a gateway can see, and returns a :class:`Policy`, or None to keep the last
one. A class is instantiated once for each run and gateway, so that what an instance remembers belongs to one run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from fairhop._native import Observation


@dataclass(frozen=True)
class Limit:
    """What one flow may do; None is no limit."""

    #: Pace of its data into the mesh in Mb/s of IP packets.
    rate_mbps: float | None = None
    #: Clamp on the TCP windows of both ends in bytes.
    window_bytes: int | None = None


@dataclass(frozen=True)
class Policy:
    """What a gateway enforces; None is no limit."""

    #: Pace of all elastic packets into the mesh together in Mb/s.
    down_mbps: float | None = None
    #: Pace of the data that ACKs out of the mesh acknowledge (downloads), together, in Mb/s.
    down_ack_mbps: float | None = None
    #: Pace of the data that ACKs into the mesh acknowledge (uploads), together, in Mb/s.
    up_ack_mbps: float | None = None
    #: Clamp on the TCP windows of flows without a limit of their own, in bytes.
    window_bytes: int | None = None
    #: Limits of single flows by :attr:`fairhop.Flow.id`.
    flows: Mapping[str, Limit] = field(default_factory=dict)


Controller: TypeAlias = Callable[[Observation], Policy | None] | type[Callable[[Observation], Policy | None]]
"""A function, or a class whose instances can be called."""

"""The native part of `fairhop`."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path as FilePath
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Call",
    "Flow",
    "Link",
    "Observation",
    "Outcome",
    "Path",
    "Scenario",
    "ScenarioError",
    "Table",
    "__version__",
    "jain_index",
    "max_min",
    "mos",
    "mos_of_r",
    "r_factor",
    "ready_made",
    "run",
    "student_t_975",
    "sweep",
    "unfairness",
]

__version__: str

class ScenarioError(ValueError):
    """A scenario that is wrong or cannot be simulated. `problems` lists what is wrong and where."""

    problems: list[dict[str, str | int]]

@final
class Scenario:
    @staticmethod
    def load(path: str | PathLike[str]) -> Scenario: ...
    @staticmethod
    def ready(name: str) -> Scenario: ...
    @staticmethod
    def from_text(name: str, text: str, folder: str | PathLike[str]) -> Scenario: ...
    def with_changes(self, changes: Sequence[str]) -> Scenario: ...
    @property
    def name(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def warmup_s(self) -> float: ...
    @property
    def source(self) -> str: ...
    @property
    def folder(self) -> FilePath: ...
    @property
    def text(self) -> str: ...
    @property
    def changes(self) -> list[str]: ...
    @property
    def warnings(self) -> list[str]: ...
    def resolved(self) -> str: ...

def ready_made() -> list[tuple[str, str]]: ...

@final
class Table:
    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def descriptions(self) -> dict[str, str]: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Outcome:
    @property
    def summary(self) -> str | None: ...
    @property
    def chart(self) -> str | None: ...
    @property
    def complete(self) -> list[int]: ...
    @property
    def error(self) -> BaseException | None: ...
    def take_tables(self) -> dict[str, Table]: ...

def run(
    scenario: Scenario,
    seeds: Sequence[int],
    *,
    threads: int | None = None,
    control: Callable[..., Any] | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Outcome: ...
def sweep(
    name: str,
    text: str,
    folder: str | PathLike[str],
    into: str | PathLike[str],
    *,
    threads: int | None = None,
    progress: Callable[[int, int, int, float | None], object] | None = None,
) -> tuple[int, int, int]: ...

@final
class Call:
    """A call as the gateway sees it, over the last second."""

    @property
    def id(self) -> str: ...
    @property
    def mos(self) -> float | None: ...
    @property
    def loss(self) -> float | None: ...
    @property
    def late(self) -> float | None: ...
    @property
    def delay_ms(self) -> float | None: ...

@final
class Flow:
    """A flow whose data can wait: TCP, or UDP with a high rate."""

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def is_upload(self) -> bool: ...
    @property
    def rate_mbps(self) -> float: ...
    @property
    def hops(self) -> int | None: ...
    @property
    def min_rtt_ms(self) -> float | None: ...

@final
class Observation:
    """What a gateway knows at a tick."""

    @property
    def time_s(self) -> float: ...
    @property
    def gateway(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def excess_ms(self) -> float | None: ...
    @property
    def calls(self) -> list[Call]: ...
    @property
    def flows(self) -> list[Flow]: ...

def mos(
    codec: str, loss: NDArray[np.float64], delay_ms: NDArray[np.float64], playout_ms: float, out: NDArray[np.float64]
) -> None: ...
def r_factor(
    codec: str, loss: NDArray[np.float64], delay_ms: NDArray[np.float64], playout_ms: float, out: NDArray[np.float64]
) -> None: ...
def mos_of_r(r: float) -> float: ...
def max_min(
    regions: Sequence[Sequence[int]], weights: Sequence[float], limits: Sequence[float], loads: Sequence[float]
) -> tuple[list[float], list[int | None], list[int]]: ...
def jain_index(shares: Sequence[float]) -> float | None: ...
def student_t_975(df: int) -> float: ...
def unfairness(fair: Sequence[float], actual: Sequence[float]) -> float | None: ...

@final
class Link:
    def __new__(cls, error: float, memory: float, arq: str) -> Link: ...
    @property
    def throughput(self) -> float: ...
    def delay_outage(self, slots: int, window: int, start: str) -> float: ...
    def max_window(self, slots: int, bound: float, start: str) -> int: ...

@final
class Path:
    def __new__(
        cls,
        standard: str,
        rate_mbps: float,
        basic_rates_mbps: Sequence[float],
        preamble: str,
        rts_threshold: int | None,
        hops: int,
        reach: int,
        capture: bool,
    ) -> Path: ...
    def packet_us(self, ip_bytes: int) -> list[float]: ...
    def udp_mbps(self, payload_bytes: int) -> float: ...
    def tcp_mbps(self, mss: int, options: int, segments_per_ack: float) -> float: ...
    def calls(self, codec: str) -> int: ...

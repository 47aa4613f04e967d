"""Runs of drawn worlds and their figures, kept in a file so that nothing is run twice.

A line is one run: the hash of the world, the setting, the seed and the figures. Fixed settings do not depend on the
controller, so their figures are used whichever program made them; those of `adaptive` only for the same program.
"""

from __future__ import annotations

import csv
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from fairhop.studies.adaptive.store import CLEAR, Store, UnknownRunError
from fairhop.studies.adaptive.worlds import LEARNING_S, World
from fairhop.studies.lab import MOS_GOOD, Result, Runner, Sets, run_words

T = TypeVar("T")

#: Seeds that choose the oracle's setting; seeds that judge it, and so choose the worlds that count; and seeds that have
#: chosen neither.
CHOOSING, JUDGING, AGAIN = (101, 102), (1, 2), (3, 4)
ADAPTIVE: Sets = ('control={ kind = "adaptive" }',)
#: The traces that figures are taken from.
TRACES = ("mos", "flow", "control")
#: Fraction of the final goodput at which a controller has learnt.
LEARNT = 0.8
#: Words of the reason for a decision that takes waiting packets for missing demand.
NOT_USED = "budget is not used"


def tuned(constant: str, value: float) -> Sets:
    """Adaptive control with another value of a constant."""
    return (f'control={{ kind = "adaptive", tuning = {{ {constant} = {value!r} }} }}',)


#: Where probes are used, and the traffic whose nodes are probed. `calls` and `data`: where all calls stay in the mesh.
#: `unreported`: where calls without reports come from elsewhere, and there are uploads.
PROBED = {"calls": ("call",), "data": ("bulk", "quic"), "unreported": ("call",)}
#: Nodes that the gateway probes at a time for calls without reports.
MAX_UNREPORTED = 4


def probed_nodes(world: World, probed: str) -> list[int]:
    """The nodes of which a world has probes; none if they are not for it."""
    gateway = world.scenario["topology"].get("gateway", 0)
    calls = world.entries("call")
    stay = bool(calls) and all(isinstance(entry["from"], int) for entry in calls)
    entries = world.entries(*PROBED[probed])
    if probed == "unreported":
        uploads = {"data up", "data both"} & set(world.labels)
        entries = [entry for entry in entries if uploads and not stay and "rtcp_interval_s" not in entry]
    elif not stay:
        return []
    ends = [entry[end] for entry in entries for end in ("from", "to")]
    nodes = list(dict.fromkeys(end for end in ends if isinstance(end, int) and end != gateway))
    return sorted(nodes)[:MAX_UNREPORTED] if probed == "unreported" else nodes


def adaptive(world: World, probed: str | None = None, opaque: bool = False) -> Sets:
    """Adaptive control, with probes, and with calls of an unknown protocol."""
    nodes = probed_nodes(world, probed) if probed else []
    probe = 'kind = "ping", from = "gateway", interval_ms = 40, packet_bytes = 60, dscp = "EF", probe = true'
    traffic = world.scenario["traffic"] if opaque else []
    calls = [place for place, entry in enumerate(traffic) if entry["kind"] == "call"]
    return (
        *ADAPTIVE,
        *(f'traffic.+={{ name = "probe-{node}", {probe}, to = {node} }}' for node in nodes),
        *(f"traffic.{place}.{key}" for place in calls for key in ("rtcp_interval_s=0", "opaque=true")),
    )


def is_adaptive(setting: Sets) -> bool:
    return any('kind = "adaptive"' in word for word in setting)


@dataclass(frozen=True)
class Figures:
    """Results of one setting in one world: one seed, or the mean of several."""

    #: Goodput of TCP and QUIC transfers, in Mb/s: the flows that take what they can get.
    data_mbps: float
    #: Fraction of the call-seconds after the learning time in which both directions have a MOS of 3.6 or more.
    clear: float
    #: Fraction of clear call-seconds during the learning time.
    clear_first: float
    #: Seconds until the data flows have 80 % of their final goodput for two seconds.
    learnt_s: float
    #: Fraction of video frames that are complete in time; 1 without video.
    video: float
    #: Mean time of a web page in seconds; 0 without one.
    page_s: float
    #: Longest time in seconds in which packets waited in the pacer while the decision was that the budget is not used.
    stuck_s: float

    @property
    def good(self) -> bool:
        return self.clear >= CLEAR

    @classmethod
    def mean(cls, several: Sequence[Figures]) -> Figures:
        return cls(*(statistics.fmean(getattr(one, field.name) for one in several) for field in fields(cls)))


# ---- figures of a run -----------------------------------------------------------------------------------------------


def seconds_of(path: Path, *columns: str) -> list[tuple[float, str, list[float | None]]]:
    """The lines of a trace with one line per second and flow: end of the second, flow or kind, values."""
    found: list[tuple[float, str, list[float | None]]] = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values = [float(row[name]) if row[name] else None for name in columns]
            found.append((float(row["t_s"]), row.get("kind", row["flow"]), values))
    return found


def clear_first(trace: Path) -> float:
    """Clear call-seconds of the learning time."""
    clear: list[bool] = []
    for end, _, values in seconds_of(trace, "forward_mos", "backward_mos"):
        scores = [value for value in values if value is not None]
        if scores and end <= LEARNING_S:
            clear.append(min(scores) >= MOS_GOOD)
    return statistics.fmean(clear) if clear else 1.0


def learnt_s(trace: Path) -> float:
    """When the mean goodput of two seconds first reaches a fraction of the final one, that of the last third."""
    by_second: dict[float, float] = defaultdict(float)
    for end, kind, values in seconds_of(trace, "forward_mbps"):
        if kind in {"bulk", "quic"}:
            by_second[end] += values[0] or 0.0
    ends, rates = list(by_second), list(by_second.values())
    final = statistics.fmean(rates[-len(rates) // 3 :]) if rates else 0.0
    pairs = zip(ends[1:], rates, rates[1:], strict=False)
    return next((end for end, one, two in pairs if one + two >= 2 * LEARNT * final), ends[-1] if ends else 0.0)


def stuck_s(trace: Path) -> float:
    """The longest time of successive decisions that the budget is not used while packets wait."""
    longest, since = 0.0, None
    with trace.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            at = float(row["t_s"])
            if NOT_USED in row["reason"] and float(row["pacer_packets"] or 0) > 0:
                since = at if since is None else since
                longest = max(longest, at - since)
            else:
                since = None
    return longest


def figures_of(result: Result, folder: Path) -> Figures:
    """The figures of a run from its results, and from its traces where they exist."""
    flows = result["flows"]
    frames = [(flow["video"]["frames"], flow["video"]["complete"]) for flow in flows if flow.get("video")]
    pages = [flow["transactions"] for flow in flows if flow["kind"] == "web" and flow.get("transactions")]
    times = [(page["finished"], (page["time"]["mean_ms"] or 0.0) / 1e3) for page in pages if page["finished"]]
    traced = (folder / "flow.csv").exists()
    return Figures(
        data_mbps=round(sum(flow["goodput_mbps"] or 0.0 for flow in flows if flow["kind"] in {"bulk", "quic"}), 6),
        clear=round(float(result["totals"]["calls_clear"]), 6),
        clear_first=round(clear_first(folder / "mos.csv"), 4) if traced else 0.0,
        learnt_s=learnt_s(folder / "flow.csv") if traced else 0.0,
        video=round(weighted(frames), 4) if frames else 1.0,
        page_s=round(weighted(times), 4) if times else 0.0,
        stuck_s=round(stuck_s(folder / "control.csv"), 2) if traced else 0.0,
    )


def weighted(pairs: Iterable[tuple[float, float]]) -> float:
    """The mean of the second values, weighted by the first."""
    pairs = list(pairs)
    return sum(weight * value for weight, value in pairs) / max(1e-9, sum(weight for weight, _ in pairs))


# ---- the store ------------------------------------------------------------------------------------------------------


Key = tuple[str, Sets, int]


def file_of(folder: Path, world: World) -> Path:
    """The scenario file of a world, written if it is missing or another."""
    path = folder / world.split / f"{world.number}.toml"
    text = world.text()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path


def run_traced(
    runner: Runner, file: Path, setting: Sets, seed: int, traces: Sequence[str], read: Callable[[Result, Path], T]
) -> T:
    """What `read` finds in the results and in the folder of the traces of a run.

    Raises:
        Stopped: The study is being interrupted.
        ProgramError: The program failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        # Without --out, traces are written to the current directory.
        words = [*run_words(str(file.absolute()), setting, seed), "--threads", "1"]
        result = runner.call(*words, *(word for name in traces for word in ("--trace", name)), folder=Path(folder))
        return read(result, Path(folder))


class WorldRuns(Store[Key, Figures]):
    """Runs worlds and stores their figures."""

    def __init__(self, runner: Runner, folder: Path, *, only_adaptive: bool) -> None:
        self.runner, self.folder, self.only_adaptive = runner, folder, only_adaptive
        self._by = runner.hash[:16]

        def read(line: dict[str, Any]) -> tuple[Key, Figures] | None:
            sets = tuple(line["sets"])
            if line["made"] != self._by and is_adaptive(sets):
                return None
            figures = Figures(*(line["figures"][field.name] for field in fields(Figures)))
            return (line["world"], sets, line["seed"]), figures

        super().__init__(folder / "runs.jsonl", read)

    def one(self, world: World, setting: Sets, seed: int) -> Figures:
        """The figures of one seed.

        Raises:
            Stopped: The study is being interrupted.
            UnknownRunError: It is not stored, and only `adaptive` may be run.
            ProgramError: The program failed.
        """
        key = (world.key(), setting, seed)
        if known := self.known(key):
            return known
        if self.only_adaptive and not is_adaptive(setting):
            raise UnknownRunError(world.name())
        traces = TRACES if seed in JUDGING else ()
        figures = run_traced(self.runner, file_of(self.folder, world), setting, seed, traces, figures_of)
        line = {"world": key[0], "name": world.name(), "sets": setting, "seed": seed, "made": self._by}
        self.keep(key, figures, {**line, "figures": asdict(figures)})
        return figures

    def mean(self, world: World, setting: Sets, seeds: Sequence[int]) -> Figures:
        """The mean of the seeds."""
        return Figures.mean([self.one(world, setting, seed) for seed in seeds])

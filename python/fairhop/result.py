"""Results of runs: figures, tables and a picture."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from fairhop import _native

if TYPE_CHECKING:
    from fairhop.scenario import Scenario


class Tables(Mapping[str, pl.DataFrame]):
    """The tables of a result by name, as Polars frames that share the memory of the simulator.

    They are those that `fairhop run --out` writes; `about(name)` describes the columns of one.
    """

    def __init__(self, native: dict[str, _native.Table]) -> None:
        self._native = native
        self._frames: dict[str, pl.DataFrame] = {}

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self._frames:
            self._frames[name] = pl.DataFrame(self.arrow(name))
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._native)

    def __len__(self) -> int:
        return len(self._native)

    def arrow(self, name: str) -> _native.Table:
        """A table for any library that knows the Arrow PyCapsule interface (pandas, DuckDB, pyarrow)."""
        try:
            return self._native[name]
        except KeyError:
            raise KeyError(f"there is no table {name!r}; the tables are {', '.join(self._native)}") from None

    def about(self, name: str) -> dict[str, str]:
        """What the columns of a table are."""
        return self.arrow(name).descriptions

    def __repr__(self) -> str:
        return "<tables: " + ", ".join(self._native) + ">"


class Result:
    """What was measured in the runs of a scenario."""

    def __init__(self, scenario: Scenario, outcome: _native.Outcome, wall_s: float) -> None:
        #: The scenario.
        self.scenario = scenario
        #: Wall time of all runs in seconds.
        self.wall_s = wall_s
        #: The tables by name.
        self.tables = Tables(outcome.take_tables())
        self._summary = json.loads(outcome.summary or "{}")
        self._chart = outcome.chart
        self._complete = outcome.complete

    def summary(self) -> dict[str, Any]:
        """Means over the seeds, and the half-widths of their 95 % confidence intervals under `ci95`: the object that
        `fairhop run --json` prints, without the wall time.
        """
        summary: dict[str, Any] = json.loads(json.dumps(self._summary))
        return summary

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs."""
        return list(self._summary["seeds"])

    @property
    def partial(self) -> list[int]:
        """The seeds of runs that were ended early."""
        return [seed for seed in self.seeds if seed not in self._complete]

    @property
    def totals(self) -> dict[str, float | None]:
        """Figures over all calls and flows: means over the seeds."""
        return dict(self._summary["totals"])

    @property
    def calls(self) -> pl.DataFrame:
        """A row for each call: means over the seeds."""
        return _frame(self._summary["calls"])

    @property
    def flows(self) -> pl.DataFrame:
        """A row for each flow that is no call: means over the seeds."""
        return _frame(self._summary["flows"])

    def svg(self) -> str:
        """The picture of the first run: call quality above goodput, both over time."""
        return self._chart or ""

    def __repr__(self) -> str:
        shown = ("mos_mean", "calls_ok", "tcp_goodput_mbps")
        figures = ", ".join(f"{name} {_number(self.totals[name])}" for name in shown)
        return f"<Result of {self.scenario.name!r}, {len(self.seeds)} seeds: {figures}>"

    def _repr_html_(self) -> str:
        intervals = self._summary["ci95"].get("totals", {})
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{_number(value)}</td><td>{_interval(intervals.get(name))}</td></tr>"
            for name, value in self.totals.items()
        )
        partial = f"; ended early: {self.partial}" if self.partial else ""
        heading = f"{self.scenario.name}: {len(self.seeds)} seeds{partial}"
        return (
            f"<div><p><b>{html.escape(heading)}</b></p>"
            "<table><thead><tr><th>figure</th><th>mean</th><th>95&nbsp;%</th></tr></thead>"
            f"<tbody>{rows}</tbody></table><div style='max-width:100%;overflow-x:auto'>{self.svg()}</div></div>"
        )


class RunError(RuntimeError):
    """Runs were ended by an exception in a controller, which is the cause (`__cause__`)."""

    def __init__(self, message: str, result: Result | None) -> None:
        super().__init__(message)
        #: What was measured until then; None if all runs were in their warm-up.
        self.result = result


class Interrupted(KeyboardInterrupt):
    """Runs were ended by Ctrl-C."""

    def __init__(self, result: Result | None) -> None:
        super().__init__("the runs were interrupted")
        #: What was measured until then; None if all runs were in their warm-up.
        self.result = result


def _frame(entries: list[dict[str, Any]]) -> pl.DataFrame:
    """The plain values of entries; nested ones (delays, losses by reason) are in :meth:`Result.summary`."""
    plain = [{key: value for key, value in entry.items() if not isinstance(value, dict | list)} for entry in entries]
    return pl.DataFrame(plain, infer_schema_length=None)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _interval(value: float | None) -> str:
    return "" if value is None else f"± {value:.2g}"

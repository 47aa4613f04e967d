"""Tables of the grid's results."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairhop.studies.adaptive.grid import Cell
from fairhop.studies.adaptive.grid_oracle import Outcome
from fairhop.studies.adaptive.grid_runs import Figures
from fairhop.studies.model import Table

#: A control is as good as the oracle in a cell if calls are good and TCP has this fraction of the oracle's goodput.
AS_GOOD = 0.9
#: Number of cells in a list of the worst.
WORST = 15


@dataclass(frozen=True)
class Measured:
    """The oracle of each cell, and the figures of each control in it."""

    oracles: dict[Cell, Outcome]
    controls: dict[str, dict[Cell, Figures]]


@dataclass(frozen=True)
class Verdict:
    """One control in one cell where the oracle has good calls."""

    cell: Cell
    oracle: Outcome
    figures: Figures

    @property
    def ratio(self) -> float:
        """Goodput over the oracle's."""
        return self.figures.goodput_mbps / max(self.oracle.goodput_mbps, 1e-9)

    @property
    def good(self) -> bool:
        """Whether calls are good; true without calls."""
        return self.figures.good


def verdicts(measured: Measured, control: str) -> list[Verdict]:
    """Verdicts in the cells where some fixed setting makes calls good."""
    return [
        Verdict(cell, measured.oracles[cell], figures)
        for cell, figures in sorted(measured.controls[control].items())
        if measured.oracles[cell].calls_can
    ]


def decile(values: Sequence[float]) -> float:
    """The value below which a tenth of the values lie."""
    return statistics.quantiles(values, n=10, method="inclusive")[0] if len(values) > 1 else values[0]


def figures(several: Sequence[Verdict]) -> list[str]:
    """Number of cells, cells with good calls, median and worst decile of goodput, fraction as good as the oracle."""
    if not several:
        return ["0", "", "", "", ""]
    with_calls = [verdict for verdict in several if verdict.cell.calls]
    ratios = [verdict.ratio for verdict in several]
    good = sum(verdict.good for verdict in with_calls)
    as_good = sum(verdict.good and verdict.ratio >= AS_GOOD for verdict in several)
    return [
        str(len(several)),
        f"{good} of {len(with_calls)}" if with_calls else "",
        f"{statistics.median(ratios):.2f}",
        f"{decile(ratios):.2f}",
        f"{as_good / len(several):.0%}",
    ]


HEADS = ("cells", "calls good", "TCP, median", "worst decile", "as good as the oracle")


def by_control(measured: Measured) -> str:
    rows = [[control, *figures(verdicts(measured, control))] for control in measured.controls]
    return Table(("control", *HEADS), rows).markdown()


def by_axis(several: Iterable[Verdict]) -> str:
    several = list(several)
    rows: list[list[str]] = []
    for axis in several[0].cell.axes():
        values = dict.fromkeys(verdict.cell.axes()[axis] for verdict in several)
        ordered = sorted(values, key=lambda value: (not value.isdigit(), int(value) if value.isdigit() else 0, value))
        if len(ordered) > 1:
            rows += [
                [f"{axis} {value}", *figures([v for v in several if v.cell.axes()[axis] == value])] for value in ordered
            ]
    return Table(("", *HEADS), rows).markdown()


def where_as_good(measured: Measured, axis: str) -> str:
    """For each control and each value of an axis, the fraction of cells in which it is as good as the oracle."""
    values = sorted({int(cell.axes()[axis]) for cell in measured.oracles})
    rows: list[list[str]] = []
    for control in measured.controls:
        several = verdicts(measured, control)
        at = [[verdict for verdict in several if int(verdict.cell.axes()[axis]) == value] for value in values]
        rows.append([control, *(figures(part)[-1] for part in at)])
    return Table(("control", *(f"{axis} {value}" for value in values)), rows).markdown()


def worst(several: Sequence[Verdict], key: str) -> str:
    """The cells with the worst calls, or with the lowest goodput of TCP."""
    if key == "calls":
        order = sorted((verdict for verdict in several if not verdict.good), key=lambda verdict: verdict.figures.clear)
    else:
        order = sorted(several, key=lambda verdict: verdict.ratio)
    rows = [
        [
            verdict.cell.name(),
            f"{verdict.oracle.goodput_mbps:.3f}",
            f"{verdict.oracle.clear:.3f}" if verdict.cell.calls else "",
            f"`{verdict.oracle.setting.removeprefix('control=')}`",
            f"{verdict.figures.goodput_mbps:.3f}",
            f"{verdict.figures.clear:.3f}" if verdict.cell.calls else "",
            f"{verdict.ratio:.2f}",
        ]
        for verdict in order[:WORST]
    ]
    return Table(("cell", "oracle, Mb/s", "clear", "its setting", "control, Mb/s", "clear", "ratio"), rows).markdown()


def text(measured: Measured) -> str:
    can = sum(outcome.calls_can for outcome in measured.oracles.values())
    parts = [
        f"{len(measured.oracles)} cells; a fixed setting makes calls good in {can}, and only these are judged.\n",
        by_control(measured),
        "As good as the oracle, by hops and by calls:\n",
        where_as_good(measured, "hops"),
        where_as_good(measured, "calls"),
    ]
    several = verdicts(measured, "adaptive") if "adaptive" in measured.controls else []
    if several:
        parts += ["`adaptive`, by axis:\n", by_axis(several)]
        parts += ["`adaptive`, where calls are worst:\n", worst(several, "calls")]
        parts += ["`adaptive`, where TCP's goodput is lowest:\n", worst(several, "TCP")]
    return "\n".join(parts)


#: Columns of the table with a row for each cell and control.
COLUMNS = (
    *Cell(1, 0, 1, 10, "reno").axes(),
    "control", "goodput_mbps", "clear", "calls_good", "oracle", "oracle_goodput_mbps", "oracle_clear",
    "oracle_calls_good",
)  # fmt: skip


def every_cell(measured: Measured) -> tuple[Sequence[str], list[list[str]]]:
    """The figures of every control in every cell, with the oracle of the cell: heads and rows."""
    rows: list[list[str]] = []
    for cell, best in sorted(measured.oracles.items()):
        oracle = [best.setting, f"{best.goodput_mbps:.6f}", f"{best.clear:.6f}", str(best.calls_can).lower()]
        for control, of in measured.controls.items():
            found = of[cell]
            own = [control, f"{found.goodput_mbps:.6f}", f"{found.clear:.6f}", str(found.good).lower()]
            rows.append([*cell.axes().values(), *own, *oracle])
    return COLUMNS, rows

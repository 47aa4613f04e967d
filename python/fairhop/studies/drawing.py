"""Figures as SVG: one picture a panel, which a page places beside or below each other."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairhop.studies.model import Figure, Line, Panel
from fairhop.sweeps import MissingLibraryError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of Okabe and Ito (2008), which colour-blind readers can tell apart; black is the paper's.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
MARKERS = ("o", "^", "s", "v", "P", "X", "*")
PAPER = "#000000"
#: Width and height in inches. A phone shows a picture nearly at this size.
SIZE = (4.5, 3.6)
#: Settings of matplotlib, whose types name every key.
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "fairhop",
    "svg.fonttype": "path",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "legend.fontsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(figure: Figure) -> list[str]:
    """The panels of a figure as SVG, with equal axes unless a panel has a label of its own.

    Raises:
        MissingLibraryError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise MissingLibraryError("matplotlib") from None
    tops = [max((y for line in panel.lines for y in line.y), default=0.0) for panel in figure.panels]
    top = max(tops, default=0.0)
    with matplotlib.rc_context(STYLE):
        return [
            _svg(figure, panel, own if panel.y_label else top) for panel, own in zip(figure.panels, tops, strict=True)
        ]


def _svg(figure: Figure, panel: Panel, top: float) -> str:
    from matplotlib.figure import Figure as Picture
    from matplotlib.ticker import MaxNLocator

    picture = Picture(figsize=SIZE, layout="constrained")
    axes = picture.subplots()
    ours = 0
    for line in panel.lines:
        if line.from_paper:
            _paper(axes, line, joined=line.dashed)
            continue
        _ours(axes, line, ours, len(panel.lines), joined=not figure.x_names)
        # Dashed lines are references.
        ours += not line.dashed
    if panel.title:
        axes.set_title(panel.title)
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(panel.y_label or figure.y_label)
    axes.grid(color="#E3E3E3", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_ylim(0, 1.08 * top or 1.0)
    if all(float(x).is_integer() for line in panel.lines for x in line.x):
        # Numbers of packets, calls, hops and flows.
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if figure.x_names:
        axes.set_xticks(range(len(figure.x_names)), figure.x_names)
        axes.set_xlim(-0.5, len(figure.x_names) - 0.5)
    picture.legend(loc="outside lower center", ncols=2, frameon=False, handlelength=2.2, columnspacing=1.2)
    out = io.StringIO()
    # Without a date and with fixed identifiers, equal studies give equal pictures.
    picture.savefig(out, format="svg", metadata={"Date": None, "Creator": "fairhop"})
    return out.getvalue()


def _paper(axes: Axes, line: Line, *, joined: bool) -> None:
    style = "--" if joined else "none"
    marker = "" if joined and len(line.x) == 2 else "D"
    axes.plot(
        line.x, line.y, linestyle=style, marker=marker, markersize=7, color=PAPER, fillstyle="none", label=line.label,
        zorder=4,
    )  # fmt: skip


def _ours(axes: Axes, line: Line, place: int, count: int, *, joined: bool) -> None:
    color = COLORS[place % len(COLORS)]
    marker = MARKERS[place % len(MARKERS)]
    if line.dashed:
        color, marker = "#6B6B6B", "_" if not joined else ""
    if joined:
        axes.plot(
            line.x, line.y, linestyle=":" if line.dashed else "-", marker=marker, markersize=4.5, color=color,
            label=line.label,
        )  # fmt: skip
        if line.half:
            axes.fill_between(line.x, *_band(line), color=color, alpha=0.18, linewidth=0)
        return
    # Lines side by side at each named place.
    shift = 0.0 if line.dashed else 0.12 * (place - (count - 2) / 2)
    low, high = _band(line)
    axes.errorbar(
        [x + shift for x in line.x], line.y,
        yerr=([y - a for y, a in zip(line.y, low, strict=True)], [b - y for y, b in zip(line.y, high, strict=True)]),
        linestyle="none", marker=marker, markersize=22 if line.dashed else 6, color=color, capsize=2,
        label=line.label,
    )  # fmt: skip


def _band(line: Line) -> tuple[Sequence[float], Sequence[float]]:
    """The ends of the confidence intervals. No figure here can be negative."""
    half = line.half or [0.0] * len(line.y)
    low = [max(0.0, y - h) for y, h in zip(line.y, half, strict=True)]
    return low, [y + h for y, h in zip(line.y, half, strict=True)]

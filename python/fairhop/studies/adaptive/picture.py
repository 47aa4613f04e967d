"""The capacity region as a picture: how much TCP each control carries beside how many calls.

A series with good calls beside one call or more is drawn as a line. A cross is what a control carries while calls are
bad: no part of the region. Whiskers are 95 % confidence intervals over seeds. Colours are those of Okabe and Ito
(2008), which colour-blind readers can distinguish.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from fairhop.studies.adaptive.grid_runs import Figures
from fairhop.studies.model import Estimate

CALLS = tuple(range(12))
WIDTH, HEIGHT = 900, 560
LEFT, RIGHT, TOP, BOTTOM = 70, 210, 80, 120
#: Space between the frame and the first and last number of calls, for markers that are shifted sideways.
INSET = 22
INK, FAINT, GRID = "#222222", "#666666", "#DDDDDD"
COLOURS = ("#222222", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8B6F47", "#999999")
#: Height of a line of text in the legend and in the note.
LEGEND_LINE, NOTE_LINE = 22, 17


@dataclass(frozen=True)
class Point:
    """What a control carries beside a number of calls: goodput in Mb/s by seed, and whether calls are good."""

    calls: int
    mbps: tuple[float, ...]
    good: bool

    @classmethod
    def of(cls, calls: int, several: Sequence[Figures]) -> Point:
        """The point of the results of some seeds."""
        return cls(calls, tuple(figures.goodput_mbps for figures in several), Figures.mean(several).good)

    @property
    def mean(self) -> float:
        return Estimate.of(self.mbps).mean

    @property
    def half(self) -> float:
        """Half-width of the 95 % confidence interval; 0 with one seed."""
        return Estimate.of(self.mbps).half


@dataclass(frozen=True)
class Series:
    """The points of one control, by number of calls."""

    name: str
    points: list[Point]

    @property
    def has_line(self) -> bool:
        """Whether two neighbouring points have good calls, so that a line joins them."""
        return any(a.good and b.good for a, b in zip(self.points, self.points[1:], strict=False))


def ticks(highest: float) -> list[float]:
    """Round numbers from 0 to at least `highest`."""
    step = next(s for s in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0) if highest / s <= 8)
    count = math.ceil(highest / step)
    return [step * number for number in range(count + 1)]


# ---- shapes ---------------------------------------------------------------------------------------------------------


def text(x: float, y: float, content: str, *, size: int = 13, anchor: str = "start", colour: str = INK) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">'
        f"{escape(content)}</text>"
    )


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def dot(x: float, y: float, colour: str, width: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width + 1.5}" fill="{colour}"/>'


def cross(x: float, y: float, colour: str, width: float) -> str:
    arm, stroke = width + 1.5, 0.6 + width / 2
    return line(x - arm, y - arm, x + arm, y + arm, colour, stroke) + line(
        x - arm, y + arm, x + arm, y - arm, colour, stroke
    )


def whisker(x: float, low: float, high: float, colour: str) -> str:
    """A confidence interval; `low` and `high` are heights on the page."""
    ends = (line(x - 3, y, x + 3, y, colour, 1) for y in (low, high))
    return line(x, low, x, high, colour, 1) + "".join(ends)


# ---- the picture ----------------------------------------------------------------------------------------------------


class Axes:
    """Places on the page of calls and Mb/s."""

    def __init__(self, rows: Sequence[float]) -> None:
        self.rows = rows
        self.wide, self.high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(self, calls: float) -> float:
        return LEFT + INSET + (self.wide - 2 * INSET) * calls / CALLS[-1]

    def y(self, mbps: float) -> float:
        return TOP + self.high * (1 - max(0.0, min(mbps, self.rows[-1])) / self.rows[-1])

    def drawn(self) -> list[str]:
        parts = []
        for row in self.rows:
            parts += [line(LEFT, self.y(row), LEFT + self.wide, self.y(row), GRID, 1)]
            parts += [text(LEFT - 8, self.y(row) + 4, f"{row:g}", anchor="end", colour=FAINT)]
        below = TOP + self.high
        parts += [text(self.x(calls), below + 20, str(calls), anchor="middle", colour=FAINT) for calls in CALLS]
        parts += [
            text(LEFT + self.wide / 2, below + 42, "calls", anchor="middle"),
            f'<text transform="translate(20 {TOP + self.high / 2:.1f}) rotate(-90)" font-size="13" '
            f'text-anchor="middle" fill="{INK}">goodput of TCP, Mb/s</text>',
        ]
        return parts


def drawn(series: Series, axes: Axes, colour: str, width: float, shift: float) -> list[str]:
    """One series. Points of series without a line are shifted sideways, so that they do not cover each other."""
    parts = [f"<g><title>{escape(series.name)}</title>"]
    for point, after in zip(series.points, series.points[1:], strict=False):
        if point.good and after.good:
            parts += [
                line(axes.x(point.calls), axes.y(point.mean), axes.x(after.calls), axes.y(after.mean), colour, width)
            ]
    for point in series.points:
        x, y = axes.x(point.calls) + shift, axes.y(point.mean)
        low, high = axes.y(point.mean - point.half), axes.y(point.mean + point.half)
        if low - high > 4:
            parts += [whisker(x, low, high, colour)]
        parts += [dot(x, y, colour, width) if point.good else cross(x, y, colour, width)]
    return [*parts, "</g>"]


def legend(several: Sequence[Series], widths: Sequence[float], axes: Axes) -> list[str]:
    """A line or a marker for each series, as it is drawn, and the meaning of the markers."""
    left = LEFT + axes.wide + 24
    parts: list[str] = []
    for number, (series, colour, width) in enumerate(zip(several, COLOURS, widths, strict=False)):
        y = TOP + 10 + LEGEND_LINE * number
        if series.has_line:
            parts += [line(left, y, left + 24, y, colour, width), dot(left + 12, y, colour, width)]
        else:
            parts += [dot(left + 6, y, colour, width), cross(left + 18, y, colour, width)]
        parts += [text(left + 34, y + 4, series.name)]
    y = TOP + 10 + LEGEND_LINE * (len(several) + 1)
    parts += [dot(left + 12, y, FAINT, 2), text(left + 34, y + 4, "calls are good or none", colour=FAINT)]
    y += LEGEND_LINE
    parts += [cross(left + 12, y, FAINT, 1.6), text(left + 34, y + 4, "calls are bad", colour=FAINT)]
    y += LEGEND_LINE
    parts += [whisker(left + 12, y - 7, y + 7, FAINT), text(left + 34, y + 4, "95 % interval", colour=FAINT)]
    return parts


def capacity_region(title: str, setting: str, several: Sequence[Series], note: Sequence[str]) -> str:
    """The picture as an SVG, with its own light background so that it can be read on any page."""
    highest = max((point.mean + point.half for series in several for point in series.points), default=1.0)
    axes = Axes(ticks(highest))
    widths = [3.0 if series.has_line else 1.6 for series in several]
    markers = [series.name for series in several if not series.has_line]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        "role=\"img\" font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif\">",
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#FFFFFF"/>',
        text(LEFT, 32, title, size=18),
        text(LEFT, 54, setting, colour=FAINT),
        *axes.drawn(),
    ]
    for series, colour, width in zip(several, COLOURS, widths, strict=False):
        shift = 0.0 if series.has_line else 5.0 * (markers.index(series.name) - (len(markers) - 1) / 2)
        parts += drawn(series, axes, colour, width, shift)
    parts += legend(several, widths, axes)
    first = HEIGHT - NOTE_LINE * len(note)
    parts += [text(LEFT, first + NOTE_LINE * number, words, colour=INK) for number, words in enumerate(note)]
    return "\n".join([*parts, "</svg>"]) + "\n"

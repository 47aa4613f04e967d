"""The capacity region as a picture: how much TCP each control carries beside how many calls.

A line joins what is carried while calls are good. A cross is what is carried while they are not, no part of the
region. Colours are those of Okabe and Ito (2008), which colour-blind readers can tell apart; every line has its name at
the side.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

CALLS = tuple(range(12))
WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 80, 60
INK, FAINT, GRID = "#222222", "#666666", "#DDDDDD"
COLOURS = ("#222222", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8B6F47", "#999999")
#: A line of the legend.
LINE = 22


@dataclass(frozen=True)
class Curve:
    """What one control carries in Mb/s beside each number of calls, and whether the calls are good."""

    name: str
    points: list[tuple[int, float, bool]]


def ticks(most: float) -> list[float]:
    """Round numbers from 0 to what is at least `most`."""
    step = next(s for s in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0) if most / s <= 8)
    count = int(most / step + 0.999)
    return [step * number for number in range(count + 1)]


def text(x: float, y: float, said: str, *, size: int = 13, anchor: str = "start", colour: str = INK) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{escape(said)}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def capacity_region(title: str, setting: str, curves: list[Curve]) -> str:
    """The picture as an SVG, with its own light ground so that it can be read on any page."""
    rows = ticks(max((mbps for curve in curves for _, mbps, _ in curve.points), default=1.0))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(calls: float) -> float:
        return LEFT + wide * calls / CALLS[-1]

    def y(mbps: float) -> float:
        return TOP + high * (1 - mbps / rows[-1])

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        "role=\"img\" font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif\">",
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#FFFFFF"/>',
        text(LEFT, 32, title, size=18),
        text(LEFT, 54, setting, colour=FAINT),
    ]
    for row in rows:
        parts += [line(LEFT, y(row), LEFT + wide, y(row), GRID, 1)]
        parts += [text(LEFT - 8, y(row) + 4, f"{row:g}", anchor="end", colour=FAINT)]
    parts += [text(x(calls), TOP + high + 20, str(calls), anchor="middle", colour=FAINT) for calls in CALLS]
    parts += [
        text(LEFT + wide / 2, HEIGHT - 14, "calls", anchor="middle"),
        f'<text transform="translate(20 {TOP + high / 2:.1f}) rotate(-90)" font-size="13" text-anchor="middle" '
        f'fill="{INK}">goodput of TCP, Mb/s</text>',
    ]
    for number, (curve, colour) in enumerate(zip(curves, COLOURS, strict=False)):
        width = 3 if number < 2 else 1.6
        good = [(x(calls), y(mbps)) for calls, mbps, is_good in curve.points if is_good]
        parts += [f"<g><title>{escape(curve.name)}</title>"]
        for (calls, mbps, is_good), (after, more, is_too) in zip(curve.points, curve.points[1:], strict=False):
            if is_good and is_too:
                parts += [line(x(calls), y(mbps), x(after), y(more), colour, width)]
        parts += [f'<circle cx="{at:.1f}" cy="{up:.1f}" r="{width + 1.5}" fill="{colour}"/>' for at, up in good]
        for calls, mbps, is_good in curve.points:
            if not is_good:
                at, up = x(calls), y(mbps)
                parts += [
                    line(at - 3, up - 3, at + 3, up + 3, colour, 1.2),
                    line(at - 3, up + 3, at + 3, up - 3, colour, 1.2),
                ]
        parts += ["</g>"]
        down = TOP + 10 + LINE * number
        parts += [line(LEFT + wide + 20, down, LEFT + wide + 44, down, colour, width)]
        parts += [text(LEFT + wide + 52, down + 4, curve.name)]
    down = TOP + 10 + LINE * (len(curves) + 1)
    parts += [f'<circle cx="{LEFT + wide + 32}" cy="{down}" r="3.5" fill="{FAINT}"/>']
    parts += [text(LEFT + wide + 52, down + 4, "calls are good", colour=FAINT)]
    down, at = down + LINE, LEFT + wide + 32
    parts += [
        line(at - 3, down - 3, at + 3, down + 3, FAINT, 1.2),
        line(at - 3, down + 3, at + 3, down - 3, FAINT, 1.2),
    ]
    parts += [text(LEFT + wide + 52, down + 4, "calls are bad", colour=FAINT), "</svg>"]
    return "\n".join(parts) + "\n"

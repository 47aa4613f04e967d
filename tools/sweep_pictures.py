"""Pictures of the guides that show a sweep: lines over one setting, with the half-widths of 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shown import output, rows_below
from svg import BLUE, FAINT, GREEN, ORANGE, Axes, Svg

#: Mean and half-width by the setting of the horizontal axis.
Line = dict[float, tuple[float, float]]
ACCEPTABLE_MOS = 3.6


def sweep(page: str, plan: str, figure: str) -> dict[tuple[str, str], tuple[float, float]]:
    """A figure and its half-width by the values of the first two keys of a plan, as a page shows them."""
    lines = output(page, f"fairhop sweep {plan}")
    rows = rows_below(lines, lines[0])
    column = rows[0].index(figure)
    return {(row[0], row[1]): (float(row[column]), float(row[column + 1])) for row in rows[1:]}


def draw(chart: Axes, lines: Mapping[str, Line], colours: Sequence[str]) -> None:
    """Lines with whiskers, and a legend above them."""
    at = chart.left + chart.width
    for (name, line), colour in reversed(list(zip(lines.items(), colours, strict=True))):
        at -= 8 * len(name) + 34
        chart.svg.rect(at, chart.top - 24, 14, 14, colour)
        chart.svg.text(at + 20, chart.top - 12, name, size=12)
        for x, (mean, half) in line.items():
            chart.svg.line((chart.x(x), chart.y(mean - half)), (chart.x(x), chart.y(mean + half)), colour, 1.5)
            chart.svg.circle(chart.x(x), chart.y(mean), 4, colour)
        chart.svg.polyline(chart.at([(x, mean) for x, (mean, _) in line.items()]), colour, 2.5, name)


def of_calls(title: str, lines: Mapping[str, Line], colours: Sequence[str]) -> str:
    """The MOS of calls by their number."""
    numbers = sorted({x for line in lines.values() for x in line})
    svg = Svg(title, 880, 400)
    svg.text(30, 32, title, size=16, bold=True)
    chart = Axes(svg, 60, 90, 790, 250, (numbers[0] - 1, numbers[-1] + 1), (1, 4.5))
    chart.grid(numbers, (1, 2, 3, 4), "calls", "mean MOS")
    svg.line((60, chart.y(ACCEPTABLE_MOS)), (850, chart.y(ACCEPTABLE_MOS)), FAINT, 1.5, dash="6 4")
    svg.note(66, chart.y(ACCEPTABLE_MOS) + 16, "acceptable above this line", anchor="start")
    draw(chart, lines, colours)
    return str(svg)


def tutorial(page: str) -> str:
    """The village of the tutorial: calls alone and beside a download."""
    lines: dict[str, Line] = {"calls alone": {}, "beside a download": {}}
    for (calls, downloads), figure in sweep(page, "calls.toml", "MOS").items():
        lines["beside a download" if downloads == "1" else "calls alone"][float(calls)] = figure
    return of_calls("A village behind three hops: calls, alone and beside a download", lines, (BLUE, ORANGE))


def mesh(page: str) -> str:
    """How many calls fit, by hops."""
    lines: dict[str, Line] = {}
    for (hops, calls), figure in sweep(page, "hops.toml", "MOS").items():
        lines.setdefault(f"{hops} hops", {})[float(calls)] = figure
    return of_calls("How many calls fit, by the number of hops", lines, (GREEN, BLUE, ORANGE))


def variants(page: str) -> str:
    """TCP variants over a chain, relative to NewReno."""
    figures = sweep(page, "variants.toml", "TCP Mb/s")
    lines: dict[str, Line] = {}
    for (hops, variant), (mean, half) in figures.items():
        base = figures[hops, "newreno"][0]
        lines.setdefault(variant, {})[float(hops)] = (mean / base, half / base)
    title = "One download over a chain: goodput relative to NewReno"
    svg = Svg(title, 880, 400)
    svg.text(30, 32, title, size=16, bold=True)
    chart = Axes(svg, 60, 90, 790, 250, (0.7, 6.3), (0.8, 1.2))
    chart.grid((1, 2, 4, 6), (0.8, 0.9, 1, 1.1, 1.2), "hops", "goodput over NewReno's")
    draw(chart, lines, (FAINT, GREEN, ORANGE, BLUE))
    return str(svg)

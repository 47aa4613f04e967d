"""Parts of pictures as SVG: text, lines, nodes, boxes and the axes of a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

#: Those of Okabe and Ito (2008), which colour-blind readers can tell apart.
BLUE, ORANGE, GREEN, PINK, SKY, AMBER = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
INK, FAINT, GREY, GRID = "#222222", "#666666", "#D9D9D9", "#E3E3E3"

Point = tuple[float, float]


@dataclass
class Svg:
    """A picture with a white ground, so that it can be read on pages of any colour."""

    title: str
    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 13,
        anchor: str = "start",
        colour: str = INK,
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" fill="{colour}"{weight}>'
            f"{escape(words)}</text>"
        )

    def note(self, x: float, y: float, words: str, *, anchor: str = "middle", colour: str = FAINT) -> None:
        """Small text."""
        self.text(x, y, words, size=12, anchor=anchor, colour=colour)

    def line(self, a: Point, b: Point, colour: str = INK, width: float = 1.0, *, dash: str = "") -> None:
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" stroke="{colour}" '
            f'stroke-width="{width:g}"{dashes}/>'
        )

    def arrow(self, a: Point, b: Point, colour: str, width: float = 2.0, *, both: bool = False) -> None:
        """A horizontal arrow."""
        size = 9.0
        ahead = 1.0 if b[0] > a[0] else -1.0
        from_x = a[0] + ahead * size / 2 if both else a[0]
        self.line((from_x, a[1]), (b[0] - ahead * size / 2, b[1]), colour, width)
        for tip, way in ((b, ahead), (a, -ahead)) if both else ((b, ahead),):
            self.polygon(
                [tip, (tip[0] - way * size, tip[1] - size / 2), (tip[0] - way * size, tip[1] + size / 2)], colour
            )

    def polygon(self, points: Sequence[Point], fill: str) -> None:
        self.parts.append(f'<polygon points="{self.pairs(points)}" fill="{fill}"/>')

    def polyline(self, points: Sequence[Point], colour: str, width: float, title: str = "") -> None:
        name = f"<title>{escape(title)}</title>" if title else ""
        self.parts.append(
            f'<polyline points="{self.pairs(points)}" fill="none" stroke="{colour}" stroke-width="{width:g}" '
            f'stroke-linejoin="round">{name}</polyline>'
        )

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, *, stroke: str = "none", radius: float = 0
    ) -> None:
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}" fill="{fill}" '
            f'stroke="{stroke}"/>'
        )

    def circle(
        self, x: float, y: float, radius: float, fill: str, *, stroke: str = "none", opacity: float = 1.0
    ) -> None:
        self.parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{fill}" fill-opacity="{opacity:g}" '
            f'stroke="{stroke}"/>'
        )

    def node(self, x: float, y: float, name: str, fill: str = INK) -> None:
        self.circle(x, y, 15, fill)
        self.text(x, y + 5, name, anchor="middle", colour="#FFFFFF", bold=True)

    def box(self, x: float, y: float, width: float, height: float, lines: Sequence[str]) -> None:
        self.rect(x, y, width, height, "#F6F8FA", stroke="#8C959F", radius=6)
        for number, words in enumerate(lines):
            middle = y + height / 2 + 5 + 17 * (number - (len(lines) - 1) / 2)
            self.text(x + width / 2, middle, words, anchor="middle", bold=number == 0, size=13 if number == 0 else 12)

    @staticmethod
    def pairs(points: Sequence[Point]) -> str:
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)

    def __str__(self) -> str:
        size = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" height="{self.height:g}"'
        fonts = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{fonts}">'
        ground = f'<rect width="100%" height="100%" fill="#FFFFFF"/><title>{escape(self.title)}</title>'
        return "\n".join([head, ground, *self.parts, "</svg>"]) + "\n"


@dataclass
class Axes:
    """A chart in a picture: where it stands, and the ranges of both axes."""

    svg: Svg
    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: float) -> float:
        first, last = self.x_range
        return self.left + self.width * (value - first) / (last - first)

    def y(self, value: float) -> float:
        first, last = self.y_range
        return self.top + self.height * (1 - (value - first) / (last - first))

    def at(self, points: Sequence[Point]) -> list[Point]:
        return [(self.x(x), self.y(y)) for x, y in points]

    def grid(self, x_ticks: Sequence[float], y_ticks: Sequence[float], x_name: str, y_name: str) -> None:
        for tick in y_ticks:
            self.svg.line((self.left, self.y(tick)), (self.left + self.width, self.y(tick)), GRID)
            self.svg.text(self.left - 8, self.y(tick) + 4, f"{tick:g}", size=12, anchor="end", colour=FAINT)
        base = self.top + self.height
        self.svg.line((self.left, base), (self.left + self.width, base), FAINT)
        for tick in x_ticks:
            self.svg.line((self.x(tick), base), (self.x(tick), base + 4), FAINT)
            self.svg.text(self.x(tick), base + 18, f"{tick:g}", size=12, anchor="middle", colour=FAINT)
        if x_name:
            self.svg.text(self.left + self.width / 2, base + 38, x_name, size=12, anchor="middle", colour=FAINT)
        self.svg.text(self.left, self.top - 12, y_name, size=13, bold=True)

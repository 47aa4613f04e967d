"""What a study consists of: rows as data, verdicts, tables, figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairhop import _native

if TYPE_CHECKING:
    from fairhop.studies.lab import Lab

#: Capture rules (`radio.capture`), under each of which rows with a radio are run.
RULES = ("none", "first", "stronger")

REPRODUCED, SHAPE, DIFFERS = "reproduced", "same shape", "differs"
#: The verdict of a row that could not be measured, for example because tshark is missing.
NOT_MEASURED = "not measured"


def verdict(reproduced: bool, same_shape: bool = False) -> str:
    """The verdict of a row: whether it meets the bound of `reproduced`, and whether that of `same shape`."""
    return REPRODUCED if reproduced else SHAPE if same_shape else DIFFERS


# ---- bounds ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Near:
    """A value of the paper, and the fraction of it by which ours may be off."""

    value: float
    off: float

    def holds(self, found: float) -> bool:
        """Whether a value is inside, the ends included."""
        return abs(found / self.value - 1) <= self.off

    def text(self, unit: str = "") -> str:
        """As in "1.35 Mb/s ± 20 %"."""
        return f"{self.value:g}{unit and ' ' + unit} ± {100 * self.off:g} %"


@dataclass(frozen=True)
class Between:
    """The smallest and the largest value that agree with the paper."""

    low: float = -math.inf
    high: float = math.inf

    def holds(self, found: float) -> bool:
        """Whether a value is inside, the ends included."""
        return self.low <= found <= self.high


# ---- rows -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A claim of a paper, and what counts as agreement with it.

    Texts are Markdown with nothing but `code` and **bold** in it.
    """

    id: str
    #: The setting in words.
    setting: str
    #: What the paper says.
    paper: str
    #: When the verdict is `reproduced`.
    reproduced: str
    #: When it is `same shape`; nothing if there is no such verdict.
    same_shape: str = ""
    #: The ready-made scenario, or the command, and its overrides besides `radio.capture`.
    scenario: str = ""
    overrides: str = "none"


@dataclass(frozen=True)
class Reason:
    """Why rows differ from the paper, or where they are sensitive: measured with all seeds."""

    rows: tuple[str, ...]
    text: str
    #: What the text is about, if that is not the rows.
    title: str = ""

    def head(self) -> str:
        """Its heading."""
        return self.title or joined(self.rows)


def joined(ids: Sequence[str]) -> str:
    """Identifiers in a short form: "K-VAR-1, -2, -3"."""
    parts: list[str] = []
    before = ""
    for name in ids:
        stem, _, last = name.rpartition("-")
        parts.append(f"-{last}" if stem.count("-") and stem == before else name)
        before = stem
    return ", ".join(parts)


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and the half-width of its 95 % confidence interval (Student's t)."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """The estimate from a value a seed. The half-width of a single value is 0."""
        n = len(values)
        half = quantile(n - 1) * statistics.stdev(values) / math.sqrt(n) if n > 1 else 0.0
        return cls(statistics.fmean(values), half)

    def text(self, digits: int = 2) -> str:
        """As in "1.52 ± 0.02"."""
        return f"{self.mean:.{digits}f} ± {self.half:.{digits}f}"


def quantile(freedom: int) -> float:
    """Student's t for a two-sided 95 % interval, to three digits as tables of it have."""
    return round(_native.student_t_975(freedom), 3)


@dataclass(frozen=True)
class Claim:
    """A row as measured. `found` and `verdicts` are by capture rule; a row without a radio has one of each."""

    row: Row
    seeds: str
    found: list[str]
    verdicts: list[str]
    #: The rules that the paper's numbers are nearest to; none for a paper without a radio.
    nearest_rule: str | None = None
    #: Tells apart readings of the same row, as in ", 30 ms one way".
    reading: str = ""

    @property
    def name(self) -> str:
        """The identifier with its reading."""
        return self.row.id + self.reading

    def cells(self) -> list[str]:
        """The cells of the summary."""
        cells = [f"{found}: **{verdict}**" for found, verdict in zip(self.found, self.verdicts, strict=True)]
        head = [self.name, self.row.paper, self.seeds]
        if self.nearest_rule is None:
            return [*head, *cells]
        return [*head, *(cells * len(RULES) if len(cells) == 1 else cells), self.nearest_rule]


# ---- tables and figures ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Cells as Markdown, with a text above them."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    legend: str = ""

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [self.heads, ["---"] * len(self.heads), *self.rows]
        text = "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
        return f"{self.legend}\n\n{text}" if self.legend else text


@dataclass(frozen=True)
class Line:
    """A line of a figure. Points of the paper have markers and no line, unless it is a line in the paper."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    #: Half-widths of the 95 % confidence intervals, drawn as a band.
    half: Sequence[float] = ()
    from_paper: bool = False
    dashed: bool = False


def line(label: str, x: Sequence[float], values: Sequence[Estimate], *, scale: float = 1) -> Line:
    """A line of estimates."""
    return Line(label, x, [scale * value.mean for value in values], [scale * value.half for value in values])


@dataclass(frozen=True)
class Panel:
    """Lines on common axes."""

    title: str
    lines: Sequence[Line]
    #: The vertical axis, if it is not that of the figure.
    y_label: str = ""


@dataclass(frozen=True)
class Figure:
    """Panels with equal axes, in the form of the paper's figure."""

    title: str
    #: The paper's figure or table, and what is drawn of it.
    form: str
    x_label: str
    y_label: str
    panels: Sequence[Panel]
    #: Names of the places 0, 1, 2, … on the horizontal axis, if they are not numbers.
    x_names: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """Rows that are measured together, and the tables (by title) and figures that show their values."""

    claims: list[Claim]
    tables: dict[str, Table]
    figures: list[Figure] = field(default_factory=list)


@dataclass(frozen=True)
class Measurement:
    """What measures some rows."""

    #: The rows, by which users select it.
    rows: tuple[str, ...]
    measure: Callable[[Lab], Section]
    #: Seconds on one core for a quick study, to estimate the time that is left before anything is known.
    core_s: float
    #: What the quick form leaves out, for the report.
    quick: str = ""
    #: A program that it needs besides fairhop.
    needs: str = ""


@dataclass(frozen=True)
class Part:
    """Rows of a paper with common settings: a section of docs/claims.md."""

    #: The name of its markers on the page.
    name: str
    title: str
    heads: Sequence[str]
    rows: dict[str, Row]
    measurements: tuple[Measurement, ...]
    #: What all rows have in common, in Markdown.
    about: str
    reasons: tuple[Reason, ...] = ()

    @property
    def by_rule(self) -> bool:
        """Whether its rows depend on the capture rule."""
        return self.heads == HEADS_BY_RULE


@dataclass(frozen=True)
class Study:
    """A paper."""

    name: str
    paper: str
    parts: tuple[Part, ...]

    def rows(self) -> dict[str, Row]:
        """All rows by identifier."""
        return {row.id: row for part in self.parts for row in part.rows.values()}

    def measurements(self) -> list[tuple[Part, Measurement]]:
        """What is measured, in the order of the page."""
        return [(part, measurement) for part in self.parts for measurement in part.measurements]


#: Heads of the summary of a part whose rows depend on the capture rule, and of one without a radio.
HEADS_BY_RULE = ("claim", "paper", "seeds", *(f"`{rule}`" for rule in RULES), "nearest rule")
HEADS = ("claim", "paper", "seeds", "Fairhop")


def by_id(*rows: Row) -> dict[str, Row]:
    """Rows by their identifiers."""
    return {row.id: row for row in rows}


# ---- capture rules --------------------------------------------------------------------------------------------------


def nearest(values: Sequence[float], target: float) -> str:
    """The rules whose value is nearest to the paper's, by ratio; rules within 2 % of the nearest are listed with it.

    If no value is within a quarter and the paper's lies between them, the answer says so.
    """
    off = [abs(math.log(value / target)) for value in values]
    if min(off) > math.log(1.25) and min(values) < target < max(values):
        below = [rule for rule, value in zip(RULES, values, strict=True) if value < target]
        above = [rule for rule, value in zip(RULES, values, strict=True) if value > target]
        return f"between {named(below)} and {named(above)}"
    return named([rule for rule, o in zip(RULES, off, strict=True) if o <= min(off) + 0.02])


def named(rules: Sequence[str]) -> str:
    """Rules as a list in words."""
    return ", ".join(f"`{rule}`" for rule in rules) or "no rule"


def with_verdict(verdicts: Sequence[str], *wanted: str) -> str:
    """The rules with one of these verdicts."""
    return named([rule for rule, verdict in zip(RULES, verdicts, strict=True) if verdict in wanted])

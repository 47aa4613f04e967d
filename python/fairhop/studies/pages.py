"""docs/claims.md: the tables that come from the rows and from measurements, between markers on the page."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from fairhop.studies.model import Part, Row, Section, Study, Table, joined

#: Length of lines of running text on the page.
WIDTH = 128


def between(page: str, name: str) -> str:
    """The text between the markers of this name.

    Raises:
        ValueError: The page lacks a marker.
    """
    begin, end = markers(name)
    _, found, rest = page.partition(begin)
    text, closed, _ = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"the page has no {begin} and {end}")
    return text.strip("\n")


def replaced(page: str, name: str, text: str) -> str:
    """The page with another text between the markers of this name.

    Raises:
        ValueError: The page lacks a marker.
    """
    if between(page, name) == text.strip("\n"):
        return page
    begin, end = markers(name)
    head, _, rest = page.partition(begin)
    new = text.strip("\n")
    return f"{head}{begin}\n{new}\n\n{end}{rest.partition(end)[2]}"


def markers(name: str) -> tuple[str, str]:
    """The comments around the text of this name."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def summary(part: Part, sections: Sequence[Section]) -> Table:
    """The rows of a part as measured."""
    return Table(part.heads, [claim.cells() for section in sections for claim in section.claims])


def measured(part: Part, sections: Sequence[Section]) -> str:
    """The summary, followed by the tables."""
    parts = [summary(part, sections).markdown()]
    for section in sections:
        for title, table in section.tables.items():
            parts += [f"### {title}\n", table.markdown()]
    return "\n".join(parts)


def with_section(text: str, section: Section) -> str:
    """The measured text of a part with one section measured anew.

    Raises:
        ValueError: The text has no row or table of the section.
    """
    for claim in section.claims:
        lines = text.split("\n")
        at = [number for number, line in enumerate(lines) if line.startswith(f"| {claim.name} |")]
        if not at:
            raise ValueError(f"the page has no row of {claim.name}: run all rows of the paper")
        lines[at[0]] = "| " + " | ".join(claim.cells()) + " |"
        text = "\n".join(lines)
    for title, table in section.tables.items():
        head, found, rest = text.partition(f"### {title}\n")
        if not found:
            raise ValueError(f"the page has no table {title}: run all rows of the paper")
        _, next_found, tail = rest.partition("\n### ")
        text = f"{head}### {title}\n\n{table.markdown()}" + (f"\n### {tail}" if next_found else "")
    return text


def grouped(rows: Sequence[Row], *fields: str) -> list[tuple[list[str], Row]]:
    """Rows that have these fields in common, under the first of them."""
    groups: dict[tuple[str, ...], tuple[list[str], Row]] = {}
    for row in rows:
        groups.setdefault(tuple(getattr(row, name) for name in fields), ([], row))[0].append(row.id)
    return list(groups.values())


def bounds(studies: Sequence[Study]) -> str:
    """The table of bounds."""
    rows = [
        [joined(ids), row.reproduced, row.same_shape or "–"]  # noqa: RUF001 (a dash stands for nothing)
        for study in studies
        for ids, row in grouped(list(study.rows().values()), "reproduced", "same_shape")
    ]
    return Table(["claim", "reproduced", "same shape"], rows).markdown()


def settings(part: Part) -> str:
    """The scenarios of a part, and what its rows have in common."""
    rows = [
        [joined(ids), scenario_of(row), row.overrides]
        for ids, row in grouped(list(part.rows.values()), "scenario", "overrides")
    ]
    heads = ["claim", "scenario", "overrides" + (", besides `radio.capture`" if part.by_rule else "")]
    return Table(heads, rows).markdown() + "\n" + filled(part.about)


def scenario_of(row: Row) -> str:
    """The scenario as the page names it."""
    if not row.scenario:
        return "–"  # noqa: RUF001 (a dash stands for nothing)
    return row.scenario if row.scenario.startswith("`") else f"`scenarios/{row.scenario}.toml`"


def reasons(part: Part) -> str:
    """Why rows differ."""
    return "\n\n".join(filled(f"**{reason.head()}.** {reason.text}") for reason in part.reasons) + "\n"


def filled(text: str) -> str:
    """Paragraphs in lines."""
    return "\n\n".join(
        textwrap.fill(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False)
        for paragraph in text.split("\n\n")
    )


def with_data(page: str, studies: Sequence[Study]) -> str:
    """The page with everything that does not depend on measurements up to date.

    Raises:
        ValueError: The page lacks a marker.
    """
    page = replaced(page, "bounds", bounds(studies))
    for study in studies:
        for part in study.parts:
            page = replaced(page, f"{part.name} settings", settings(part))
            if part.reasons:
                page = replaced(page, f"{part.name} reasons", reasons(part))
    return page


def write(path: Path, page: str) -> None:
    """Writes the page if it is another than before."""
    if path.read_text(encoding="utf-8") != page:
        path.write_text(page, encoding="utf-8")

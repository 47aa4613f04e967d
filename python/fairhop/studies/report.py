"""The report: one HTML file that needs nothing else, and the tables as CSV."""

from __future__ import annotations

import base64
import csv
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from fairhop.studies import pages
from fairhop.studies.drawing import draw
from fairhop.studies.model import (
    DIFFERS,
    NOT_MEASURED,
    REPRODUCED,
    RULES,
    SHAPE,
    Claim,
    Figure,
    Measurement,
    Part,
    Reason,
    Section,
    Study,
    Table,
)
from fairhop.studies.style import STYLE

#: Characters of a cell that stays on one line.
MAX_SHORT = 24
#: Signs before verdicts, so that colour is not needed.
SIGNS = {REPRODUCED: "✓", SHAPE: "≈", DIFFERS: "✗", NOT_MEASURED: "?"}


@dataclass(frozen=True)
class Made:
    """How a report was made."""

    program: str
    date: str
    #: Seeds of most rows, in words.
    seeds: str
    quick: bool
    #: Options that repeat it, after `fairhop study NAME`.
    options: str
    wall_s: float
    core_s: float
    runs: int
    found: int


#: Measured sections of a study, in the order of the page.
Measured = list[tuple[Part, Measurement, Section]]


# ---- HTML -----------------------------------------------------------------------------------------------------------


def html(title: str, made: Made, studies: Sequence[tuple[Study, Measured]]) -> str:
    """The whole report.

    Raises:
        MissingLibraryError: matplotlib is not installed.
    """
    body = [_preliminary(made, studies)] if made.quick else []
    body.append(_overview(studies))
    body += [_study(study, measured, made) for study, measured in studies]
    return document(title, _facts(made), body)


def document(title: str, facts: Mapping[str, str], body: Sequence[str]) -> str:
    """A page in the form of all reports: a title, what is known of the study as a whole, and parts as HTML."""
    rows = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    head = f'<header><h1>{escape(title)}</h1><dl class="made">{rows}</dl></header>'
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join([head, "<main>", *body, "</main>"])
        + "\n</body>\n</html>\n"
    )


def blocks(text: str) -> str:
    """Paragraphs, lists and tables in Markdown as HTML."""
    parts: list[str] = []
    for block in filter(None, (block.strip("\n") for block in text.split("\n\n"))):
        if block.startswith("| "):
            heads, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in block.split("\n"))
            parts.append(_rows(heads, rows))
        elif block.startswith("- "):
            items = block.removeprefix("- ").split("\n- ")
            parts.append(f"<ul>{''.join(f'<li>{inline(item)}</li>' for item in items)}</ul>")
        else:
            parts.append(f"<p>{inline(block)}</p>")
    return "".join(parts)


def inline(text: str) -> str:
    """Markdown within a line as HTML: code, bold, italics; links become their words."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        f"<code>{escape(part[1:-1])}</code>" if part.startswith("`") and len(part) > 2 else _emphasized(part)
        for part in parts
    )


def _emphasized(text: str) -> str:
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", escape(text, quote=False))
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"(?<![\w*])\*([^*]+)\*(?![\w*])", r"<em>\1</em>", text)


def plain(text: str) -> str:
    """Markdown within a line as text."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text.replace("`", "").replace("**", ""))


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def badge(verdict: str) -> str:
    """A verdict as a mark with its word."""
    kind = verdict.replace(" ", "-")
    return f'<span class="verdict {kind}">{SIGNS[verdict]} {verdict}</span>'


def _facts(made: Made) -> dict[str, str]:
    form = "quick: few seeds, coarse searches" if made.quick else "full"
    time = (
        f"{duration(made.wall_s)}, with {made.found} of {made.runs} runs found from before; all runs took "
        f"{duration(made.core_s)} on a core"
    )
    return {"Program": made.program, "Date": made.date, "Form": form, "Seeds": made.seeds, "Run time": time}


def _preliminary(made: Made, studies: Sequence[tuple[Study, Measured]]) -> str:
    coarse = [
        f"<li>{escape(', '.join(measurement.rows))}: {inline(measurement.quick)}</li>"
        for _, measured in studies
        for _, measurement, _ in measured
        if measurement.quick
    ]
    text = (
        f"<strong>Verdicts are preliminary.</strong> This is a quick study with seeds {escape(made.seeds)}: confidence "
        "intervals are wide, and rows near a bound can change. <code>--full</code> takes ten seeds."
    )
    items = f"<ul>{''.join(coarse)}</ul>" if coarse else ""
    return f'<aside class="note"><p>{text}</p>{items}</aside>'


def _overview(studies: Sequence[tuple[Study, Measured]]) -> str:
    tables = []
    for study, measured in studies:
        rows = []
        for _, _, section in measured:
            for claim in section.claims:
                verdicts = claim.verdicts * (len(RULES) if len(claim.verdicts) == 1 else 1)
                same = len(set(verdicts)) == 1
                cells = (
                    f'<td class="short" colspan="{len(RULES)}">{badge(verdicts[0])}</td>'
                    if same
                    else "".join(f'<td class="short">{badge(verdict)}</td>' for verdict in verdicts)
                )
                link = f'<a href="#{anchor(claim)}">{escape(claim.name)}</a>'
                rows.append(f'<tr><th scope="row">{link}</th>{cells}<td>{inline(claim.row.paper)}</td></tr>')
        heads = "".join(f"<th><code>{rule}</code></th>" for rule in RULES)
        tables.append(
            f"<h3>{escape(study.name)}</h3>"
            + scrolled(f"<thead><tr><th>row</th>{heads}<th>the paper</th></tr></thead><tbody>{''.join(rows)}</tbody>")
        )
    return (
        "<section><h2>Verdicts</h2><p>"
        f"{badge(REPRODUCED)} the paper's own number or statement holds within the row's bound. "
        f"{badge(SHAPE)} the ordering, sign or crossover holds, the number does not. {badge(DIFFERS)} neither. "
        "Rows with a radio have a verdict under each capture rule: "
        "<code>none</code>, <code>first</code> and <code>stronger</code>.</p>"
        f"{''.join(tables)}</section>"
    )


def anchor(claim: Claim) -> str:
    """The identifier of a row on the page."""
    return re.sub(r"[^\w-]+", "-", claim.name)


def scrolled(inner: str) -> str:
    """A table that scrolls by itself on a narrow screen."""
    return f'<div class="scroll" role="region" tabindex="0"><table>{inner}</table></div>'


def _study(study: Study, measured: Measured, made: Made) -> str:
    parts = [f"<section><h2>{escape(study.name)}</h2><p>{escape(study.paper)}</p>"]
    for part in study.parts:
        chosen = [(measurement, section) for of, measurement, section in measured if of is part]
        if not chosen:
            continue
        parts.append(f"<h3>{escape(part.title[:1].upper() + part.title[1:])}</h3>{_paragraphs(part.about)}")
        left = [reason for reason in part.reasons if reason.rows]
        for measurement, section in chosen:
            for claim in section.claims:
                # A row with several readings has its reasons with the first of them.
                own = [reason for reason in left if reason.rows[0] == claim.row.id]
                left = [reason for reason in left if reason not in own]
                parts.append(_claim(study, measurement, claim, own, made))
            parts += [_figure(figure) for figure in section.figures]
            parts += [_table(title, table) for title, table in section.tables.items()]
        general = [reason for reason in part.reasons if not reason.rows]
        parts += [f"<h4>{inline(reason.head())}</h4>{_paragraphs(reason.text)}" for reason in general]
    return "".join([*parts, "</section>"])


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{inline(paragraph)}</p>" for paragraph in text.split("\n\n"))


def _claim(study: Study, measurement: Measurement, claim: Claim, own: Sequence[Reason], made: Made) -> str:
    row = claim.row
    names = [f"capture: {rule}" for rule in RULES] if len(claim.found) > 1 else [""]
    ours = "".join(
        f"<li>{f'<b>{name}</b> ' if name else ''}{badge(verdict)} {inline(found)}</li>"
        for name, found, verdict in zip(names, claim.found, claim.verdicts, strict=True)
    )
    facts = [
        ("The paper", inline(row.paper)),
        ("Fairhop", f'<ul class="ours">{ours}</ul>'),
        ("Reproduced when", inline(row.reproduced)),
    ]
    if row.same_shape:
        facts.append(("Same shape when", inline(row.same_shape)))
    if claim.nearest_rule:
        facts.append(("Nearest rule", inline(claim.nearest_rule)))
    facts += [
        ("Seeds", escape(claim.seeds)),
        ("Scenario", f"{inline(pages.scenario_of(row))}, overrides: {inline(row.overrides)}"),
        ("Command", f"<code>fairhop study {study.name} --only {measurement.rows[0]} {made.options}</code>"),
    ]
    rows = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    reasons = "".join(
        (f"<h5>{inline(reason.head())}</h5>" if reason.head() != row.id else "") + _paragraphs(reason.text)
        for reason in own
    )
    if reasons:
        reasons = f'<div class="why"><p class="source">Why, from full studies with ten seeds:</p>{reasons}</div>'
    return (
        f'<article id="{anchor(claim)}"><h4>{escape(claim.name)}</h4><p class="setting">{inline(row.setting)}</p>'
        f"<dl>{rows}</dl>{reasons}</article>"
    )


def _figure(figure: Figure) -> str:
    pictures = "".join(
        f'<img src="data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}" '
        f'alt="{escape(_described(figure, index))}">'
        for index, svg in enumerate(draw(figure))
    )
    caption = f"<strong>{inline(figure.title)}.</strong> {inline(figure.form)}"
    if any(line.half for panel in figure.panels for line in panel.lines):
        caption += " Bands are 95 % confidence intervals."
    return f'<figure><div class="panels">{pictures}</div><figcaption>{caption}</figcaption></figure>'


def _described(figure: Figure, index: int) -> str:
    panel = figure.panels[index]
    names = ", ".join(line.label for line in panel.lines)
    what = f"{panel.y_label or figure.y_label} over {figure.x_label or ', '.join(figure.x_names)}"
    return f"{plain(figure.title)}{panel.title and ', ' + panel.title}: {what}; {names}"


def _table(title: str, table: Table) -> str:
    legend = f"<p>{inline(table.legend)}</p>" if table.legend else ""
    head = f'<h5 class="table">Table {inline(title)}</h5>'
    return head + legend + _rows(table.heads, table.rows)


def _rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{inline(cell)}</th>' for cell in heads)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    return scrolled(f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>")


def _cell(text: str) -> str:
    """A cell. A short one stays on one line."""
    return f'<td class="short">{inline(text)}</td>' if len(text) <= MAX_SHORT else f"<td>{inline(text)}</td>"


# ---- CSV ------------------------------------------------------------------------------------------------------------


def csv_files(studies: Sequence[tuple[Study, Measured]]) -> dict[str, str]:
    """The rows and the tables as CSV, by file name."""
    heads = [
        "row", "reading", "setting", "paper", "reproduced_when", "same_shape_when", "seeds", "capture_rule", "fairhop",
        "verdict", "nearest_rule",
    ]  # fmt: skip
    rows: list[list[str]] = []
    files: dict[str, str] = {}
    for _, measured in studies:
        for _, _, section in measured:
            for claim in section.claims:
                rules = RULES if len(claim.found) > 1 else ("",)
                row = claim.row
                texts = [row.id, claim.reading.lstrip(", "), row.setting, row.paper, row.reproduced, row.same_shape]
                for rule, found, verdict in zip(rules, claim.found, claim.verdicts, strict=True):
                    rows.append([*texts, claim.seeds, rule, found, verdict, claim.nearest_rule or ""])
            for title, table in section.tables.items():
                files[f"{re.sub(r'[^A-Za-z0-9-]+', '-', title).strip('-')}.csv"] = csv_text(table.heads, table.rows)
    return {"claims.csv": csv_text(heads, rows), **files}


def csv_text(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as CSV, without the marks of Markdown."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([plain(head) for head in heads])
    writer.writerows([[plain(cell) for cell in row] for row in rows])
    return out.getvalue()


def write(path: Path, text: str) -> None:
    """Writes a file under another name first, so that it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)

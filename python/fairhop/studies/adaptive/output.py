"""What the commands have in common: options, and where results go."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from fairhop.studies import pages, report
from fairhop.studies.command import StudyError, command_line, version
from fairhop.studies.lab import Runner, find_program


def describe(parser: argparse.ArgumentParser, about: str, examples: str) -> None:
    """Sets the texts of a command's help."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description, parser.epilog = about, examples


def add_common(parser: argparse.ArgumentParser) -> None:
    """Options of every command."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/study/adaptive"),
        metavar="DIR",
        help="folder of kept runs, report and tables [out/study/adaptive]",
    )
    parser.add_argument("--threads", type=positive, metavar="N", help="runs at a time [default: one per core]")
    parser.add_argument("--program", type=Path, metavar="FILE", help="the fairhop to run [default: this one]")


def positive(text: str) -> int:
    """A number from 1 on, for an option."""
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)


def runner_of(args: argparse.Namespace) -> Runner:
    """What runs the program.

    Raises:
        FileNotFoundError: There is no program.
    """
    return Runner(find_program(args.program), args.out / "changes", args.threads)


def publish(
    args: argparse.Namespace,
    runner: Runner,
    name: str,
    title: str,
    text: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> None:
    """Prints the text, and writes it as a page of HTML with a table as CSV beside it."""
    print(text)
    facts = {
        "Program": version(runner),
        "Date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "Command": command_line(),
    }
    page, table = args.out / f"{name}.html", args.out / f"{name}.csv"
    report.write(page, report.document(title, facts, [f"<section>{report.blocks(text)}</section>"]))
    report.write(table, report.csv_text(heads, rows))
    print(f"report: {page}, table: {table}", file=sys.stderr)


def check_page(page: Path | None, *names: str) -> None:
    """Checks before the first run that results can be written to a page.

    Raises:
        StudyError: It lacks a marker.
        OSError: It cannot be read.
    """
    if page:
        text = page.read_text(encoding="utf-8")
        try:
            for name in names:
                pages.between(text, name)
        except ValueError as problem:
            advice = "--page takes the page that has this table, one of docs/validation/adaptive*.md"
            raise StudyError(f"{page}: {problem}\n  help: {advice}") from None


def update_page(page: Path | None, name: str, text: str) -> None:
    """Replaces the text between the markers of a name, if there is a page."""
    if page:
        pages.write(page, pages.replaced(page.read_text(encoding="utf-8"), name, text))

"""Shared by the benches under `bench/`: running the program, reading its results, Markdown tables and pages."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FAIRHOP = ROOT / "target" / "release" / "fairhop"

#: The lowest MOS of a good call (kim2010).
MOS_GOOD = 3.6

#: What `fairhop … --json` prints.
Result = dict[str, Any]


def fairhop(*arguments: str, program: Path = FAIRHOP, folder: Path | None = None) -> Result:
    """The JSON that the program prints, run in `folder`.

    Raises:
        RuntimeError: The program failed; the message holds the command and its standard error.
    """
    command = [str(program), *arguments, "--json"]
    process = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if process.returncode:
        raise RuntimeError(f"fairhop {' '.join(arguments)}\n{process.stderr}")
    result: Result = json.loads(process.stdout)
    return result


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def between(page: Path, name: str) -> str:
    """The text between the markers of this name on a page.

    Raises:
        ValueError: The page lacks a marker.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    _, found, rest = page.read_text(encoding="utf-8").partition(begin)
    text, closed, _ = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page} has no {begin} and {end}")
    return text.strip("\n")


def replace_between(page: Path, name: str, text: str) -> None:
    """Replaces the text between the markers of this name on a page.

    Raises:
        ValueError: The page lacks a marker.
    """
    old = between(page, name)
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    whole = page.read_text(encoding="utf-8")
    head, _, rest = whole.partition(begin)
    tail = rest.partition(end)[2]
    new = text.strip("\n")
    if old != new:
        page.write_text(f"{head}{begin}\n{new}\n\n{end}{tail}", encoding="utf-8")

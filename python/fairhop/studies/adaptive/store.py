"""JSON-lines files in which results are kept as they are made, so that nothing is run twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

#: Fraction of clear call-seconds from which calls are good.
CLEAR = 0.95


class UnknownRunError(Exception):
    """A run is not stored, and may not be made."""


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file; a truncated line is left out."""
    found: list[dict[str, Any]] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return found


def appended(path: Path) -> TextIO:
    """A JSON-lines file opened for appending; a truncated last line is ended first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    file = path.open("a", encoding="utf-8")
    if torn:
        file.write("\n")
    return file

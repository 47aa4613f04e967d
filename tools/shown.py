"""What a page of the documentation shows below its commands."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence


def output(page: str, command: str) -> list[str]:
    """The lines that a page shows below a command.

    Raises:
        ValueError: The page does not show the command.
    """
    _, found, rest = page.partition(f"\n$ {command}\n")
    if not found:
        raise ValueError(f"the page does not show `$ {command}`")
    return re.split(r"^(?:\$ |```)", rest, maxsplit=1, flags=re.MULTILINE)[0].splitlines()


def rows_below(lines: Sequence[str], head: str) -> list[list[str]]:
    """The table whose first line begins with `head`, in cells; it ends at a line with another number of cells."""
    first = next(number for number, line in enumerate(lines) if line.startswith(head))
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines[first:]]
    return list(itertools.takewhile(lambda row: len(row) == len(rows[0]), rows))

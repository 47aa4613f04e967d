"""What the judges under `bench/` share: the program, its results, tables, and pages with a place for them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FAIRHOP = ROOT / "target" / "release" / "fairhop"

#: A call is good from here on (kim2010).
MOS_GOOD = 3.6

#: What `fairhop … --json` prints.
Result = dict[str, Any]
#: Overrides of a scenario, as `--set` takes them.
Sets = tuple[str, ...]


class InterruptedRunError(Exception):
    """The program was ended by Ctrl-C."""


def fairhop(*arguments: str, program: Path = FAIRHOP) -> Result:
    """The JSON that the program prints."""
    process = subprocess.run([str(program), *arguments, "--json"], capture_output=True, text=True, check=False)
    if process.returncode in (130, -2):
        raise InterruptedRunError
    if process.returncode:
        raise RuntimeError(f"fairhop {' '.join(arguments)}\n{process.stderr}")
    result: Result = json.loads(process.stdout)
    return result


def fairhop_run(scenario: str, sets: Sets, seed: int, *more: str, program: Path = FAIRHOP) -> Result:
    """One run of a ready-made scenario."""
    overrides = [word for change in sets for word in ("--set", change)]
    path = str(ROOT / "scenarios" / f"{scenario}.toml")
    return fairhop("run", path, "--seed", str(seed), *overrides, *more, program=program)


#: A gateway that does nothing.
FREE = 'control={ kind = "none" }'


def window(segments: int) -> str:
    """The override that gives each TCP flow a window of so many segments."""
    return f'control={{ kind = "window", window_packets = {segments} }}'


def pacing(kbps: float) -> str:
    """The override that paces all data into the mesh together."""
    return f'control={{ kind = "data-pacing", rate_kbps = {kbps:g} }}'


def ack_pacing(kbps: float) -> str:
    """The override that paces ACKs by what they acknowledge."""
    return f'control={{ kind = "ack-pacing", rate_kbps = {kbps:g} }}'


def tcp_mbps(result: Result) -> float:
    """Goodput of all TCP flows."""
    return float(result["totals"]["tcp_goodput_mbps"])


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def replace_between(page: Path, name: str, text: str) -> None:
    """Puts `text` between the markers of this name on a page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, tail = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page} has no {begin} and {end}")
    page.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")

"""Run the commands that the documents show, and put what they print into them; with --check, compare it instead.

In a document, a block marked `console` holds commands, each behind `$ `, and what they print on standard output (where
a command fails, on standard error too). A block whose first line is a comment with the name of a file, as
`# mesh.toml`, is that file. The blocks of a document share one empty directory and are run from top to bottom, each
with bash, with `fairhop` on the path. The simulator gives the same bytes everywhere, so any difference is a change of
the program that the document has not followed, or the other way round.

A command whose first program is not on this machine, or whose Python modules are not, is left alone. What other
people's programs print depends on their version: it is put into the document, but not compared.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "docs/README.md", "docs/guides/*.md")
#: The picture that `fairhop demo` draws, and where it is kept.
PICTURE = ROOT / "docs" / "demo.svg"
#: Longer than any command takes, even in a build with checks on a busy machine.
PATIENCE_S = 300

#: Programs that print the same in all versions.
STABLE = ("cat", "ls", "python3")

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^# ([\w-]+\.\w+)\n")
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)
IMPORT = re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Shell:
    """Where the commands of a document run."""

    directory: Path
    program: Path
    #: Leave what other people's programs print alone.
    own_alone: bool

    def modules(self, command: str) -> set[str]:
        """What the Python file of a command imports."""
        scripts = [self.directory / word for word in command.split() if word.endswith(".py")]
        return {name for script in scripts for name in IMPORT.findall(script.read_text(encoding="utf-8"))}

    def runs(self, command: str) -> bool:
        """Whether the command is to be run: the machine has what it starts, and the modules of its Python file."""
        program = command.split()[0]
        if program == "fairhop":
            return True
        modules = self.modules(command)
        if self.own_alone and (program not in STABLE or not modules <= sys.stdlib_module_names):
            return False
        return shutil.which(program) is not None and all(importlib.util.find_spec(name) for name in modules)

    def run(self, command: str) -> str:
        """What the command prints."""
        bin_directory = self.directory.parent / "bin"
        if not bin_directory.exists():
            bin_directory.mkdir()
            (bin_directory / "fairhop").symlink_to(self.program)
        environment = {
            **os.environ,
            "PATH": f"{bin_directory}:{os.environ['PATH']}",
            "NO_COLOR": "1",
            "COLUMNS": "100",
            "LC_ALL": "C.UTF-8",
        }
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        lines = (done.stdout + (done.stderr if done.returncode else "")).splitlines()
        return "".join(f"{line.rstrip()}\n" for line in lines)


def refreshed(text: str, shell: Shell) -> str:
    """The document with what its commands print now."""

    def block(match: re.Match[str]) -> str:
        kind, body = match.groups()
        if kind == "console":
            pieces = COMMAND.split(body)
            # What precedes the first command, and then commands and outputs in turn.
            body = pieces[0]
            for command, output in zip(pieces[1::2], pieces[2::2], strict=True):
                printed = shell.run(command) if shell.runs(command) else output
                body += f"$ {command}\n{printed}"
        elif name := FILE.match(body):
            (shell.directory / name[1]).write_text(body, encoding="utf-8")
        return f"```{kind}\n{body}```"

    return BLOCK.sub(block, text)


def refresh(document: Path, program: Path, own_alone: bool) -> str:
    """A document as it should be."""
    with tempfile.TemporaryDirectory() as directory:
        shell = Shell(Path(directory) / "work", program, own_alone)
        shell.directory.mkdir()
        return refreshed(document.read_text(encoding="utf-8"), shell)


def redraw(program: Path) -> str:
    """The demo's picture as it should be."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([program, "demo", "--out", directory], check=True, capture_output=True, timeout=PATIENCE_S)
        return (Path(directory) / PICTURE.name).read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--program", type=Path, required=True, help="the fairhop to run")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 where something differs")
    args = parser.parse_args()

    program = args.program.resolve()
    documents = sorted(path for pattern in DOCUMENTS for path in ROOT.glob(pattern))
    stale = 0
    for path in [*documents, PICTURE]:
        name = path.relative_to(ROOT)
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        new = redraw(program) if path == PICTURE else refresh(path, program, args.check)
        if old == new:
            continue
        stale += 1
        if args.check:
            sys.stdout.writelines(
                difflib.unified_diff(
                    old.splitlines(keepends=True), new.splitlines(keepends=True), str(name), f"{name}, run now", n=1
                )
            )
        else:
            path.write_text(new, encoding="utf-8")
            print(f"{name}: refreshed")
    if args.check and stale:
        print(f"{stale} documents do not show what the program prints; `make docs` refreshes them", file=sys.stderr)
        return 1
    print(f"{len(documents)} documents and the demo's picture show what the program prints")
    return 0


if __name__ == "__main__":
    sys.exit(main())

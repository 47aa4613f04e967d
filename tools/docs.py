"""Run the commands that the documents show and write their output into the documents; with --check, compare it.

A block marked `console` holds commands, each after `$ `, and their standard output (and standard error, if a command
fails). A block whose first line is a comment with a file name, such as `# mesh.toml`, is that file. The blocks of a
document run from top to bottom in one directory that is empty at first, each with bash and with `fairhop` on the path.
The simulator prints the same bytes everywhere, so a difference means that the program or the document has changed.

A command is skipped if its program or its Python modules are not installed. The output of other projects' programs
depends on their version: it is written into the document, but not compared.
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
#: The picture that `fairhop demo` draws.
PICTURE = ROOT / "docs" / "demo.svg"
#: Longer than any command takes, even in a debug build on a busy machine.
TIMEOUT_S = 300

#: Programs whose output does not depend on their version.
STABLE = ("cat", "ls", "python3")

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^# ([\w-]+\.\w+)\n")
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)
IMPORT = re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Shell:
    """The directory and the program with which the commands of a document run."""

    directory: Path
    program: Path
    #: Skip the programs of other projects.
    own_only: bool

    def modules(self, command: str) -> set[str]:
        """The modules that the Python file of a command imports."""
        scripts = [self.directory / word for word in command.split() if word.endswith(".py")]
        return {name for script in scripts for name in IMPORT.findall(script.read_text(encoding="utf-8"))}

    def runs(self, command: str) -> bool:
        """Whether to run the command: its program and the modules of its Python file are installed."""
        program = command.split()[0]
        if program == "fairhop":
            return True
        modules = self.modules(command)
        if self.own_only and (program not in STABLE or not modules <= sys.stdlib_module_names):
            return False
        return shutil.which(program) is not None and all(importlib.util.find_spec(name) for name in modules)

    def run(self, command: str) -> str:
        """The output of the command."""
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
            timeout=TIMEOUT_S,
            check=False,
        )
        lines = (done.stdout + (done.stderr if done.returncode else "")).splitlines()
        return "".join(f"{line.rstrip()}\n" for line in lines)


def refreshed(text: str, shell: Shell) -> str:
    """The document with the current output of its commands."""

    def block(match: re.Match[str]) -> str:
        kind, body = match.groups()
        if kind == "console":
            pieces = COMMAND.split(body)
            # The text before the first command, then commands and outputs alternately.
            body = pieces[0]
            for command, output in zip(pieces[1::2], pieces[2::2], strict=True):
                printed = shell.run(command) if shell.runs(command) else output
                body += f"$ {command}\n{printed}"
        elif name := FILE.match(body):
            (shell.directory / name[1]).write_text(body, encoding="utf-8")
        return f"```{kind}\n{body}```"

    return BLOCK.sub(block, text)


def refresh(document: Path, program: Path, own_only: bool) -> str:
    """The current text of a document."""
    with tempfile.TemporaryDirectory() as directory:
        shell = Shell(Path(directory) / "work", program, own_only)
        shell.directory.mkdir()
        return refreshed(document.read_text(encoding="utf-8"), shell)


def redraw(program: Path) -> str:
    """The current picture of the demo."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([program, "demo", "--out", directory], check=True, capture_output=True, timeout=TIMEOUT_S)
        return (Path(directory) / PICTURE.name).read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--program", type=Path, required=True, help="the fairhop to run")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if something differs")
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
            print(f"{name}: updated")
    if args.check and stale:
        print(f"{stale} documents differ from what the program prints; `make docs` updates them", file=sys.stderr)
        return 1
    print(f"{len(documents)} documents and the demo's picture match what the program prints")
    return 0


if __name__ == "__main__":
    sys.exit(main())

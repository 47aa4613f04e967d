"""Run the commands that the documents show and update the outputs shown there; with --check, compare instead.

In a document, a block marked `console` holds commands, each after `$ `, and their standard output (if a command
fails, its standard error too). A block whose first line is a comment with a file name, such as `# mesh.toml`, is that
file. The blocks of a document share one empty directory and run from top to bottom, each with bash, with `fairhop` on
the path. The simulator prints the same bytes everywhere. So a difference means that the program has changed and the
document has not, or the other way round.

A command is skipped if its program, or a Python module that it needs, is not installed. The output of other programs
depends on their version: it is updated in the document, but not compared; they must succeed. Blocks in other languages
are run or checked as blocks.py describes. What was not run is printed with the reason.

The pictures of the guides are drawn from the numbers in the documents (pictures.py), and are updated or compared as
well.
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

import pictures
from blocks import Page, Tally

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "docs/*.md", "docs/guides/*.md", "docs/validation/*.md", "bench/peers/README.md")
#: The picture that `fairhop demo` draws.
PICTURE = ROOT / "docs" / "demo.svg"
#: Longer than any command takes, even in a debug build on a busy machine.
TIMEOUT_S = 300

#: Other programs whose output does not depend on their version.
STABLE = ("cat", "head", "ls", "python3")
#: Modules that are no part of Python, in the versions of tools/requirements.txt. Where they are installed, documents
#: about them are checked: in the environment of tools/try_wheel.py.
STABLE_MODULES = frozenset({"fairhop", "polars"})

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^# ([\w-]+\.\w+)\n")
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)
#: Commands of the program that are in Python, and documents with such commands or with scripts.
IN_PYTHON = re.compile(r"fairhop (?:query|plot|study)\b")
NEEDS_PYTHON = re.compile(rf"^```python$|^(?:\$ )?{IN_PYTHON.pattern}", re.MULTILINE)
IMPORT = re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Shell:
    """Where the commands of a document run."""

    directory: Path
    program: Path
    #: Do not compare the output of programs that depends on their version.
    stable_only: bool

    def modules(self, command: str) -> set[str]:
        """The modules that the Python files of a command import, or the commands of the program that are in Python."""
        if IN_PYTHON.match(command):
            return {"fairhop"}
        scripts = [self.directory / word for word in command.split() if word.endswith(".py")]
        modules = {name for script in scripts for name in IMPORT.findall(script.read_text(encoding="utf-8"))}
        return {name for name in modules if not (self.directory / f"{name}.py").exists()}

    def obstacle(self, command: str) -> str | None:
        """Why the command cannot be run: its program or a Python module is not installed."""
        program = command.split()[0]
        if program != "fairhop" and shutil.which(program) is None:
            return f"{program} is not installed"
        missing = [name for name in sorted(self.modules(command)) if importlib.util.find_spec(name) is None]
        return f"without the Python module {' and '.join(missing)}" if missing else None

    def is_stable(self, command: str) -> bool:
        """Whether the output does not depend on the version of another program."""
        program = command.split()[0]
        return program == "fairhop" or (
            program in STABLE and self.modules(command) <= sys.stdlib_module_names | STABLE_MODULES
        )

    def execute(self, command: str) -> subprocess.CompletedProcess[str]:
        """Runs the command."""
        bin_directory = self.directory.parent / "bin"
        if not bin_directory.exists():
            bin_directory.mkdir()
            (bin_directory / "fairhop").symlink_to(self.program)
        environment = {
            **os.environ,
            # The Python in which the modules were looked for comes first.
            "PATH": f"{bin_directory}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "NO_COLOR": "1",
            "COLUMNS": "100",
            "LC_ALL": "C.UTF-8",
        }
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def output(self, command: str) -> str:
        """What the command prints; if it fails, with its errors."""
        done = self.execute(command)
        lines = (done.stdout + (done.stderr if done.returncode else "")).splitlines()
        return "".join(f"{line.rstrip()}\n" for line in lines)


def refreshed(text: str, shell: Shell, page: Page) -> str:
    """The document with the present outputs of its commands."""
    tally = page.tally
    code = "".join(body for _, body in BLOCK.findall(text))

    def block(match: re.Match[str]) -> str:
        kind, body = match.groups()
        if kind == "console":
            pieces = COMMAND.split(body)
            # The text before the first command, then commands and outputs in turn.
            body = pieces[0]
            for command, output in zip(pieces[1::2], pieces[2::2], strict=True):
                if obstacle := shell.obstacle(command):
                    tally.left[f"commands: {obstacle}"] += 1
                    printed = output
                elif shell.stable_only and not shell.is_stable(command):
                    printed = output
                    if page.succeeds(command, "a command"):
                        tally.done["commands run, not compared"] += 1
                else:
                    tally.done["commands run and compared"] += 1
                    printed = shell.output(command)
                body += f"$ {command}\n{printed}"
        elif (name := FILE.match(body)) and (code.count(name[1]) > 1 or Path(name[1]).stem in IMPORT.findall(code)):
            page.keep(name[1], body)
        else:
            page.check(kind, body)
        return f"```{kind}\n{body}```"

    return BLOCK.sub(block, text)


def refresh(document: Path, program: Path, stable_only: bool, tally: Tally) -> str:
    """A document with present outputs."""
    with tempfile.TemporaryDirectory() as directory:
        shell = Shell(Path(directory) / "work", program, stable_only)
        shell.directory.mkdir()
        page = Page(str(document.relative_to(ROOT)), shell.directory, shell.execute, shell.obstacle, tally)
        return refreshed(document.read_text(encoding="utf-8"), shell, page)


def redraw(program: Path) -> str:
    """The demo's picture, drawn now."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([program, "demo", "--out", directory], check=True, capture_output=True, timeout=TIMEOUT_S)
        return (Path(directory) / PICTURE.name).read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--program", type=Path, required=True, help="the fairhop to run")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if something differs")
    parser.add_argument(
        "--python", action="store_true", help="only documents that need Python packages, and no picture"
    )
    parser.add_argument("--only", type=Path, nargs="*", metavar="DOCUMENT", help="these documents, and no picture")
    args = parser.parse_args()

    program = args.program.resolve()
    documents = sorted(path for pattern in DOCUMENTS for path in ROOT.glob(pattern))
    if args.python:
        documents = [path for path in documents if NEEDS_PYTHON.search(path.read_text(encoding="utf-8"))]
    if args.only is not None:
        documents = [ROOT / path for path in args.only]
    tally = Tally()
    fresh = {path: refresh(path, program, args.check, tally) for path in documents}
    if args.only is None and not args.python:
        fresh[PICTURE] = redraw(program)
        fresh |= pictures.of_guides({path.name: fresh[path] for path in documents})
    stale = 0
    for path, new in fresh.items():
        name = path.relative_to(ROOT)
        old = path.read_text(encoding="utf-8") if path.exists() else ""
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
    print(tally)
    for problem in tally.problems:
        print(f"error: {problem}", file=sys.stderr)
    if args.check and stale:
        print(f"{stale} documents or pictures are out of date; fix: make docs", file=sys.stderr)
    if tally.problems or (args.check and stale):
        return 1
    print(f"{len(documents)} documents and {len(fresh) - len(documents)} pictures show what the program prints")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Checks of the blocks in documents that have no output to compare: TOML, JSON, Python and shell commands (docs.py).

- `toml`: a scenario is run, a config of the gateway is checked, a plan is swept. A part of a scenario is run within the
  last scenario of its page, or within a ready-made one, in place of the tables of the same names.
- `json`: is read. `python`: is run.
- `sh`: commands of the program that need neither root nor hardware nor minutes are run. Others are parsed: each command
  and option must exist. Targets of make and scripts of the repository must exist, and the syntax must be right.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from subprocess import CompletedProcess

ROOT = Path(__file__).resolve().parents[1]
#: Packages of the workspace.
PACKAGES = {
    tomllib.loads(manifest.read_text(encoding="utf-8"))["package"]["name"]
    for manifest in ROOT.glob("crates/*/Cargo.toml")
}

#: Commands of the program that are run where a block shows them without their output.
FAST = {"run", "sweep", "plot", "query", "schema", "scenarios", "mos", "airtime", "outage"}
#: Options with which it needs other machines.
ELSEWHERE = frozenset({"--cluster"})
#: The scenario that completes a part of one if its page has none.
BASE = "k-mix"
#: What ends a command in a shell.
OPERATORS = frozenset("|&;<>()")
#: What a command can follow.
BEFORE_COMMANDS = ("--", "sudo", "do")
HEAD = re.compile(r"^\[+([\w-]+)")


@dataclass
class Tally:
    """What was done with the blocks of the documents."""

    done: Counter[str] = field(default_factory=Counter)
    #: What was not run, by reason.
    left: Counter[str] = field(default_factory=Counter)
    #: Lines of other programs, which are not run: they may take hours, need root or change the machine.
    others: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        def listed(counts: Counter[str]) -> str:
            return ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "nothing"

        others = (
            f"lines of other programs, which may take hours, need root or change the machine: {listed(self.others)}"
        )
        return f"done: {listed(self.done)}\nnot run: {listed(self.left)}\nnot run: {others}"


@dataclass
class Page:
    """A document whose blocks are checked from top to bottom."""

    name: str
    directory: Path
    execute: Callable[[str], CompletedProcess[str]]
    #: Why a command cannot be run here; None if it can.
    obstacle: Callable[[str], str | None]
    tally: Tally
    #: Complete scenarios so far.
    scenarios: list[str] = field(default_factory=list)

    def problem(self, what: str, reason: str) -> None:
        """Notes what is wrong with a block."""
        self.tally.problems.append(f"{self.name}: {what}: {reason.strip()}")

    def keep(self, name: str, body: str) -> None:
        """Writes a block that is a file, for the commands that use it."""
        (self.directory / name).write_text(body, encoding="utf-8")
        if name.endswith(".toml") and is_scenario(tomllib.loads(body)):
            self.scenarios.append(body)
        self.tally.done["files used by commands"] += 1

    def succeeds(self, command: str, what: str) -> bool:
        """Runs a command that must succeed."""
        done = self.execute(command)
        if done.returncode != 0:
            self.problem(what, f"{command} fails: {done.stderr or done.stdout}")
        return done.returncode == 0

    def check(self, kind: str, body: str) -> None:
        """Checks a block of a language."""
        match kind:
            case "toml":
                self.toml(body)
            case "json":
                try:
                    json.loads(body)
                    self.tally.done["blocks of JSON read"] += 1
                except ValueError as error:
                    self.problem("a block of JSON", str(error))
            case "python":
                self.python(body)
            case "sh":
                self.sh(body)
            case "text" | "":
                self.tally.left["outputs and diagrams"] += 1
            case _:
                self.problem("a block", f"its language {kind} is not known\n  help: teach it to tools/blocks.py")

    def toml(self, body: str) -> None:
        """A scenario, a part of one, a plan, or a config of the gateway."""
        try:
            keys = tomllib.loads(body)
        except tomllib.TOMLDecodeError as error:
            self.problem("a block of TOML", str(error))
            return
        path = self.directory / "block.toml"
        what = f"the block of TOML with {', '.join(keys)}"
        if isinstance(keys.get("gateway"), list):
            texts, command = [body], "fairhop gateway check block.toml"
        elif "scenario" in keys:
            texts, command = [body], "fairhop sweep block.toml"
        elif is_scenario(keys):
            self.scenarios.append(body)
            texts, command = [body], "fairhop run block.toml"
        else:
            bases = [*self.scenarios[:-2:-1], self.execute(f"fairhop scenarios {BASE}").stdout]
            texts, command = [completed(base, body) for base in bases], "fairhop run block.toml"
        reasons = []
        for text in texts:
            path.write_text(text, encoding="utf-8")
            done = self.execute(command)
            if done.returncode == 0:
                self.tally.done["blocks of TOML loaded"] += 1
                break
            reasons.append(done.stderr)
        else:
            self.problem(what, "\n".join(reasons))
        path.unlink()

    def python(self, body: str) -> None:
        """A script without a name."""
        path = self.directory / "block.py"
        path.write_text(body, encoding="utf-8")
        if obstacle := self.obstacle("python3 block.py"):
            self.tally.left[f"scripts: {obstacle}"] += 1
        elif self.succeeds("python3 block.py", "a block of Python"):
            self.tally.done["scripts run"] += 1
        path.unlink()

    def sh(self, body: str) -> None:
        """Commands of a shell."""
        script = self.directory / "block.sh"
        script.write_text(body, encoding="utf-8")
        self.succeeds("bash -n block.sh", "a block of shell commands")
        script.unlink()
        for line in body.replace("\\\n", " ").splitlines():
            words = words_of(line)
            if not words:
                continue
            ours = invocations(words)
            is_fast = words[0] == "fairhop" and words[1] in FAST and ELSEWHERE.isdisjoint(words)
            if is_fast and not self.obstacle(line):
                if self.succeeds(line, "a block of shell commands"):
                    self.tally.done["commands run"] += 1
            elif ours:
                for arguments in ours:
                    self.parse(arguments)
            else:
                self.other(words)

    def parse(self, arguments: list[str]) -> None:
        """The program must know the command and its options."""
        arguments = without_variables(arguments)
        command = shlex.join(["fairhop", *arguments])
        if obstacle := self.obstacle(command):
            self.tally.left[f"command lines: {obstacle}"] += 1
            return
        done = self.execute(f"{command} --help")
        unknown = [word for word in arguments if word.startswith("--") and word.partition("=")[0] not in done.stdout]
        if done.returncode != 0 or unknown:
            self.problem(command, done.stderr or f"no option {', '.join(unknown)}")
        else:
            self.tally.done["command lines parsed"] += 1

    def other(self, words: list[str]) -> None:
        """A command of another program. It may do anything to the machine, so it is not run."""
        words = words[1:] if words[0] == "sudo" else words
        if words[0] == "make":
            targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
            for word in words[1:]:
                if word not in targets:
                    self.problem(" ".join(words), f"the Makefile has no target {word}")
        if words[0] == "cargo":
            for option, package in pairwise(words):
                if option in ("-p", "--package") and package not in PACKAGES:
                    self.problem(" ".join(words), f"the workspace has no package {package}")
        scripts = [word for word in words[1:2] if words[0] == "python3" and word.startswith(("bench/", "tools/"))]
        for script in scripts:
            if not (ROOT / script).exists():
                self.problem(" ".join(words), f"there is no {script}")
        name = words[0] if re.fullmatch(r"[a-z][\w.-]*", words[0]) else "others"
        self.tally.others[name] += 1


def is_scenario(keys: dict[str, object]) -> bool:
    """Whether a document is a complete scenario."""
    return {"name", "duration_s", "topology"} <= keys.keys()


def words_of(line: str) -> list[str]:
    """The words and operators of a line, without its comment."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        # A text over several lines.
        return line.split()


def invocations(words: list[str]) -> list[list[str]]:
    """The arguments of each call of the program, one within the command of another (after `--`) included."""
    found: list[list[str]] = []
    #: Whether the next word is a command, and whether the words are arguments of the program.
    begins, ours = True, False
    for word in words:
        if word == "fairhop" and begins:
            found.append([])
            begins, ours = False, True
        elif word in BEFORE_COMMANDS or OPERATORS & set(word[:1]):
            begins, ours = True, False
        elif ours:
            found[-1].append(word)
        else:
            begins = False
    return found


def without_variables(arguments: list[str]) -> list[str]:
    """Arguments without those that a loop of the shell fills in, and the options that they belong to."""
    kept: list[str] = []
    for argument in arguments:
        if "$" not in argument:
            kept.append(argument)
        elif kept and kept[-1].startswith("--"):
            kept.pop()
    return kept


def completed(base: str, part: str) -> str:
    """A scenario with the tables and keys of a part in place of its own."""
    names = tomllib.loads(part).keys()
    keys, *tables = re.split(r"^(?=\[)", base, flags=re.MULTILINE)
    own, *added = re.split(r"^(?=\[)", part, flags=re.MULTILINE)
    kept = [line for line in keys.splitlines(keepends=True) if line.partition("=")[0].strip() not in names]
    rest = [table for table in tables if (head := HEAD.match(table)) is None or head[1] not in names]
    return "\n".join(["".join(kept), own, *rest, *added])

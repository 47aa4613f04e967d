"""The pages that are made from the program and the package: keys, tables, command line, Python.

What has no description is an error: a reader would find an empty row.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import types
from pathlib import Path

import fairhop
import schema as keys
from fairhop import airtime, control, outage, share, sweeps, voice

#: Subcommands in the help of a command.
COMMAND = re.compile(r"^  ([a-z][a-z-]*)  ", re.MULTILINE)
#: Modules of the package that users import, and what each is for.
MODULES: dict[types.ModuleType, str] = {
    control: "Controllers",
    sweeps: "Sweeps",
    voice: "Call quality",
    share: "Shares",
    outage: "Delay outage",
    airtime: "Airtime",
}

SCENARIO = """All keys of a scenario, made from `fairhop schema`. [Write a scenario](../guides/write-a-scenario.md)
shows how they are used. A key of a list of tables, such as `traffic`, is written as `[[traffic]]`; `--set` takes any
key by its dotted path, as in `--set traffic.0.count=8`."""
GATEWAY = """All keys of the config of the [gateway for Linux](../guides/gateway.md), made from
`fairhop gateway schema`. `fairhop gateway check FILE` checks a config."""
PLAN = """All keys of a plan of `fairhop sweep`, made from `fairhop schema plan`. [Sweeps](../guides/sweeps.md) shows
how they are used."""
TABLES = """The tables that `fairhop run --out DIR` writes as Parquet files, and that [Python](../guides/python.md) has
as `result.tables`. Each file has the same descriptions in its metadata."""
COMMANDS = """What `fairhop help COMMAND` prints, for each command."""
PYTHON = """All public names of the package `fairhop`. The guide [Python](../guides/python.md) shows them at work;
[write a controller](../guides/write-a-controller.md) is about {py:mod}`fairhop.control`."""


def output(program: Path, *arguments: str) -> str:
    """What the program prints."""
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def tables() -> str:
    """The page of the tables and their columns."""
    result = fairhop.run(fairhop.Scenario.ready("k-mix").with_({"duration_s": 6}))
    lines = ["# Tables and columns", TABLES, ""]
    for name in result.tables:
        table = result.tables.arrow(name)
        lines += [
            f"## {name}",
            keys.cell(table.about),
            "",
            ":::{container} keys",
            "| column | type | meaning |",
            "|---|---|---|",
        ]
        for column, kind in result.tables[name].schema.items():
            meaning = table.descriptions.get(column)
            if not meaning:
                raise ValueError(f"the column {column} of the table {name} has no description")
            lines.append(f"| `{column}` | {kind} | {keys.cell(meaning)} |")
        lines += [":::", ""]
    return "\n".join(lines)


def commands(program: Path) -> str:
    """The page of the command line."""

    def sections(path: list[str]) -> list[str]:
        text = output(program, *path, "--help")
        title = " ".join(["fairhop", *path])
        own = [f"{'#' * min(2 + max(len(path) - 1, 0), 3)} {title}", f"```text\n{text.rstrip()}\n```", ""]
        listed = text.partition("\nCommands:\n")[2].partition("\n\n")[0]
        names = [name for name in COMMAND.findall(listed) if name != "help"]
        return own + [line for name in names for line in sections([*path, name])]

    return "\n".join(["# Command line", COMMANDS, "", *sections([])])


def public(module: types.ModuleType) -> list[str]:
    """The public names that a module defines."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def undocumented(name: str, value: object) -> list[str]:
    """A name and those of its members that have no docstring."""
    missing = [] if inspect.getdoc(value) else [name]
    if inspect.isclass(value):
        members = {key: member for key, member in vars(value).items() if not key.startswith("_")}
        described = (property, types.FunctionType, types.GetSetDescriptorType, classmethod, staticmethod)
        missing += [
            f"{name}.{key}" for key, member in members.items() if isinstance(member, described) and not member.__doc__
        ]
    return missing


def python() -> str:
    """The page of the package.

    Raises:
        ValueError: A public name has no docstring.
    """
    top = [name for name in fairhop.__all__ if not inspect.ismodule(getattr(fairhop, name)) and name != "__version__"]
    elsewhere = {id(getattr(module, name)) for module in MODULES for name in public(module)}
    own = [name for name in top if id(getattr(fairhop, name)) not in elsewhere]
    missing = [gap for name in own for gap in undocumented(f"fairhop.{name}", getattr(fairhop, name))]
    lines = ["# Python API", PYTHON, "", "## Scenarios, runs and results", "```{eval-rst}", ".. module:: fairhop", ""]
    for name in own:
        lines += directive(name, getattr(fairhop, name))
    lines += ["```", ""]
    for module, title in MODULES.items():
        lines += [f"## {title}", "```{eval-rst}", f".. automodule:: {module.__name__}", ""]
        for name in public(module):
            value = getattr(module, name)
            missing += undocumented(f"{module.__name__}.{name}", value)
            lines += directive(name, value, module.__name__)
        lines += ["```", ""]
    if missing:
        raise ValueError(f"public names without a docstring: {', '.join(missing)}")
    return "\n".join(lines)


def directive(name: str, value: object, module: str = "fairhop") -> list[str]:
    """The directive that documents a name."""
    if not inspect.isclass(value):
        return [f".. autofunction:: {module}.{name}", ""]
    kind = "exception" if issubclass(value, BaseException) else "class"
    return [f".. auto{kind}:: {module}.{name}", "   :members:", "   :exclude-members: __new__, __init__", ""]


def write(folder: Path, program: Path) -> None:
    """Writes all pages."""
    folder.mkdir(parents=True)
    scenario = json.loads(output(program, "schema"))
    plan = json.loads(output(program, "schema", "plan"))
    config = json.loads(output(program, "gateway", "schema"))
    pages = {
        "scenario": keys.page("scenario", "Keys of a scenario", SCENARIO, scenario),
        "plan": keys.page("plan", "Keys of a plan", PLAN, plan),
        "gateway": keys.page("gateway", "Keys of the gateway's config", GATEWAY, config),
        "tables": tables(),
        "commands": commands(program),
        "python": python(),
    }
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")

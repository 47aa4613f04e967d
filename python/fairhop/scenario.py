"""Scenarios: TOML, changed by dotted path."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fairhop import _native

Value: TypeAlias = "bool | int | float | str | np.generic | Sequence[Value] | Mapping[str, Value]"
"""What a key of a scenario can be."""


def toml_of(value: object) -> str:
    """A value as TOML. Lists and mappings become inline arrays and tables."""
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value)
        case str():
            # TOML's basic strings escape as JSON does, and know DEL as a control character too.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
        case os.PathLike():
            return toml_of(os.fspath(value))
        case Mapping():
            return "{" + ", ".join(f"{toml_of(str(key))} = {toml_of(item)}" for key, item in value.items()) + "}"
        case Sequence():
            return "[" + ", ".join(toml_of(item) for item in value) + "]"
        case _:
            raise TypeError(
                f"a value of a scenario is a number, a string, a boolean, a list or a mapping, not {value!r}"
            )


class Scenario:
    """A checked scenario. It does not change: :meth:`with_` returns another one.

    Errors of a scenario are :class:`fairhop.ScenarioError` with the messages that the program prints: the file, the
    line, the nearest valid key.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.Scenario) -> None:
        self._native = native

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Scenario:
        """Reads a file."""
        return cls(_native.Scenario.load(Path(path)))

    @classmethod
    def from_toml(cls, text: str, *, name: str = "scenario.toml", folder: str | os.PathLike[str] = ".") -> Scenario:
        """Reads a text. `name` stands for it in errors; paths in it are relative to `folder`."""
        return cls(_native.Scenario.from_text(name, text, Path(folder)))

    @classmethod
    def ready(cls, name: str) -> Scenario:
        """A ready-made scenario: see :func:`ready_made` or `fairhop scenarios`."""
        return cls(_native.Scenario.ready(name))

    def with_(self, changes: Mapping[str, Value]) -> Scenario:
        """The scenario with other values, by dotted path: `{"traffic.0.count": 8, "radio.capture": "none"}`.

        Paths are those of the program's `--set`: numbers are places in lists, `+` appends to a list, missing tables are
        made.
        """
        return Scenario(self._native.with_changes([f"{path}={toml_of(value)}" for path, value in changes.items()]))

    @property
    def name(self) -> str:
        """Its name."""
        return self._native.name

    @property
    def seed(self) -> int:
        """The first seed."""
        return self._native.seed

    @property
    def duration_s(self) -> float:
        """Duration of a run in seconds."""
        return self._native.duration_s

    @property
    def warmup_s(self) -> float:
        """Part of the duration that is not measured, in seconds."""
        return self._native.warmup_s

    @property
    def changes(self) -> list[str]:
        """The changes, as `--set` takes them."""
        return self._native.changes

    @property
    def warnings(self) -> list[str]:
        """What to check before results are trusted."""
        return self._native.warnings

    def to_toml(self) -> str:
        """The scenario with its changes and all defaults."""
        return self._native.resolved()

    def __repr__(self) -> str:
        changes = "".join(f", {change}" for change in self.changes)
        return f"<Scenario {self.name!r} of {self._native.source}{changes}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self.to_toml() == other.to_toml()

    def __hash__(self) -> int:
        return hash(self.to_toml())

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickle, (self._native.source, self._native.text, str(self._native.folder), self.changes)


def _unpickle(name: str, text: str, folder: str, changes: list[str]) -> Scenario:
    return Scenario(_native.Scenario.from_text(name, text, Path(folder)).with_changes(changes))


def ready_made() -> dict[str, str]:
    """Names and titles of the ready-made scenarios."""
    return dict(_native.ready_made())

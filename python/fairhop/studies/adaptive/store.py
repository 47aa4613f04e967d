"""JSON-lines files in which results are kept as they are made, so that nothing is run twice."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TextIO, TypeVar

K = TypeVar("K")
V = TypeVar("V")

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


class Store(Generic[K, V]):
    """Results of runs by their keys, kept in such a file. Thread-safe."""

    def __init__(
        self, path: Path, read: Callable[[dict[str, Any]], tuple[K, V] | None], *, read_only: bool = False
    ) -> None:
        """`read` returns key and result of a line, or none if the line does not count."""
        #: Runs that were made now.
        self.made = 0
        self._lock = threading.Lock()
        self._known: dict[K, V] = {}
        for line in lines_of(path):
            # A truncated line in the middle can lack fields.
            with suppress(KeyError, TypeError):
                if entry := read(line):
                    self._known[entry[0]] = entry[1]
        self._file = None if read_only else appended(path)

    def close(self) -> None:
        """Closes the file."""
        if self._file:
            self._file.close()

    def known(self, key: K) -> V | None:
        """The result of a key, if it is kept."""
        with self._lock:
            return self._known.get(key)

    def keep(self, key: K, result: V, line: dict[str, Any]) -> None:
        """Keeps a result, with its line of the file."""
        with self._lock:
            self.made += 1
            self._known[key] = result
            if self._file:
                self._file.write(json.dumps(line) + "\n")
                self._file.flush()

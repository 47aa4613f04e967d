"""Results of `fairhop … --json` that are kept by command line, so that an interrupted bench goes on where it ended."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any


class Store:
    """Results by command line and by the program's hash. Commands run in `folder`, where their scripts are."""

    def __init__(self, program: Path, file: Path, folder: Path) -> None:
        self.program = program
        self.file = file
        self.folder = folder
        self.hash = hashlib.sha256(program.read_bytes()).hexdigest()[:12]
        self.known: dict[str, Any] = {}
        if file.exists():
            for line in file.read_text().splitlines():
                entry = json.loads(line)
                if entry["program"] == self.hash:
                    self.known[entry["key"]] = entry["result"]
        file.parent.mkdir(parents=True, exist_ok=True)

    def run(self, *arguments: str, note: str = "") -> dict[str, Any]:
        """The result of a command line; `note` tells apart runs that are to be repeated.

        What the run wrote to standard error is under `said`.
        """
        command, inner = list(arguments), []
        if "--" in command:
            at = command.index("--")
            command, inner = command[:at], command[at:]
        key = " ".join([*arguments, *([f"({note})"] if note else [])])
        if key not in self.known:
            print(f"» fairhop {key}", file=sys.stderr, flush=True)
            words = [str(self.program), *command, "--json", *inner]
            done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{' '.join(words)}\n{done.stderr}")
            self.known[key] = json.loads(done.stdout) | {"said": done.stderr}
            with self.file.open("a") as out:
                out.write(json.dumps({"program": self.hash, "key": key, "result": self.known[key]}) + "\n")
        result: dict[str, Any] = self.known[key]
        return result

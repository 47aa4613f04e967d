"""Runs of the program, kept in a folder as they are made: an interrupted study goes on where it ended."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from fairhop.studies.model import Estimate

#: What `fairhop … --json` prints.
Result = dict[str, Any]
#: Overrides of a scenario, as `--set` takes them.
Sets = tuple[str, ...]
T = TypeVar("T")
U = TypeVar("U")

#: Exit code after Ctrl-C, as shells have it.
INTERRUPTED = 130
#: The lowest MOS of a good call (kim2010).
MOS_GOOD = 3.6


class Stopped(BaseException):
    """The study was interrupted."""


class ProgramError(RuntimeError):
    """The program failed; the message holds the command and its standard error."""


# ---- overrides ------------------------------------------------------------------------------------------------------

#: The gateway controls nothing.
FREE = 'control={ kind = "none" }'


def capture(rule: str) -> str:
    """The override of the capture rule."""
    return f"radio.capture={rule}"


def window(segments: int) -> str:
    """The override that limits each TCP flow to a window, in segments."""
    return f'control={{ kind = "window", window_packets = {segments} }}'


def pacing(kbps: float) -> str:
    """The override that paces all data into the mesh to one total rate."""
    return f'control={{ kind = "data-pacing", rate_kbps = {kbps:g} }}'


def ack_pacing(kbps: float) -> str:
    """The override that paces ACKs by the bytes that they acknowledge, to one total rate."""
    return f'control={{ kind = "ack-pacing", rate_kbps = {kbps:g} }}'


# ---- figures of one run ---------------------------------------------------------------------------------------------


def mos(result: Result) -> float:
    """Mean MOS of the calls."""
    return float(result["totals"]["mos_mean"])


def jain(result: Result) -> float:
    """Jain's index of the flows' goodputs."""
    return float(result["totals"]["jain"])


def tcp_mbps(result: Result) -> float:
    """Total goodput of the TCP flows, in Mb/s."""
    return float(result["totals"]["tcp_goodput_mbps"])


# ---- running --------------------------------------------------------------------------------------------------------


def find_program(named: Path | None = None) -> Path:
    """The program: the one that is named, the one that called this, the one beside this Python, or the one in the path.

    Raises:
        FileNotFoundError: There is none.
    """
    if named and not (named.is_file() and os.access(named, os.X_OK)):
        raise FileNotFoundError(f"{named} is no program\n  help: --program takes the path of fairhop")
    if named:
        return named
    folders = [str(Path(sys.executable).parent), *os.get_exec_path()]
    places = [Path(folder) / "fairhop" for folder in folders]
    caller = os.environ.get("FAIRHOP")
    for place in [Path(caller), *places] if caller else places:
        if place.is_file() and os.access(place, os.X_OK):
            return place
    raise FileNotFoundError("the program fairhop is not in the path\n  help: name it with --program")


class Runner:
    """Runs the program, a few processes at a time, and keeps what they find in a folder.

    A file is named by the hash of the program, of what is computed, and of the seed. It is written under another name
    first, so that a file that exists is whole.
    """

    def __init__(self, program: Path, kept: Path, workers: int | None = None) -> None:
        # A run may have a working folder of its own.
        self.program = program.absolute()
        self.kept = kept
        self.workers = workers or os.cpu_count() or 1
        #: Computations of this study, by measurement: those made now, those found, and their seconds on a core.
        self.made: dict[str, int] = {}
        self.found: dict[str, int] = {}
        self.core_s: dict[str, float] = {}
        #: Seconds on a core of those made now.
        self.made_core_s = 0.0
        self._of_thread = threading.local()
        self.hash = hashlib.sha256(program.read_bytes()).hexdigest()
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="run")
        self._lock = threading.Lock()
        self._pending: dict[Path, Future[None]] = {}
        self._counted: set[Path] = set()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._stopping = False

    def get(self, owner: str, key: Sequence[object], compute: Callable[[], Any]) -> Any:  # noqa: ANN401 (JSON)
        """What was computed under this key, or is computed now; it must have a form in JSON.

        Raises:
            Stopped: The study is being interrupted.
            ProgramError: The program failed.
        """
        name = hashlib.sha256(json.dumps([self.hash, *key]).encode()).hexdigest()[:32]
        path = self.kept / name[:2] / f"{name}.json.gz"
        kept = read(path)
        with self._lock:
            if self._stopping:
                raise Stopped
            first = path not in self._counted
            self._counted.add(path)
            if kept is None:
                if path not in self._pending:
                    self._pending[path] = self._pool.submit(self._make, owner, path, compute)
                waiting = self._pending[path]
            elif first:
                self.found[owner] = self.found.get(owner, 0) + 1
                self.core_s[owner] = self.core_s.get(owner, 0.0) + kept["core_s"]
        if kept is None:
            waiting.result()
            kept = read(path)
            if kept is None:
                raise OSError(f"{path} was removed or damaged while the study ran\n  help: start the study again")
        return kept["value"]

    def _make(self, owner: str, path: Path, compute: Callable[[], Any]) -> None:
        if self._stopping:
            raise Stopped
        # The time of this thread and of the processes that it waits for, whatever else the machine does.
        self._of_thread.core_s = 0.0
        began = time.thread_time()
        value = compute()
        core_s = time.thread_time() - began + self._of_thread.core_s
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        # Without the time, so that equal results are equal files.
        text = json.dumps({"core_s": round(core_s, 3), "value": value}).encode()
        part.write_bytes(gzip.compress(text, compresslevel=4, mtime=0))
        part.replace(path)
        with self._lock:
            self.made[owner] = self.made.get(owner, 0) + 1
            self.core_s[owner] = self.core_s.get(owner, 0.0) + core_s
            self.made_core_s += core_s
            del self._pending[path]

    def call(self, *arguments: str, folder: Path | None = None) -> Result:
        """The JSON that the program prints, run in `folder` if there is one.

        Raises:
            Stopped: The study is being interrupted.
            ProgramError: The program failed.
        """
        result: Result = json.loads(self.printed(*arguments, "--json", folder=folder))
        return result

    def printed(self, *arguments: str, folder: Path | None = None) -> str:
        """What the program prints, run in `folder` if there is one.

        Raises:
            Stopped: The study is being interrupted.
            ProgramError: The program failed.
        """
        words = [str(self.program), *arguments]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            with self._lock:
                if self._stopping:
                    raise Stopped
                process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder)
                self._processes.add(process)
            try:
                _, status, usage = os.wait4(process.pid, 0)
            finally:
                with self._lock:
                    self._processes.discard(process)
            process.returncode = os.waitstatus_to_exitcode(status)
            self._of_thread.core_s = getattr(self._of_thread, "core_s", 0.0) + usage.ru_utime + usage.ru_stime
            out.seek(0)
            err.seek(0)
            printed, said = out.read().decode(), err.read().decode(errors="replace")
        if process.returncode == INTERRUPTED or process.returncode < 0 or (process.returncode and self._stopping):
            raise Stopped
        if process.returncode:
            command = " ".join(arguments).removesuffix(" --json")
            raise ProgramError(f"fairhop {command}\n{said.strip()}")
        return printed

    def version(self) -> str:
        """The program's version."""
        done = subprocess.run([str(self.program), "--version"], capture_output=True, text=True, check=False)
        return done.stdout.split()[-1] if done.stdout.split() else "of unknown version"

    def stop(self) -> None:
        """Ends what is running; what was finished is kept."""
        with self._lock:
            self._stopping = True
            for process in self._processes:
                # Not process.terminate(), which would wait for it too and take its exit code.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)
        self._pool.shutdown(wait=True, cancel_futures=True)


def read(path: Path) -> dict[str, Any] | None:
    """What a file holds; nothing if there is none, or if it is damaged."""
    try:
        kept: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
        return {"core_s": float(kept["core_s"]), "value": kept["value"]}
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None


def run_words(scenario: str, sets: Sets, seed: int) -> list[str]:
    """The arguments of a run."""
    return ["run", scenario, "--seed", str(seed), *(word for change in sets for word in ("--set", change))]


class Lab:
    """Measures over a range of seeds."""

    def __init__(self, runner: Runner, seeds: range, *, quick: bool = False, owner: str = "") -> None:
        self.runner = runner
        self.seeds = seeds
        #: Whether searches take their coarse form.
        self.quick = quick
        self._owner = owner

    def over(self, seeds: range) -> Lab:
        """The same laboratory with other seeds."""
        return Lab(self.runner, seeds, quick=self.quick, owner=self._owner)

    def few(self, count: int) -> Lab:
        """The same laboratory with at most the first `count` seeds."""
        return self.over(self.seeds[:count])

    def owned(self, owner: str) -> Lab:
        """The same laboratory, whose runs are counted for a measurement."""
        return Lab(self.runner, self.seeds, quick=self.quick, owner=owner)

    def each(self, compute: Callable[[T], U], items: Iterable[T]) -> list[U]:
        """Computes at the same time what runs one after the other by itself; the results are in the order of items."""
        chosen = list(items)
        with ThreadPoolExecutor(max(1, len(chosen))) as pool:
            return list(pool.map(compute, chosen))

    def run(self, scenario: str, sets: Sets) -> list[Result]:
        """The result of each seed."""

        def one(seed: int) -> Result:
            words = run_words(scenario, sets, seed)
            found: Result = self.runner.get(self._owner, ["run", *words], lambda: self.runner.call(*words))
            return found

        return self.each(one, self.seeds)

    def files(
        self, scenario: str, sets: Sets, options: Sequence[str], name: str, derive: Callable[[Result, Path], Any]
    ) -> list[Any]:
        """What is derived from the files of a run (its folder of `--out`), by seed.

        It must have a form in JSON, in which it is kept; the files are not. `name` and the source file of `derive`
        stand for the derivation.
        """
        source = hashlib.sha256(Path(inspect.getfile(derive)).read_bytes()).hexdigest()

        def one(seed: int) -> Any:  # noqa: ANN401 (JSON)
            words = [*run_words(scenario, sets, seed), *options]

            def compute() -> Any:  # noqa: ANN401 (JSON)
                with tempfile.TemporaryDirectory() as folder:
                    out = Path(folder) / "run"
                    return derive(self.runner.call(*words, "--out", str(out)), out)

            return self.runner.get(self._owner, [name, source, *words], compute)

        return self.each(one, self.seeds)

    def fairhop(self, *arguments: str) -> Result:
        """What another command prints."""
        found: Result = self.runner.get(self._owner, list(arguments), lambda: self.runner.call(*arguments))
        return found

    def by_seed(self, scenario: str, sets: Sets, figure: Callable[[Result], float]) -> list[float]:
        """A figure of each seed's run."""
        return [figure(result) for result in self.run(scenario, sets)]

    def measure(self, scenario: str, sets: Sets, figure: Callable[[Result], float]) -> Estimate:
        """A figure over the seeds."""
        return Estimate.of(self.by_seed(scenario, sets, figure))

    def seeds_text(self) -> str:
        """The seeds in words."""
        return f"{self.seeds[0]}-{self.seeds[-1]}" if len(self.seeds) > 1 else str(self.seeds[0])

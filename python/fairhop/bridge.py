"""The bridge between a sweep and the scheduler of a Dask cluster.

A sweep starts it as `python -m fairhop.bridge ADDRESS --engine ENGINE`, and talks with it over standard input and
output; the messages are described in crates/study/src/cluster.rs. It passes jobs on and results back, and decides
nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import queue
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterable
from typing import Any

from fairhop.cluster import Files, Job, engine, make, name_of

#: How long the scheduler, and then its first worker, may take to answer.
PATIENCE_S = 5.0
#: How long the cluster may be without workers during a sweep.
NO_WORKERS_S = 60.0
#: How often the workers are counted.
COUNT_S = 1.0
#: Tasks on their way for each thread of a worker: one is being made, and the next hides the latency of the cluster.
TASKS = 2
#: Seconds of a task, to which runs are bundled: a task costs client, scheduler and worker some 10 ms together. A longer
#: one would be lost with its worker.
TASK_S = 1.0
#: Maximum number of runs of a task: runs that are on their way are not shared with another sweep.
MAX_RUNS = 16
#: Part of the new value in the smoothed time of a run: the last dozen tasks count.
NEW = 0.1

#: Dask's future of a job; distributed has few types.
Future = Any


class ClusterError(RuntimeError):
    """The cluster cannot make the runs; `help` says how to fix it."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class Bridge:
    """The client of a scheduler."""

    def __init__(self, address: str, own_engine: str) -> None:
        """Connects, and checks the workers.

        Raises:
            ClusterError: Nobody answers, or the workers cannot make the runs.
        """
        try:
            from distributed import Client
        except ImportError:
            raise ClusterError(
                "a sweep on a cluster needs the Python package distributed", "pip install 'fairhop[cluster]'"
            ) from None
        try:
            client: Any = Client(  # type: ignore[no-untyped-call]
                address, timeout=PATIENCE_S, set_as_default=False, name="fairhop"
            )
        except (OSError, ValueError, TypeError) as error:
            raise ClusterError(
                f"no Dask scheduler answers at {address}: {first_line(error)}",
                "start one with `dask scheduler`, which prints its address, and workers with `dask worker ADDRESS`",
            ) from None
        self.client = client
        self.address = address
        try:
            client.wait_for_workers(1, timeout=PATIENCE_S)
        except TimeoutError:
            raise self._no_workers(f"the scheduler at {address} has no workers") from None
        self._check(own_engine)
        self._number = f"fairhop-{os.getpid()}-{time.time_ns()}"
        #: Smoothed time of a run in seconds; none before the first one.
        self._run_s: float | None = None

    def _no_workers(self, message: str) -> ClusterError:
        return ClusterError(message, f"start one on each machine: dask worker {self.address}")

    def _check(self, own_engine: str) -> None:
        """Refuses workers with another engine, or without one."""
        engines: dict[str, Any] = self.client.run(engine, on_error="return")
        for worker, found in sorted(engines.items()):
            if isinstance(found, BaseException):
                raise ClusterError(
                    f"the worker {worker} cannot load fairhop: {first_line(found)}",
                    "install the same version of fairhop on every worker, and start the workers again",
                )
            if found != own_engine:
                raise other_engine(worker, found, own_engine)

    def slots(self) -> int:
        """Runs that the cluster makes at a time: the threads of its workers."""
        threads: dict[str, int] = self.client.nthreads()
        return sum(threads.values())

    def runs_of_task(self) -> int:
        """Runs that a task has, by what runs took so far."""
        return max(1, min(MAX_RUNS, round(TASK_S / self._run_s))) if self._run_s else 1

    def learn(self, seconds: float) -> None:
        """Takes the time of a run."""
        before = self._run_s
        self._run_s = max(1e-4, seconds if before is None else before + NEW * (seconds - before))

    def submit(self, bundles: list[list[Job]]) -> list[Future]:
        """Hands tasks to the scheduler."""
        keys = [f"{self._number}-{bundle[0]['job']}" for bundle in bundles]
        futures: list[Future] = self.client.map(make, bundles, key=keys, pure=False)
        return futures

    def bundles(self, backlog: deque[Job], tasks: int, slots: int) -> list[list[Job]]:
        """Takes jobs for at most `tasks` tasks. Each has a part of those left: no worker is idle long before others."""
        taken: list[list[Job]] = []
        while backlog and len(taken) < tasks:
            count = max(1, min(self.runs_of_task(), len(backlog) // max(1, TASKS * slots)))
            taken.append([backlog.popleft() for _ in range(count)])
        return taken

    def failure(self, future: Future, jobs: list[Job]) -> ClusterError:
        """Why a task has no result."""
        lost = ClusterError(
            f"the connection with the scheduler at {self.address} is lost",
            "start the sweep again: the runs so far are kept",
        )
        if future.status != "error":
            return lost
        error = future.exception()
        match type(error).__name__:
            case "EngineError":
                return other_engine("that has joined", str(error), jobs[0]["engine"])
            case "KilledWorker":
                run = name_of(jobs[0]) + (f", or one of the {len(jobs) - 1} sent with it," if len(jobs) > 1 else "")
                return ClusterError(
                    f"{run} was given up: the workers that made it died, one after the other",
                    "look at their logs; if memory is short, start the workers with fewer threads",
                )
            case "ImportError" | "ModuleNotFoundError":
                return ClusterError(
                    f"a worker cannot load fairhop: {first_line(error)}",
                    "install the same version of fairhop on every worker, and start the workers again",
                )
            case _:
                return ClusterError(str(error), "")

    def serve(self, out: Replies) -> None:
        """Passes jobs on and results back until standard input ends.

        Raises:
            ClusterError: A run cannot be made, or the cluster is gone.
        """
        events: queue.SimpleQueue[Job | Future | None] = queue.SimpleQueue()
        threading.Thread(target=read_jobs, args=(events,), daemon=True).start()
        backlog: deque[Job] = deque()
        pending: dict[str, tuple[Future, list[Job]]] = {}
        slots, counted, seen = self.slots(), time.monotonic(), time.monotonic()
        wanted = slots
        out.slots(wanted)
        ended = False
        while not ended:
            done = []
            for event in waiting(events):
                if event is None:
                    ended = True
                elif isinstance(event, dict):
                    backlog.append(event)
                else:
                    done.append(event)
            of_done = [pending.pop(future.key) for future in done if future.key in pending]
            bundles = [] if ended else self.bundles(backlog, TASKS * max(1, slots) - len(pending), slots)
            for future, jobs in zip(self.submit(bundles) if bundles else [], bundles, strict=True):
                pending[future.key] = (future, jobs)
                future.add_done_callback(events.put)
            for future, jobs in of_done:
                if future.status != "finished":
                    raise self.failure(future, jobs)
            if of_done:
                results = self.client.gather([future for future, _ in of_done])
                for runs, (_, jobs) in zip(results, of_done, strict=True):
                    for (key, files, seconds), job in zip(runs, jobs, strict=True):
                        self.learn(seconds)
                        out.done(job["job"], key, files)
            if time.monotonic() - counted > COUNT_S:
                slots, counted = self.slots(), time.monotonic()
                if slots:
                    seen = counted
                elif counted - seen > NO_WORKERS_S:
                    raise self._no_workers("all workers of the cluster are gone")
            if slots * self.runs_of_task() != wanted:
                wanted = slots * self.runs_of_task()
                out.slots(wanted)
        self.client.cancel([future for future, _ in pending.values()], force=True)


class Replies:
    """What the bridge says to the sweep."""

    def __init__(self) -> None:
        # Whatever else prints goes to standard error.
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def slots(self, count: int) -> None:
        """The cluster has tasks with this number of runs at a time."""
        self._say({"slots": count})

    def done(self, job: int, key: str, files: Files) -> None:
        """A job is done."""
        self._say({"job": job, "key": key, "files": [(table, len(content)) for table, content in files]}, files)

    def error(self, error: ClusterError) -> None:
        """The end."""
        self._say({"error": str(error), "help": error.fix})

    def _say(self, message: dict[str, Any], files: Files | None = None) -> None:
        self._out.write(json.dumps(message).encode() + b"\n")
        for _, content in files or ():
            self._out.write(content)
        self._out.flush()


def waiting(events: queue.SimpleQueue[Any]) -> Iterable[Any]:
    """The events that are there; waits for the first one, a while."""
    try:
        yield events.get(timeout=COUNT_S)
        while True:
            yield events.get_nowait()
    except queue.Empty:
        return


def read_jobs(events: queue.SimpleQueue[Any]) -> None:
    """Reads jobs to the end of standard input."""
    for line in sys.stdin.buffer:
        events.put(json.loads(line))
    events.put(None)


def other_engine(worker: str, found: str, own: str) -> ClusterError:
    """A worker has another engine."""
    return ClusterError(
        f"the worker {worker} has another engine than this fairhop ({found}, here {own}): its results could differ",
        "install the same version of fairhop on every worker, and start the workers again",
    )


def first_line(error: BaseException | None) -> str:
    """The first line of an error's message."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def main() -> int:
    """Serves the sweep that has started this process; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fairhop.bridge")
    parser.add_argument("address", metavar="ADDRESS")
    parser.add_argument("--engine", required=True)
    args = parser.parse_args()
    # Ctrl-C is the sweep's: it closes standard input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = Replies()
    # What it would log about workers that die is handled here.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    try:
        Bridge(args.address, args.engine).serve(replies)
    except ClusterError as error:
        replies.error(error)
        return 1
    except OSError as error:
        # Of a scheduler that ends; or the sweep has ended, and nobody reads this.
        lost = f"the connection with the scheduler at {args.address} is lost: {first_line(error)}"
        replies.error(ClusterError(lost, "start the sweep again: the runs so far are kept"))
        return 1
    return 0


if __name__ == "__main__":
    # Without the end of the interpreter: the client's threads take a while to stop.
    os._exit(main())

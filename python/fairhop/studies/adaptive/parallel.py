"""Jobs side by side, with a line of progress."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from fairhop.studies.lab import Runner
from fairhop.studies.report import duration

T = TypeVar("T")
U = TypeVar("U")


class Progress:
    """A line on standard error with the number of finished jobs and the estimated time left."""

    def __init__(self, what: str, total: int, unit: str) -> None:
        self.what, self.total, self.unit, self.done = what, total, unit, 0
        # Times of the latest steps: the first results are often known already.
        self.latest = deque([time.monotonic()], maxlen=50)
        self.watched = sys.stderr.isatty()

    def step(self) -> None:
        """Counts a job, and shows the line: on a terminal each time, elsewhere now and then."""
        self.done += 1
        self.latest.append(time.monotonic())
        each_s = (self.latest[-1] - self.latest[0]) / (len(self.latest) - 1)
        left = duration(each_s * (self.total - self.done))
        status = f"{self.what}: {self.done} of {self.total} {self.unit}, {left} left"
        if self.watched:
            end = "\n" if self.done == self.total else ""
            print(f"\r\x1b[K{status}", end=end, file=sys.stderr, flush=True)
        elif self.done in (1, self.total) or self.done % 20 == 0:
            print(status, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Removes the line from a terminal."""
        if self.watched:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def for_all(
    runner: Runner,
    what: str,
    items: Sequence[T],
    job: Callable[[T], U],
    *,
    unit: str = "cells",
    done: Callable[[U], None] | None = None,
) -> list[U]:
    """The results of `job` in the order of the items; `done` is called in this thread with each as it comes.

    Whatever ends it early also ends the runs of `runner`.

    Raises:
        KeyboardInterrupt, Stopped: Ctrl-C was pressed.
    """
    progress = Progress(what, len(items), unit)
    with ThreadPoolExecutor(runner.workers) as pool:
        futures = [pool.submit(job, item) for item in items]
        try:
            for future in as_completed(futures):
                result = future.result()
                if done:
                    done(result)
                progress.step()
        except BaseException:
            progress.clear()
            runner.stop()
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]

"""What the workers of a Dask cluster do for a sweep: they make runs. `fairhop.bridge` is the sweep's side."""

from __future__ import annotations

import time
from typing import Any

from fairhop import _native

#: A job: all that a worker needs for a run.
Job = dict[str, Any]
#: The files of a run: table and Parquet file.
Files = list[tuple[str, bytes]]


class RunFailedError(RuntimeError):
    """A run failed on its worker; the message names the run."""


class EngineError(RuntimeError):
    """A worker has another engine than the sweep: its runs would be other ones."""


def engine() -> str:
    """The fingerprint of the engine, of a worker if it is called there."""
    return _native.engine()


def make(jobs: list[Job]) -> list[tuple[str, Files, float]]:
    """Makes runs one after the other, on a worker; returns the key, the files and the seconds of each."""
    made = []
    for job in jobs:
        if _native.engine() != job["engine"]:
            raise EngineError(_native.engine())
        began = time.perf_counter()
        try:
            files = _native.work(job["scenario"], job["seed"], job["key"], job["tables"])
        except Exception as error:
            raise RunFailedError(f"{name_of(job)} failed on its worker: {error}") from None
        made.append((job["key"], files, time.perf_counter() - began))
    return made


def name_of(job: Job) -> str:
    """The run of a job, for messages."""
    return f"the run of {job['point']} with seed {job['seed']}"

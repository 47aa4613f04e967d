"""Runs of a scenario."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from fairhop import _native
from fairhop.control import Controller
from fairhop.result import Interrupted, Result, RunError
from fairhop.scenario import Scenario


def run(
    scenario: Scenario | str,
    *,
    seeds: int | Iterable[int] = 1,
    threads: int | None = None,
    control: Controller | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Result:
    """Simulates a scenario with one seed or several, on all cores.

    `scenario` may be the name of a ready-made scenario. `seeds` is a number of consecutive seeds from its first on,
    or the seeds. `threads` is the number of seeds that run in parallel; it does not affect the results. `control` is a
    controller of your own, in place of the scenario's (see :mod:`fairhop.control`). `progress` is called some times a
    second with the simulated seconds so far and in total.

    Ctrl-C raises :class:`Interrupted`, and an exception in a controller raises :class:`RunError`; both have what was
    measured so far as `result`.
    """
    if isinstance(scenario, str):
        scenario = Scenario.ready(scenario)
    first = scenario.seed
    numbers = list(range(first, first + seeds)) if isinstance(seeds, int) else list(seeds)
    began = time.perf_counter()
    outcome = _native.run(scenario._native, numbers, threads=threads, control=control, progress=progress)
    result = None
    if outcome.summary is not None:
        result = Result(scenario, outcome, time.perf_counter() - began)
    match outcome.error:
        case None:
            pass
        case KeyboardInterrupt():
            raise Interrupted(result) from None
        case error if control is not None:
            raise RunError(f"the controller raised {type(error).__name__}: {error}", result) from error
        case error:
            raise error
    if result is None:
        raise AssertionError("runs without an error have results")
    return result

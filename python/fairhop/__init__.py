"""Calls and TCP on multihop wireless networks: simulate them, sweep over settings, and compute with the models.

>>> import fairhop
>>> result = fairhop.run(fairhop.Scenario.ready("k-mix").with_({"duration_s": 10}), seeds=2)
>>> result.summary()["totals"]["calls_ok"]
0.0
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairhop import airtime, outage, share, voice
    from fairhop._native import Call, Flow, Observation, ScenarioError, __version__
    from fairhop.control import Limit, Policy
    from fairhop.result import Interrupted, Result, RunError
    from fairhop.runs import run
    from fairhop.scenario import Scenario, ready_made, toml_of
    from fairhop.sweeps import Dataset, sweep

__all__ = [
    "Call",
    "Dataset",
    "Flow",
    "Interrupted",
    "Limit",
    "Observation",
    "Policy",
    "Result",
    "RunError",
    "Scenario",
    "ScenarioError",
    "__version__",
    "airtime",
    "outage",
    "ready_made",
    "run",
    "share",
    "sweep",
    "toml_of",
    "voice",
]

#: The module of each name, which is loaded when the name is first used: NumPy and Polars take half a second to load,
#: and the worker of a cluster or the bridge of a sweep uses neither.
_MODULES = {
    **dict.fromkeys(("Call", "Flow", "Observation", "ScenarioError", "__version__"), "_native"),
    **dict.fromkeys(("Limit", "Policy"), "control"),
    **dict.fromkeys(("Interrupted", "Result", "RunError"), "result"),
    **dict.fromkeys(("Scenario", "ready_made", "toml_of"), "scenario"),
    **dict.fromkeys(("Dataset", "sweep"), "sweeps"),
    "run": "runs",
}


def __getattr__(name: str) -> object:
    """Loads a public name (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _MODULES:
        return importlib.import_module(f"fairhop.{name}")
    found: object = getattr(importlib.import_module(f"fairhop.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

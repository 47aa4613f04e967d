"""Calls and TCP on multihop wireless networks: simulate them, sweep over settings, and compute with the models.

>>> import fairhop
>>> result = fairhop.run(fairhop.Scenario.ready("k-mix").with_({"duration_s": 10}), seeds=2)
>>> result.summary()["totals"]["calls_ok"]
0.0
"""

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

"""Controllers written in Python: they see what a gateway sees, and their policy is enforced."""

from __future__ import annotations

import traceback

import pytest
from fairhop import Limit, Observation, Policy, RunError, Scenario, run

MIX = Scenario.ready("k-mix").with_({"duration_s": 6, "warmup_s": 1})


def downloads(control: object) -> tuple[float, float]:
    """TCP goodput and the mean score of the calls."""
    totals = run(MIX, control=control).totals  # type: ignore[arg-type]
    assert totals["tcp_goodput_mbps"] is not None and totals["mos_mean"] is not None
    return totals["tcp_goodput_mbps"], totals["mos_mean"]


def test_a_pace_from_python_limits_downloads_and_helps_calls() -> None:
    free, bad = downloads(lambda _: None)
    slow, good = downloads(lambda _: Policy(down_mbps=0.1))
    assert slow <= 0.11 < free
    assert good > bad


def test_windows_and_limits_of_single_flows_are_enforced() -> None:
    def first_flow_only(seen: Observation) -> Policy:
        return Policy(
            window_bytes=3000,
            flows={flow.id: Limit(rate_mbps=0.02) for flow in sorted(seen.flows, key=lambda flow: flow.id)[:1]},
        )

    goodputs = sorted(run(MIX, control=first_flow_only).flows["goodput_mbps"])
    assert goodputs[0] < 0.025 < goodputs[1]


def test_a_class_is_instantiated_for_each_run() -> None:
    made: list[Remembering] = []

    class Remembering:
        def __init__(self) -> None:
            self.seen: list[Observation] = []
            made.append(self)

        def __call__(self, observation: Observation) -> Policy | None:
            self.seen.append(observation)
            return None

    run(MIX, seeds=2, control=Remembering)
    assert len(made) == 2
    last = made[0].seen[-1]
    assert len(made[0].seen) == len(made[1].seen) == 61, "the start, and ten a second"
    assert (last.time_s, last.gateway, len(last.calls), len(last.flows)) == (6.0, 0, 5, 3)
    assert {flow.kind for flow in last.flows} == {"tcp"}
    assert all(call.mos is not None and 1 <= call.mos <= 4.5 for call in last.calls)


def test_decisions_are_in_the_table_of_control() -> None:
    table = run(MIX, control=lambda _: Policy(down_mbps=0.5)).tables["control"]
    assert set(table["kind"]) == {"custom"}


def test_an_exception_ends_the_run_with_its_traceback_and_keeps_what_was_measured() -> None:
    def fails(seen: Observation) -> None:
        if seen.time_s > 3:
            raise ZeroDivisionError("no budget")

    with pytest.raises(RunError, match="the controller raised ZeroDivisionError: no budget") as caught:
        run(MIX.with_({"duration_s": 500}), control=fails)
    cause = caught.value.__cause__
    assert cause is not None
    assert "in fails" in "".join(traceback.format_exception(cause))
    result = caught.value.result
    assert result is not None and result.partial == result.seeds
    assert 3 <= result.summary()["sim_s"] < 100


@pytest.mark.parametrize(
    ("answer", "message"),
    [(Policy(down_mbps=-1), "down_mbps is -1"), (3, "down_mbps"), (Policy(window_bytes=-5), "window_bytes")],
)
def test_answers_that_are_no_policy_are_errors(answer: object, message: str) -> None:
    with pytest.raises(RunError) as caught:
        run(MIX, control=lambda _: answer)  # type: ignore[arg-type]
    assert message in "".join(traceback.format_exception(caught.value.__cause__))

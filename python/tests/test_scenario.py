"""Scenarios: read, changed by dotted path, refused with the message of the program."""

from __future__ import annotations

import pickle
import string
from pathlib import Path

import numpy as np
import pytest
from fairhop import Scenario, ScenarioError, ready_made
from hypothesis import given, settings
from hypothesis import strategies as st


def test_a_ready_made_scenario_is_changed_by_dotted_path() -> None:
    mix = Scenario.ready("k-mix")
    eight = mix.with_({"traffic.0.count": 8, "radio.capture": "none", "name": 'eight "calls"'})
    assert (mix.seed, eight.name) == (1, 'eight "calls"')
    assert eight.changes == ["traffic.0.count=8", 'radio.capture="none"', 'name="eight \\"calls\\""']
    assert eight != mix
    assert eight == mix.with_({"radio.capture": "none"}).with_({"traffic.0.count": np.int64(8), "name": eight.name})


def test_lists_and_tables_are_values() -> None:
    scenario = Scenario.ready("k-mix").with_({"traffic.+": {"kind": "bulk", "from": "internet", "to": 2}})
    assert scenario.to_toml().count("[[traffic]]") == 3


def test_the_resolved_text_is_the_same_scenario() -> None:
    scenario = Scenario.ready("k-mix").with_({"duration_s": 7.5})
    assert Scenario.from_toml(scenario.to_toml()) == scenario
    assert pickle.loads(pickle.dumps(scenario)) == scenario


def test_errors_have_the_message_and_the_place_of_the_program() -> None:
    with pytest.raises(ScenarioError, match="unknown key `cuont`") as caught:
        Scenario.ready("k-mix").with_({"traffic.0.cuont": 8})
    assert caught.value.problems == [
        {
            "message": caught.value.problems[0]["message"],
            "help": "write `count`",
            "source": "--set",
            "line": 1,
            "column": 11,
        }
    ]
    with pytest.raises(ScenarioError, match=r"mesh\.toml:1:1"):
        Scenario.from_toml("nmae = 1", name="mesh.toml")


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file .*k-mix.toml\n  help: k-mix is ready-made"):
        Scenario.load(tmp_path / "k-mix.toml")
    with pytest.raises(FileNotFoundError, match="did you mean k-mix"):
        Scenario.ready("k-mxi")
    (tmp_path / "mesh.toml").write_text(Scenario.ready("k-mix").to_toml(), encoding="utf-8")
    assert Scenario.load(tmp_path / "mesh.toml") == Scenario.ready("k-mix")


def test_values_that_are_none_are_refused() -> None:
    with pytest.raises(TypeError, match="not None"):
        Scenario.ready("k-mix").with_({"seed": None})  # type: ignore[dict-item]


def test_every_ready_made_scenario_has_a_title() -> None:
    titles = ready_made()
    assert titles["k-mix"]
    assert all(titles.values())


#: Given as a list: Hypothesis takes seconds to find out which characters Unicode has.
CHARACTERS = string.printable + "äß\x00\x7f\u2028😀"
TEXTS = st.text(CHARACTERS, max_size=30)
VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(st.text(string.ascii_lowercase, max_size=8), children, max_size=3)
    ),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        "seed",
        "duration_s",
        "traffic.0.count",
        "traffic.+",
        "radio",
        "radio.capture",
        "control.kind",
        "",
        "a.b",
        "=",
        "traffic.9.to",
    ]
)


@settings(max_examples=40, deadline=None)
@given(key=KEYS | TEXTS, value=VALUES)
def test_any_change_gives_a_scenario_or_a_scenario_error(key: str, value: object) -> None:
    try:
        Scenario.ready("k-mix").with_({key: value})  # type: ignore[dict-item]
    except ScenarioError as error:
        assert str(error) and error.problems


@settings(max_examples=40, deadline=None)
@given(text=st.text(CHARACTERS, max_size=200))
def test_any_text_gives_a_scenario_or_a_scenario_error(text: str) -> None:
    with pytest.raises(ScenarioError):
        Scenario.from_toml(text)

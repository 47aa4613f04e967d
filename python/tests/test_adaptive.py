"""The study of adaptive control: cells against their oracle, runs that are kept, worlds that are always the same."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from fairhop.__main__ import main
from fairhop.studies.adaptive import grid, long_runs, picture, spots
from fairhop.studies.adaptive.grid_command import REGION_SEEDS
from fairhop.studies.adaptive.worlds import SPLITS, drawn
from fairhop.studies.adaptive.worlds_runs import stuck_s, weighted

#: Two cells that run for a moment: one hop, no calls.
TINY = ("--only", "hops=1,calls=0,flows=1,delay=10,tcp=reno,tcp=cubic", "--controls", "adaptive,none")


def study(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Runs `fairhop study adaptive` in a folder; the exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["study", "adaptive", *arguments])
    return code, out.getvalue(), err.getvalue()


# ---- the commands ---------------------------------------------------------------------------------------------------


def test_cells_are_judged_against_their_oracle_and_nothing_is_run_twice(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- down: begin -->\nold\n\n<!-- down: end -->\nb\n", encoding="utf-8")
    code, out, err = study(tmp_path, *TINY, "--page", "page.md", "--golden", "golden.jsonl")
    assert code == 0, err
    assert out.startswith("2 cells; a fixed setting makes calls good in 2, and only these are judged.\n")
    assert page.read_text(encoding="utf-8") == f"a\n<!-- down: begin -->\n{out.strip()}\n\n<!-- down: end -->\nb\n"
    best = [json.loads(line) for line in (tmp_path / "golden.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {cell["cell"].split()[4] for cell in best} == {"tcp=reno", "tcp=cubic"}
    (table,) = (tmp_path / "out/study/adaptive").glob("grid-down-*.csv")
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["tcp"], row["control"]) for row in rows] == [
        (tcp, control) for tcp in ("cubic", "reno") for control in ("adaptive", "none")
    ]
    # Without calls nothing has to be limited, and the best fixed setting is about as good as none.
    assert all(float(row["goodput_mbps"]) > 0.9 * float(row["oracle_goodput_mbps"]) for row in rows)
    html = table.with_suffix(".html").read_text(encoding="utf-8")
    assert html.count("<table>") == sum(line.startswith("| ---") for line in out.splitlines())
    kept = (tmp_path / "out/study/adaptive/grid/runs.jsonl").read_text(encoding="utf-8")
    assert study(tmp_path, *TINY)[:2] == (0, out)
    assert (tmp_path / "out/study/adaptive/grid/runs.jsonl").read_text(encoding="utf-8") == kept


def test_an_interrupted_study_goes_on(tmp_path: Path) -> None:
    words = ["study", "adaptive", "--cells", "3", "--controls", "adaptive", "--threads", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fairhop", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    runs = tmp_path / "out/study/adaptive/grid/runs.jsonl"
    patience = time.monotonic() + 60
    while not (runs.exists() and runs.stat().st_size) and time.monotonic() < patience:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    kept = len(runs.read_text(encoding="utf-8").splitlines())
    assert kept >= 1
    assert f"{kept} runs were made and kept; to go on: fairhop {' '.join(words)}" in err


def test_wrong_arguments_are_answered_with_a_fix(tmp_path: Path) -> None:
    for words, answer in (
        (("--only", "hops=9"), "none of 1080 cells is hops=9"),
        (("--only", "hop=1"), "no axis is called hop; there are hops, calls"),
        (("--controls", "cack"), "no control is called cack"),
        (("--page", "absent.md", "--full"), "absent.md: No such file"),
        (("--program", "absent"), "absent is no program"),
        (("worlds", "--class", "shape cube"), "none of 100 worlds"),
        (("sensitivity",), "help: fairhop study adaptive worlds --split validation --count 60"),
    ):
        code, out, err = study(tmp_path, *words)
        assert (code, out) == (1, "")
        assert answer in err


def test_the_help_names_the_other_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for words, expected in (
        ((), "worlds --help"),
        (("worlds",), "--only-adaptive"),
        (("long",), "--minutes"),
        (("sensitivity",), "--variants"),
    ):
        with pytest.raises(SystemExit, match="0"):
            main(["study", "adaptive", *words, "--help"])
        assert expected in capsys.readouterr().out


def test_worlds_are_listed_without_a_run(tmp_path: Path) -> None:
    code, out, _ = study(tmp_path, "worlds", "--split", "test", "--first", "3", "--count", "2", "--list")
    assert (code, [line.split(":")[0] for line in out.splitlines()]) == (0, ["test-3", "test-4"])
    assert not list(tmp_path.iterdir())


def test_long_runs_are_kept_and_compared_by_parts(tmp_path: Path) -> None:
    words = ("long", "--count", "2", "--minutes", "1")
    code, out, _ = study(tmp_path, *words)
    rows = [line for line in out.splitlines() if line[:3] in {f"| {part}" for part in range(1, 7)}]
    assert (code, len(rows)) == (0, 6)
    assert rows[1].split("|")[4].strip() == "1.000"
    file = tmp_path / "out/study/adaptive/worlds/long.jsonl"
    kept = file.read_text(encoding="utf-8")
    assert study(tmp_path, *words)[:2] == (0, out)
    assert file.read_text(encoding="utf-8") == kept

    parts = long_runs.Parts([1.0, 0.98, 0.98, 0.98, 0.98, 0.94], [1.0, 1.0, 1.0, 1.0, 1.0, 0.85], [39.0] * 6)
    assert parts.worse() is None
    assert not parts.is_high(0)
    falls = replace(parts, clear=[None, 0.98, 0.98, 0.98, 0.98, 0.92], data=[1.0, 1.0, 1.0, 1.0, 1.0, 0.7])
    assert falls.worse() == "clear 0.98, then 0.92; data 1.00, then 0.70 Mb/s"
    assert replace(parts, budget=[39.0, 41.0] * 3).is_high(1)


# ---- the grid -------------------------------------------------------------------------------------------------------


def test_the_first_cells_are_the_same_in_every_version() -> None:
    cells = grid.whole_grid("down")
    assert len(cells) == len(set(cells)) == 1080
    assert [cell.name() for cell in cells[:2]] == [
        "hops=6 calls=6 flows=30 delay=150 tcp=reno direction=down",
        "hops=3 calls=3 flows=30 delay=150 tcp=bbr direction=down",
    ]


def test_a_point_of_the_picture_has_the_interval_of_its_seeds() -> None:
    point = picture.Point(1, tuple(map(float, range(len(REGION_SEEDS)))), good=True)
    assert point.mean == 2.0
    assert point.half == pytest.approx(2.776 * 2.5**0.5 / 5**0.5)


# ---- drawn worlds ---------------------------------------------------------------------------------------------------


def test_a_world_is_the_same_every_time_and_another_in_each_split() -> None:
    for number in range(5):
        texts = [drawn(split, number).text() for split in SPLITS]
        assert texts == [drawn(split, number).text() for split in SPLITS]
        assert len(set(texts)) == len(SPLITS)


def test_the_file_of_a_world_is_its_scenario() -> None:
    for number in range(20):
        world = drawn("train", number)
        read = tomllib.loads(world.text())
        for key in ("topology", "traffic", "mac"):
            assert read[key] == world.scenario[key]


def test_traffic_begins_before_the_end_and_at_nodes_that_exist() -> None:
    for number in range(100):
        world = drawn("train", number)
        nodes = len(world.scenario["topology"]["nodes"])
        for entry in world.scenario["traffic"]:
            assert entry.get("start_s", 0) < world.scenario["duration_s"]
            for end in (entry["from"], entry["to"]):
                assert end in {"internet", "server", "gateway"} or 0 <= end < nodes


def test_most_classes_occur_in_a_hundred_worlds() -> None:
    labels = {label for number in range(100) for label in drawn("train", number).labels}
    assert labels >= {
        "receiver linux", "radio sinr", "shape mesh", "moving node", "failing node", "changing rate"
    }  # fmt: skip


def test_hops_are_those_of_a_string() -> None:
    places = spots.in_range(spots.string(4, 200), 250)
    assert places.hops() == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4}
    assert places.path(3) == [0, 1, 2, 3]
    assert len(places.hops(without=2)) == 2


def test_a_mesh_keeps_its_distances() -> None:
    places = spots.in_range(spots.mesh(30, 200, random.Random(1)), 250)
    assert len(places.hops()) == 30


def test_the_margin_of_a_link_falls_with_distance() -> None:
    log = spots.Log(3.0, 40.0, 0.0, 16.0)
    places = spots.in_shadow(spots.string(2, 10), log, -79.0, random.Random(1))
    assert places.margin[0, 1] == pytest.approx(16 - 40 - 30 + 79)
    assert places.margin[0, 1] > places.margin[0, 2]
    assert log.distance(16 - 70) == pytest.approx(10.0)


def test_waiting_under_an_unused_budget_counts_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    rows = [(1, 0, "the budget is not used"), (2, 3, "the budget is not used"), (9, 1, "the budget is not used")]
    rows += [(10, 4, "calls have room"), (11, 4, "the budget is not used")]
    trace = tmp_path / "control.csv"
    lines = ["t_s,pacer_packets,reason", *(f"{at},{packets},{reason}" for at, packets, reason in rows)]
    trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert stuck_s(trace) == 7.0


def test_a_mean_is_weighted() -> None:
    assert weighted([(1, 2.0), (3, 6.0)]) == 5.0

"""Sweeps: what is kept is not run again, and nothing that happens to a sweep loses or corrupts a run."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fairhop
import polars as pl
import pytest
from fairhop import Dataset, ScenarioError, sweep

PLAN: dict[str, Any] = {
    "scenario": "k-mix",
    "seeds": 2,
    "set": {"duration_s": 3, "warmup_s": 1},
    "vary": {"traffic.0.count": [1, 3], "radio.capture": ["none", "first"]},
}
PROGRAM = Path(sys.executable).with_name("fairhop")


def files(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by their paths."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def write(folder: Path, plan: dict[str, Any]) -> Path:
    """The plan as a file."""
    path = folder / "plan.toml"
    path.write_text("".join(f"{key} = {fairhop.toml_of(value)}\n" for key, value in plan.items()), encoding="utf-8")
    return path


def program(*arguments: str | Path, before: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the program of the wheel; `before` runs in its process first."""
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, preexec_fn=before)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The runs of the plan, which tests only read."""
    return sweep(PLAN, into=tmp_path_factory.mktemp("kept"))


def test_a_sweep_keeps_every_run_with_its_keys(tmp_path: Path) -> None:
    seen: list[tuple[int, int, int, float | None]] = []
    kept = sweep(PLAN, into=tmp_path / "runs", progress=lambda *now: seen.append(now))
    runs = kept.runs
    assert runs.height == 8
    assert runs["key"].n_unique() == 8
    assert set(runs.select("traffic.0.count", "radio.capture", "seed").unique().rows()) == {
        (count, capture, seed) for count in (1, 3) for capture in ("none", "first") for seed in (1, 2)
    }
    assert kept.tables == ["flows", "runs"]
    assert set(kept.table("flows")["key"]) == set(runs["key"])
    assert seen[-1][:3] == (8, 8, 8)
    scenario = fairhop.Scenario.ready("k-mix").with_(
        {**PLAN["set"], "traffic.0.count": 3, "radio.capture": "none", "seed": 2}
    )
    row = runs.filter((pl.col("seed") == 2) & (pl.col("traffic.0.count") == 3) & (pl.col("radio.capture") == "none"))
    totals = fairhop.run(scenario).totals
    assert {name: row[name][0] for name in totals} == totals


def test_what_is_kept_is_not_run_again_and_other_settings_are(tmp_path: Path) -> None:
    path, runs = write(tmp_path, PLAN), tmp_path / "plan.runs"
    first = json.loads(program("sweep", path, "--json").stdout)
    before = files(runs)
    second = json.loads(program("sweep", path, "--json").stdout)
    assert (first["made"], second["made"], second["done"]) == (8, 0, 8)
    assert files(runs) == before
    assert first["points"] == second["points"]
    more = write(tmp_path, {**PLAN, "seeds": 3})
    third = json.loads(program("sweep", more, "--json").stdout)
    assert (third["made"], third["total"]) == (4, 12)


def test_the_python_package_and_the_program_keep_the_same_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, PLAN)
    assert program("sweep", path, "--into", tmp_path / "a").returncode == 0
    sweep(path, into=tmp_path / "b", threads=1)
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_the_stop_rule_adds_seeds_until_the_interval_is_narrow_enough(tmp_path: Path) -> None:
    stop = {"figure": "tcp_goodput_mbps", "ci95": 0.1, "max_seeds": 8}
    kept = sweep({**PLAN, "vary": {"traffic.0.count": [1]}, "stop": stop}, into=tmp_path / "runs")
    figure = kept.figure("traffic.0.count", "tcp_goodput_mbps")
    assert figure["runs"][0] == 8 or figure["ci95"][0] <= 0.1
    assert figure["runs"][0] >= 2
    narrow = sweep({**PLAN, "vary": {"traffic.0.count": [1]}, "stop": {**stop, "ci95": 1e-9}}, into=tmp_path / "narrow")
    assert narrow.runs.height == 8


def test_a_kill_at_any_time_loses_no_kept_run_and_corrupts_none(tmp_path: Path) -> None:
    plan = {**PLAN, "seeds": 20}
    path, runs = write(tmp_path, plan), tmp_path / "killed"
    for attempt in range(3):
        child = subprocess.Popen(
            [PROGRAM, "sweep", path, "--into", runs], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 20
        while (
            child.poll() is None and len(list(runs.glob("runs/*"))) < 6 * (attempt + 1) and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        child.kill()
        child.wait()
    survived = files(runs / "runs")
    for name in survived:
        assert pl.read_parquet(runs / "runs" / name).height == 1, "a kept run is complete"
        assert (runs / "flows" / name).exists(), "with its tables"
    assert len(survived) >= 6
    assert program("sweep", path, "--into", runs).returncode == 0
    assert {name: content for name, content in files(runs / "runs").items() if name in survived} == survived
    assert program("sweep", path, "--into", tmp_path / "whole").returncode == 0
    assert files(runs) == files(tmp_path / "whole"), "as if nothing had happened, and nothing is left over"


def test_two_sweeps_at_once_share_the_work_and_keep_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, {**PLAN, "seeds": 10})
    command: list[str | Path] = [PROGRAM, "sweep", path, "--into", tmp_path / "shared", "--threads", "1", "--json"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    made = [json.loads(child.communicate()[0])["made"] for child in both]
    assert [child.returncode for child in both] == [0, 0]
    assert sum(made) >= 40 and min(made) < 40
    assert program("sweep", path, "--into", tmp_path / "alone").returncode == 0
    assert files(tmp_path / "shared") == files(tmp_path / "alone")


def test_a_full_disk_ends_a_sweep_with_its_reason_and_harms_no_kept_run(tmp_path: Path) -> None:
    path, runs = write(tmp_path, PLAN), tmp_path / "runs"

    def no_large_files() -> None:
        # Files of flows are larger than 2 kB: writing them fails, as on a full disk.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    full = program("sweep", path, "--into", runs, before=no_large_files)
    assert full.returncode == 1
    assert "cannot write" in full.stderr and "the runs so far are kept" in full.stderr
    assert files(runs / "runs") == {}
    assert list((runs / ".unfinished").iterdir()) == []
    assert program("sweep", path, "--into", runs).returncode == 0
    assert Dataset(runs).runs.height == 8


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_file_system_keeps_what_fits_and_the_sweep_goes_on_with_more_space(tmp_path: Path) -> None:
    path, disk = write(tmp_path, {**PLAN, "seeds": 10}), tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mounting a small file system is refused here: {mounted.stderr.strip()}")
    try:
        full = program("sweep", path, "--into", disk / "runs")
        assert full.returncode == 1
        assert "No space left" in full.stderr and "free some space" in full.stderr
        survived = files(disk / "runs" / "runs")
        assert 0 < len(survived) < 40
        assert Dataset(disk / "runs").table("runs").height == len(survived), "every kept run is complete"
        subprocess.run(["mount", "-o", "remount,size=16m", disk], check=True)
        again = json.loads(program("sweep", path, "--into", disk / "runs", "--json").stdout)
        assert again["made"] == 40 - len(survived)
        assert program("sweep", path, "--into", tmp_path / "whole").returncode == 0
        assert files(disk / "runs") == files(tmp_path / "whole")
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_search_is_judged_on_seeds_of_its_own_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    plan = {
        "scenario": "k-mix",
        "seeds": 5,
        "set": {"duration_s": 6, "warmup_s": 1, "control.kind": "data-pacing"},
        "vary": {"traffic.0.count": [1, 2]},
        "search": {
            "vary": {"control.rate_kbps": {"from": 100, "to": 1300, "step": 200}},
            "most": "tcp_goodput_mbps",
            "where": {"calls_clear": {"min": 0.95}},
            "seeds": 8,
        },
    }
    path, runs = write(tmp_path, plan), tmp_path / "killed"
    child = subprocess.Popen(
        [PROGRAM, "sweep", path, "--into", runs], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while len(list(runs.glob("runs/*"))) < 20 and child.poll() is None:
        time.sleep(0.01)
    child.kill()
    child.wait()
    survived = len(files(runs / "runs"))
    printed = json.loads(program("sweep", path, "--into", runs, "--json").stdout)
    whole = sweep(plan, into=tmp_path / "whole")
    assert printed["search"] == whole.found and printed["made"] == printed["done"] - survived
    assert files(runs / "runs") == files(tmp_path / "whole" / "runs")
    assert whole.found is not None
    assert whole.found["seeds"] == {"judge": [1, 2, 3, 4, 5], "search": [6, 7, 8, 9, 10, 11, 12, 13]}
    for found in whole.found["found"]:
        best = found["best"]
        judged = whole.runs.filter(
            (pl.col("part") == "judge")
            & (pl.col("traffic.0.count") == found["keys"]["traffic.0.count"])
            & (pl.col("control.rate_kbps") == best["value"])
        )
        assert judged["seed"].sort().to_list() == [1, 2, 3, 4, 5]
        assert best["figure"]["mean"] == pytest.approx(judged["tcp_goodput_mbps"].mean())
        assert best["conditions"]["calls_clear"]["mean"] == pytest.approx(judged["calls_clear"].mean())
    one, two = (found["best"]["figure"]["mean"] for found in whole.found["found"])
    assert one != two, "each point has a search of its own"
    text = program("sweep", path, "--into", runs).stdout
    assert "(best)" in text and "which had no part in the search" in text


def test_a_search_says_that_no_value_meets_its_condition_and_that_the_best_is_at_an_end(tmp_path: Path) -> None:
    plan = {
        "scenario": "k-mix",
        "seeds": 3,
        "set": {"duration_s": 4, "warmup_s": 1, "control.kind": "data-pacing"},
        "search": {
            "vary": {"control.rate_kbps": [100, 200]},
            "most": "tcp_goodput_mbps",
            "where": {"mos_min": {"min": 4.9}},
            "seeds": 4,
        },
    }
    impossible = program("sweep", write(tmp_path, plan)).stdout
    assert "No value meets the conditions." in impossible and "comes closest" in impossible
    plan["search"] = {key: value for key, value in plan["search"].items() if key != "where"}
    last = " ".join(program("sweep", write(tmp_path, plan)).stdout.split())
    assert "control.rate_kbps = 200 is best. It is the last of the values: there may be better ones beyond" in last


def test_ctrl_c_ends_a_sweep_and_it_goes_on_later(tmp_path: Path) -> None:
    path, runs = write(tmp_path, {**PLAN, "seeds": 20}), tmp_path / "plan.runs"
    child = subprocess.Popen([PROGRAM, "sweep", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while len(list(runs.glob("runs/*"))) < 4 and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=20)
    assert child.returncode == 130
    assert "are missing: start the sweep again" in said
    assert json.loads(program("sweep", path, "--json").stdout)["made"] < 80


def test_kept_runs_answer_queries(tmp_path: Path, kept: Dataset) -> None:
    sql = 'select "traffic.0.count" as calls, count(*) as n, avg(mos_mean) as mos from runs group by all order by all'
    answer = kept.query(sql)
    assert answer.columns == ["calls", "n", "mos"]
    assert answer["n"].to_list() == [4, 4]
    joined = kept.query("select count(*) as n from runs join flows using (key)")
    assert joined["n"][0] == kept.table("flows").height
    printed = program("query", kept.folder, "select count(*) as n from runs", "--format", "csv")
    assert (printed.stdout, printed.returncode) == ("n\n8\n", 0)
    wrong = program("query", kept.folder, "select nothing from nowhere")
    assert wrong.returncode == 1 and "nowhere" in wrong.stderr and "Traceback" not in wrong.stderr
    missing = program("query", tmp_path / "nothing", "select 1")
    assert missing.returncode == 1 and "has no runs" in missing.stderr


def test_kept_runs_are_drawn_with_bands(tmp_path: Path, kept: Dataset) -> None:
    options = ["--x", "traffic.0.count", "--y", "mos_mean", "--color", "radio.capture"]
    pictures = []
    for name in ("a.svg", "b.svg"):
        done = program("plot", kept.folder, *options, "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
        pictures.append((tmp_path / name).read_text(encoding="utf-8"))
    assert pictures[0] == pictures[1], "equal runs give equal pictures"
    assert "<svg" in pictures[0] and "FillBetweenPolyCollection" in pictures[0]
    again = program("plot", kept.folder, *options, "--out", tmp_path / "a.svg")
    assert again.returncode == 1 and "never overwritten" in again.stderr
    unknown = program("plot", kept.folder, "--x", "nothing", "--y", "mos_mean")
    assert unknown.returncode == 1 and "there is no column 'nothing'" in unknown.stderr


def test_the_program_says_which_package_is_missing(tmp_path: Path) -> None:
    copy = tmp_path / "fairhop"
    copy.symlink_to(PROGRAM)
    # A folder with a Python that does not have the package.
    bare = tmp_path / "python3"
    bare.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    bare.chmod(0o755)
    copy.unlink()
    os.link(PROGRAM, copy)
    done = subprocess.run([copy, "query", "x", "select 1"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "needs the Python package fairhop" in done.stderr and "pip install 'fairhop[studies]'" in done.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scenario": "k-mux"}, "did you mean k-mix"),
        ({"vary": {"seed": 3}}, "put it under [set]"),
        ({"vary": {"traffic.0.cuont": [1]}}, "unknown key `cuont`"),
        ({"seeds": 0}, "seeds"),
        ({"sceds": 1}, "unknown key `sceds`"),
        ({"stop": {"figure": "mos", "ci95": 0.1, "max_seeds": 9}}, "there is no figure `mos`"),
    ],
)
def test_wrong_plans_are_errors_with_their_reason(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises((ScenarioError, FileNotFoundError)) as caught:
        sweep({**PLAN, **change}, into=tmp_path / "runs")
    assert message in str(caught.value)
    assert not (tmp_path / "runs").exists()
    printed = program("sweep", write(tmp_path, {**PLAN, **change}))
    assert printed.returncode == 1 and message in printed.stderr

"""Runs: the figures of the program, tables without a copy, interruption."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import fairhop
import polars as pl
import pytest
from fairhop import Scenario, ScenarioError, run

MIX = Scenario.ready("k-mix").with_({"duration_s": 6, "warmup_s": 1})
SET = ["--set", "duration_s=6", "--set", "warmup_s=1"]
#: Two thousand seconds: far longer than a test.
LONG = MIX.with_({"duration_s": 2000})


def program(*arguments: str) -> str:
    """What the program of the wheel prints."""
    path = Path(sys.executable).with_name("fairhop")
    return subprocess.run([path, *arguments], check=True, capture_output=True, text=True).stdout


def test_each_public_name_is_found_when_it_is_first_used() -> None:
    names = "\n".join(f"fairhop.{name}" for name in fairhop.__all__)
    subprocess.run([sys.executable, "-c", f"import fairhop\n{names}"], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fairhop.nothing


def test_the_summary_is_what_the_program_prints() -> None:
    printed = json.loads(program("run", "k-mix", *SET, "--seeds", "3", "--json"))
    result = run(MIX, seeds=3)
    summary = result.summary()
    del printed["wall_s"]
    assert summary == printed
    assert (result.seeds, result.partial) == ([1, 2, 3], [])
    assert result.calls.height == 5
    assert set(result.flows["kind"]) == {"bulk"}


def test_the_tables_are_those_that_the_program_writes(tmp_path: Path) -> None:
    program("run", "k-mix", *SET, "--seeds", "2", "--out", str(tmp_path / "out"))
    result = run(MIX, seeds=2)
    assert set(result.tables) == {path.stem for path in (tmp_path / "out").glob("*.parquet")}
    for name, frame in result.tables.items():
        written = pl.read_parquet(tmp_path / "out" / f"{name}.parquet")
        assert frame.equals(written), name
        assert set(result.tables.about(name)) == set(frame.columns)
    assert result.tables["flow_series"].height > 100


def test_frames_share_the_memory_of_the_simulator() -> None:
    table = run(MIX).tables.arrow("flow_series")
    first, second = pl.DataFrame(table), pl.DataFrame(table)
    for column in ("t_s", "flow", "goodput_mbps"):
        arrays = [frame[column].to_numpy(allow_copy=False) for frame in (first, second)]
        addresses = {array.__array_interface__["data"][0] for array in arrays}
        assert len(addresses) == 1, f"{column} was copied"


def test_frames_outlive_their_result() -> None:
    frame = run(MIX).tables["flow_series"]
    assert frame["name"].n_unique() == 8
    assert frame["mos"].is_null().any()


def test_threads_do_not_affect_results_and_seeds_can_be_listed() -> None:
    one, two = run(MIX, seeds=[4, 2], threads=1), run(MIX, seeds=[4, 2], threads=2)
    assert one.summary() == two.summary()
    assert one.seeds == [4, 2]


def test_a_result_shows_itself_in_a_notebook() -> None:
    result = run(MIX, seeds=2)
    page = result._repr_html_()
    assert "<svg" in page and "four hops: 2 seeds" in page and "mos_mean" in page
    assert "calls_ok" in repr(result)


def test_networks_that_cannot_be_built_are_scenario_errors() -> None:
    apart = MIX.with_({"topology.spacing_m": 900})
    with pytest.raises(ScenarioError, match="no route"):
        run(apart)
    with pytest.raises(ValueError, match="at least 1"):
        run(MIX, seeds=0)


def test_other_threads_work_while_a_run_computes() -> None:
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.wait(0.005):
            ticks += 1

    counter = threading.Thread(target=count)
    counter.start()
    result = run(MIX.with_({"duration_s": 30}), seeds=2)
    done.set()
    counter.join()
    assert ticks >= min(5, result.wall_s / 0.1)


def test_progress_is_reported_and_its_exception_ends_the_run() -> None:
    seen: list[tuple[float, float]] = []

    def stop(simulated_s: float, total_s: float) -> None:
        seen.append((simulated_s, total_s))
        if simulated_s > 2:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        run(LONG, seeds=2, progress=stop)
    assert seen[-1][1] == 4000.0


def test_ctrl_c_ends_a_run_and_keeps_what_was_measured() -> None:
    script = """
import fairhop
scenario = fairhop.Scenario.ready("k-mix").with_({"duration_s": 2000, "warmup_s": 0.1})
started = False
def report(simulated, total):
    global started
    if simulated > 1 and not started:
        started = True
        print("running", flush=True)
try:
    fairhop.run(scenario, progress=report)
except KeyboardInterrupt as interrupt:
    result = interrupt.result
    print(type(interrupt).__name__, result.partial, result.summary()["sim_s"] > 1)
"""
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "running\n"
    child.send_signal(signal.SIGINT)
    began = time.monotonic()
    out, _ = child.communicate(timeout=20)
    assert (out, child.returncode) == ("Interrupted [1] True\n", 0)
    assert time.monotonic() - began < 10


def test_the_version_is_that_of_the_program() -> None:
    assert program("--version") == f"fairhop {fairhop.__version__}\n"


def test_a_table_of_a_million_rows_reaches_polars_without_a_copy() -> None:
    scenario = Scenario.from_toml(
        """
        name = "many rows"
        duration_s = 50
        record = { interval_s = 0.01 }
        topology = { kind = "string", hops = 1, spacing_m = 100 }
        traffic = [{ kind = "cbr", from = 0, to = 1, rate_kbps = 0.1, payload_bytes = 100, count = 200 }]
        """
    )
    tables = run(scenario).tables
    before = resident_mb()
    frame = tables["flow_series"]
    grown = resident_mb() - before
    assert frame.height >= 990_000
    assert grown < 0.2 * frame.estimated_size("mb")


def resident_mb() -> float:
    """The memory of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * resource.getpagesize() / 1e6

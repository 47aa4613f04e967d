"""Sweeps on a Dask cluster, with a real scheduler and worker processes on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from distributed import Client
from fairhop import sweep
from test_sweep import PLAN, PROGRAM, files, program, write

#: Enough runs that some are in progress while the test acts; a run takes some 20 ms.
MANY: dict[str, Any] = {**PLAN, "seeds": 40, "set": {"duration_s": 24, "warmup_s": 1}}


def spawn(*words: str | Path, folder: Path) -> subprocess.Popen[bytes]:
    """A process of Dask, in its own folder: workers share no relative path with the sweep."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{words[0]}", "--no-dashboard", *words[1:]]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def until(holds: Callable[[], bool], *, seconds: float = 20.0) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


class Cluster:
    """A scheduler, and workers with one thread each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        file = folder / "scheduler.json"
        self.processes = [
            spawn("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", file, folder=folder)
        ]
        until(lambda: file.exists() and file.read_text(encoding="utf-8").endswith("}"))
        self.address: str = json.loads(file.read_text(encoding="utf-8"))["address"]
        self.client = Client(self.address, set_as_default=False)

    def count(self) -> int:
        """The number of workers."""
        return len(self.client.nthreads())

    def start_worker(self, *options: str | Path) -> subprocess.Popen[bytes]:
        """Starts a worker, and waits until the scheduler knows it."""
        before = self.count()
        words = [self.address, "--nthreads", "1", "--no-nanny", "--local-directory", self.folder, *options]
        worker = spawn("worker", *words, folder=self.folder)
        self.processes.append(worker)
        until(lambda: self.count() == before + 1)
        return worker

    @contextmanager
    def worker(self, *options: str | Path) -> Iterator[subprocess.Popen[bytes]]:
        """A worker for a while."""
        before = self.count()
        worker = self.start_worker(*options)
        try:
            yield worker
        finally:
            worker.kill()
            worker.wait()
            until(lambda: self.count() == before)

    def close(self) -> None:
        """Ends all processes."""
        self.client.close()
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of two workers."""
    cluster = Cluster(tmp_path_factory.mktemp("dask"))
    try:
        for _ in range(2):
            cluster.start_worker()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of `MANY`, made on this machine."""
    folder = tmp_path_factory.mktemp("local")
    assert program("sweep", write(folder, MANY), "--into", folder / "runs").returncode == 0
    return files(folder / "runs")


def begin(path: Path, runs: Path, cluster: Cluster) -> subprocess.Popen[str]:
    """A sweep on the cluster, of which some runs are kept and others are not."""
    command: list[str | Path] = [PROGRAM, "sweep", path, "--into", runs, "--cluster", cluster.address, "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: len(list(runs.glob("runs/*"))) >= 8)
    assert child.poll() is None
    return child


@pytest.mark.parametrize(
    "plan",
    [
        {**PLAN, "tables": ["flows", "nodes"]},
        {
            **PLAN,
            "vary": {"traffic.0.count": [1]},
            "stop": {"figure": "tcp_goodput_mbps", "ci95": 1e-9, "max_seeds": 5},
        },
        {
            **PLAN,
            "set": {**PLAN["set"], "control.kind": "window"},
            "vary": {},
            "search": {
                "vary": {"control.window_packets": {"from": 1, "to": 9, "step": 4}},
                "least": "mos_mean",
                "seeds": 4,
            },
        },
    ],
    ids=["grid", "stop rule", "search"],
)
def test_a_cluster_keeps_the_same_bytes_as_this_machine(tmp_path: Path, cluster: Cluster, plan: dict[str, Any]) -> None:
    here = sweep(plan, into=tmp_path / "here")
    seen: list[int] = []
    there = sweep(plan, into=tmp_path / "there", cluster=cluster.address, progress=lambda done, *_: seen.append(done))
    assert files(tmp_path / "here") == files(tmp_path / "there")
    assert here.found == there.found
    assert seen[-1] == len(list((tmp_path / "there" / "runs").iterdir()))


def test_the_jobs_of_a_killed_worker_are_made_by_others(
    tmp_path: Path, cluster: Cluster, local: dict[str, bytes]
) -> None:
    with cluster.worker() as worker:
        child = begin(write(tmp_path, MANY), tmp_path / "runs", cluster)
        worker.kill()
        printed, said = child.communicate(timeout=60)
    assert child.returncode == 0, said
    assert json.loads(printed)["made"] == 160
    assert files(tmp_path / "runs") == local


def test_a_killed_sweep_leaves_complete_runs_and_an_idle_cluster(
    tmp_path: Path, cluster: Cluster, local: dict[str, bytes]
) -> None:
    path, runs = write(tmp_path, MANY), tmp_path / "runs"
    child = begin(path, runs, cluster)
    child.kill()
    child.communicate()
    survived = files(runs / "runs")
    for name in survived:
        assert pl.read_parquet(runs / "runs" / name).height == 1, "a kept run is complete"
    until(lambda: not any(cluster.client.processing().values()))
    assert program("sweep", path, "--into", runs, "--cluster", cluster.address).returncode == 0
    assert files(runs) == local, "as if nothing had happened, and nothing is left over"
    assert {name: local[f"runs/{name}"] for name in survived} == survived


def test_ctrl_c_cancels_the_jobs(tmp_path: Path, cluster: Cluster) -> None:
    path, runs = write(tmp_path, MANY), tmp_path / "runs"
    # A group of its own, which gets SIGINT as a whole, as from a terminal.
    command: list[str | Path] = [PROGRAM, "sweep", path, "--into", runs, "--cluster", cluster.address]
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until(lambda: len(list(runs.glob("runs/*"))) >= 8)
    os.killpg(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=20)
    assert child.returncode == 130
    assert "are missing: start the sweep again" in said and "Traceback" not in said
    until(lambda: not any(cluster.client.processing().values()))
    assert json.loads(program("sweep", path, "--into", runs, "--json").stdout)["made"] < 160


def test_a_sweep_here_and_one_on_the_cluster_share_the_work(
    tmp_path: Path, cluster: Cluster, local: dict[str, bytes]
) -> None:
    path, runs = write(tmp_path, MANY), tmp_path / "runs"
    child = begin(path, runs, cluster)
    here = json.loads(program("sweep", path, "--into", runs, "--json", "--threads", "1").stdout)
    there = json.loads(child.communicate(timeout=60)[0])
    assert here["done"] == there["done"] == 160
    assert here["made"] < 160 and there["made"] < 160 <= here["made"] + there["made"]
    assert files(runs) == local


def test_a_cluster_that_cannot_make_the_runs_is_an_error_with_its_fix(tmp_path: Path, cluster: Cluster) -> None:
    path = write(tmp_path, PLAN)

    def start(address: str, **environment: str) -> subprocess.Popen[str]:
        command: list[str | Path] = [PROGRAM, "sweep", path, "--cluster", address]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})

    def error(child: subprocess.Popen[str]) -> str:
        _, said = child.communicate(timeout=60)
        assert child.returncode == 1 and "Traceback" not in said, said
        return " ".join(said.replace("│", "").split())

    # Both wait some seconds for an answer.
    silent = start("tcp://127.0.0.1:9")
    lonely = Cluster(tmp_path)
    idle = start(lonely.address)

    missing = tmp_path / "missing"
    missing.mkdir()
    (missing / "distributed.py").write_text("raise ImportError\n", encoding="utf-8")
    assert "pip install 'fairhop[cluster]'" in error(start(cluster.address, PYTHONPATH=str(missing)))

    other = tmp_path / "other.py"
    other.write_text(
        "import types, fairhop.cluster\nfairhop.cluster._native = types.SimpleNamespace(engine=lambda: 'another')\n",
        encoding="utf-8",
    )
    with cluster.worker("--preload", other):
        said = error(start(cluster.address))
        assert "has another engine than this fairhop (another, here" in said
        assert "install the same version of fairhop on every worker" in said
        with pytest.raises(ConnectionError, match=r"(?s)has another engine.*help: install the same version"):
            sweep(PLAN, into=tmp_path / "runs", cluster=cluster.address)

    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in error(silent)
    said = error(idle)
    assert "has no workers" in said and f"dask worker {lonely.address}" in said
    lonely.close()
    assert not (tmp_path / "plan.runs").exists() and not (tmp_path / "runs").exists()


def test_a_scheduler_that_ends_ends_the_sweep_with_its_reason(tmp_path: Path) -> None:
    short = Cluster(tmp_path)
    try:
        short.start_worker()
        child = begin(write(tmp_path, MANY), tmp_path / "runs", short)
        short.processes[0].kill()
        _, said = child.communicate(timeout=60)
        assert child.returncode == 1
        assert "is lost" in said and "the runs so far are kept" in said and "Traceback" not in said
    finally:
        short.close()

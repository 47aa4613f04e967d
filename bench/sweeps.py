"""How much faster two workers make a sweep, and what a sweep costs beside its runs.

    python3 bench/sweeps.py --program target/release/fairhop
    python3 bench/sweeps.py --program BIN/fairhop --cluster    BIN is of an environment with fairhop[cluster]

Each round makes the same runs of K-MIX (200 by default) with one worker and with two, in turn, so that other load
affects both. It also prints the processor time, with that of the cluster: on a busy machine wall time says nothing
about the sweep, and the processor times still say whether two workers do more work for the same runs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

#: Runs, and 2000 of which little more than the overhead is left.
LONG = 'scenario = "k-mix"\nseeds = {runs}\n'
SHORT = 'scenario = "k-mix"\nseeds = 2000\n[set]\nduration_s = 0.05\nwarmup_s = 0\n'


@dataclass(frozen=True)
class Cost:
    """What a sweep took, in seconds."""

    wall: float
    #: Processor time of the sweep and its children, and of the cluster.
    cpu: float


@dataclass(frozen=True)
class Cluster:
    """A scheduler, and its workers."""

    address: str
    processes: list[subprocess.Popen[bytes]]

    def cpu(self) -> float:
        """Processor time so far, in seconds."""
        ticks = 0
        for process in self.processes:
            # User and system time are the 14th and 15th field; the second one, in brackets, may hold spaces.
            fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def sweep(program: Path, plan: str, *options: str, on: Cluster | None = None) -> Cost:
    """Makes the runs of a plan."""
    place = ["--cluster", on.address] if on else []
    of_cluster = on.cpu() if on else 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.toml"
        path.write_text(plan, encoding="utf-8")
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([program, "sweep", path, *options, *place, "--json"], check=True, capture_output=True)
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu + (on.cpu() if on else 0.0) - of_cluster)


@contextmanager
def started(program: Path, workers: int) -> Iterator[Cluster]:
    """A scheduler and workers with one thread each."""
    python = program.with_name("python3")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        options = ["--no-dashboard", "--scheduler-file", str(file)]

        def start(kind: str, *more: str) -> subprocess.Popen[bytes]:
            command: list[str | Path] = [python, "-m", f"distributed.cli.dask_{kind}", *options, *more]
            return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        processes = [start("scheduler", "--host", "127.0.0.1", "--port", "0")]
        try:
            processes += [start("worker", "--nthreads", "1", "--no-nanny") for _ in range(workers)]
            while not file.exists():
                time.sleep(0.05)
            address: str = json.loads(file.read_text(encoding="utf-8"))["address"]
            time.sleep(4)
            # The workers load the simulator.
            own = Cluster(address, processes)
            sweep(program, SHORT, on=own)
            yield own
        finally:
            for process in reversed(processes):
                process.kill()
                process.wait()


def with_workers(program: Path, plan: str, workers: int, *, cluster: bool) -> Cost:
    """Makes the runs of a plan with threads, or with workers of a cluster of their own."""
    if not cluster:
        return sweep(program, plan, "--threads", str(workers))
    with started(program, workers) as own:
        return sweep(program, plan, on=own)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--program", type=Path, required=True, help="the program fairhop")
    parser.add_argument("--cluster", action="store_true", help="Dask workers on this machine instead of threads")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--runs", type=int, default=200)
    args = parser.parse_args()
    program = args.program.absolute()
    ratios = []
    print(f"{args.runs} runs with one worker and with two: wall, ratio, processor time, load")
    plan = LONG.format(runs=args.runs)
    for number in range(args.rounds):
        # The other order each time: what the first leaves behind, such as files to synchronize, slows the second down.
        order = (1, 2) if number % 2 == 0 else (2, 1)
        cost = {workers: with_workers(program, plan, workers, cluster=args.cluster) for workers in order}
        one, two = cost[1], cost[2]
        ratios.append(one.wall / two.wall)
        cores = f"{one.cpu:.2f} s and {two.cpu:.2f} s of processor time"
        print(f"{one.wall:.2f} s {two.wall:.2f} s {ratios[-1]:.2f}, {cores}, load {os.getloadavg()[0]:.1f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}")
    short = [with_workers(program, SHORT, 1, cluster=args.cluster).wall / 2 for _ in range(3)]
    print(f"short runs with one worker: {statistics.median(short):.2f} ms a run")
    return 0


if __name__ == "__main__":
    sys.exit(main())

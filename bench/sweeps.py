"""How much faster two workers make a sweep, and what a sweep costs beside its runs.

    python3 bench/sweeps.py --program target/release/fairhop
    python3 bench/sweeps.py --program BIN/fairhop --cluster    BIN is of an environment with fairhop[cluster]

Each round makes the same 200 runs of K-MIX with one worker and with two, in turn, so that other load affects both. It
also prints the processor time, with that of the cluster. On a busy machine two threads get no more of it than one, and
wall time says nothing about the sweep; the processor times still say whether two do more work for the same runs.
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

#: 200 runs, and 2000 of which little more than the overhead is left.
LONG = 'scenario = "k-mix"\nseeds = 200\n'
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
def cluster(program: Path, workers: int) -> Iterator[Cluster]:
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
            started = Cluster(address, processes)
            sweep(program, SHORT, on=started)
            yield started
        finally:
            for process in reversed(processes):
                process.kill()
                process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--program", type=Path, required=True, help="the program fairhop")
    parser.add_argument("--cluster", action="store_true", help="Dask workers on this machine instead of threads")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    program = args.program.absolute()
    ratios, overheads = [], []
    print("wall of 200 runs with one worker and two, ratio, load, short runs: wall ms a run with one")
    for _ in range(args.rounds):
        costs, short_ms = [], 0.0
        for workers in (1, 2):
            if args.cluster:
                with cluster(program, workers) as started:
                    costs.append(sweep(program, LONG, on=started))
                    if workers == 1:
                        short_ms = sweep(program, SHORT, on=started).wall / 2
            else:
                costs.append(sweep(program, LONG, "--threads", str(workers)))
                if workers == 1:
                    short_ms = sweep(program, SHORT, "--threads", "1").wall / 2
        one, two = costs
        ratios.append(one.wall / two.wall)
        overheads.append(short_ms)
        cores = f"{one.cpu:.2f} s and {two.cpu:.2f} s of processor time"
        load = f"{os.getloadavg()[0]:.1f}"
        print(f"{one.wall:.2f} s {two.wall:.2f} s {ratios[-1]:.2f} load {load}, {cores}, {short_ms:.2f} ms", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}, short runs {statistics.median(overheads):.2f} ms a run")
    return 0


if __name__ == "__main__":
    sys.exit(main())

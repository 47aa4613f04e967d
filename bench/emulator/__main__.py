"""Kernels in virtual time against traces and against the laboratory: `python3 bench/emulator`.

Every run is kept in `out/emulator/runs.jsonl` by its command line and the program's hash, so that an interrupted bench
goes on where it ended. `--write` puts the tables into docs/validation/emulator.md.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kept import Store
from simulator import ROOT, replace_between, table

FOLDER = Path(__file__).resolve().parent
PAGE = ROOT / "docs" / "validation" / "emulator.md"
TRACES = ROOT / "crates" / "transport" / "tests" / "suite" / "linux" / "traces"
CONTROLS = ("cubic", "reno", "bbr")
HOPS = range(1, 7)
COUNTS = (1, 3)
SEED = 1
#: Daemons of daemons.sh.
DAEMONS = ("babeld", "bird", "batman")
#: Controls of K-MIX, as in scenarios/k-control.toml.
KMIX_CONTROLS = {
    "none": '{ kind = "none" }',
    "window": '{ kind = "window", window_packets = 2 }',
    "data-pacing": '{ kind = "data-pacing", rate_kbps = 550 }',
    "adaptive": '{ kind = "adaptive" }',
}
#: What makes the real calls of K-MIX, and what the laboratory has from it: reports, or for sipp the coarse clock of
#: kernels with HZ = 250.
CALLERS = {"fairhop": "rtcp_interval_s = 5", "sipp": "timer_ms = 4"}
#: Seeds of the laboratory's K-MIX: its calls begin at other phases with each.
KMIX_SEEDS = 30
#: Seeds of the emulated K-MIX, by control, set before the runs: under adaptive control goodput varies most.
KMIX_DRAWS = {"adaptive": 8, "none": 4}
KMIX_DRAWS_OTHERWISE = 3
#: Bounds of K-MIX: MOS, goodput, seconds in which calls are good under adaptive control.
MOS_BOUND, KMIX_BOUND, CLEAR_BOUND = 0.15, 0.08, 0.95
#: Bounds: of the path, of the median cell and of the worst cell of the mesh, of two equal runs.
PATH_BOUND, MEDIAN_BOUND, WORST_BOUND, REPEAT_BOUND = 0.01, 0.05, 0.12, 0.005


def goodput_mbps(result: dict[str, Any], kind: str) -> float:
    """Goodput of all flows of a kind."""
    return sum(float(flow["goodput_mbps"]) for flow in result["flows"] if flow["kind"] == kind)


def kernel_path(store: Store, control: str, seconds: int, kernel: str, note: str = "") -> float:
    """Goodput of one kernel flow over the traced path after 10 s."""
    command = ("--", "./flows.sh", "sender", "receiver", "10.78.0.3", control, "1")
    options = ("--virtual", "--kernel", kernel, "--duration", str(seconds))
    return goodput_mbps(store.run("emulate", "path.toml", *options, *command, note=note), "real-tcp")


def trace_mbps(control: str, seconds: int) -> float:
    """Goodput in a trace from 10 s to `seconds`."""
    lines = (TRACES / f"{control}_0.csv").read_text().splitlines()
    samples = [[float(field) for field in line.split(",")] for line in lines[1:]]
    acked = [samples[min(10 * at, len(samples) - 1)][6] for at in (10, seconds)]
    return (acked[1] - acked[0]) * 8e-6 / (min(seconds, 59.9) - 10)


@dataclass(frozen=True)
class Cell:
    hops: int
    control: str
    count: int

    def kernel(self, store: Store, kernel: str, note: str = "") -> float:
        """Goodput of the kernel's TCP on the emulated radio."""
        return goodput_mbps(self.kernel_result(store, kernel, note), "real-tcp")

    def kernel_result(self, store: Store, kernel: str, note: str = "") -> dict[str, Any]:
        command = ("--", "./flows.sh", "0", str(self.hops), f"10.77.0.{self.hops}", self.control, str(self.count))
        options = ("--attach", "0", "--attach", str(self.hops), "--virtual", "--kernel", kernel, "--duration", "25")
        return store.run("emulate", "mesh.toml", *self.sets, *options, *command, note=note)

    def laboratory(self, store: Store) -> float:
        """Goodput of our TCP on the simulated radio."""
        traffic = (
            f'traffic=[{{ kind = "bulk", from = 0, to = {self.hops}, count = {self.count}, tcp = "{self.control}", '
            'profile = "linux", start_s = 0.5 }]'
        )
        return goodput_mbps(store.run("run", "mesh.toml", *self.sets, "--set", traffic), "bulk")

    @property
    def sets(self) -> tuple[str, ...]:
        return ("--set", f"topology.hops={self.hops}", "--seed", str(SEED))


def percent(value: float) -> str:
    return f"{100 * value:+.1f} %"


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that keep processors busy meanwhile."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def path_part(store: Store, args: argparse.Namespace) -> str:
    rows = []
    for control in CONTROLS:
        ours, traced = kernel_path(store, control, args.seconds, args.kernel), trace_mbps(control, args.seconds)
        apart = ours / traced - 1
        verdict = "yes" if abs(apart) <= PATH_BOUND else "no"
        rows.append((control, f"{ours:.3f}", f"{traced:.3f}", percent(apart), verdict))
    return table(("control", f"emulator, 10..{args.seconds} s, Mb/s", "trace, Mb/s", "apart", "within 1 %"), rows)


def mesh_part(store: Store, args: argparse.Namespace) -> str:
    cells = [Cell(hops, control, count) for count in COUNTS for hops in HOPS for control in CONTROLS]
    chosen = [cell for cell in cells if cell.hops in args.hops and cell.count in args.counts]
    with ThreadPoolExecutor(args.jobs) as pool:
        kernels = list(pool.map(lambda cell: cell.kernel(store, args.kernel), chosen))
    rows, aparts = [], []
    for cell, kernel in zip(chosen, kernels, strict=True):
        laboratory = cell.laboratory(store)
        apart = kernel / laboratory - 1
        aparts.append(abs(apart))
        rows.append(
            (str(cell.hops), cell.control, str(cell.count), f"{kernel:.3f}", f"{laboratory:.3f}", percent(apart))
        )
    text = table(("hops", "control", "flows", "kernel, Mb/s", "laboratory, Mb/s", "apart"), rows)
    median, worst = statistics.median(aparts), max(aparts)
    return text + (
        f"\nMedian difference of {len(chosen)} cells {100 * median:.1f} % (bound {100 * MEDIAN_BOUND:.0f} %), "
        f"worst {100 * worst:.1f} % (bound {100 * WORST_BOUND:.0f} %).\n"
    )


def repeat_part(store: Store, args: argparse.Namespace) -> str:
    cell = Cell(3, "cubic", 3)
    first = cell.kernel_result(store, args.kernel, "first")
    again = cell.kernel_result(store, args.kernel, "again")
    with busy(4):
        loaded = cell.kernel_result(store, args.kernel, "with busy processes")
    rows = []
    for name, result in (("first", first), ("again", again), ("with four busy processes", loaded)):
        mbps = goodput_mbps(result, "real-tcp")
        apart = mbps / goodput_mbps(first, "real-tcp") - 1
        # wall_s, measured by the guest's clock, is a figure of the run like the others.
        same = "yes" if result | {"said": ""} == first | {"said": ""} else "no"
        rows.append((name, f"{mbps:.6f}", percent(apart), same))
    return table(("run", "goodput, Mb/s", "apart", "whole result equal"), rows)


def kmix_kernel(store: Store, caller: str, control: str, kernel: str, seed: int) -> dict[str, Any]:
    """K-MIX with real TCP and real calls. The seed is the guest's too, so that calls have other phases with each."""
    places = ("--attach", "0", "--attach", "4", "--attach", "internet")
    options = ("--virtual", "--kernel", kernel, "--duration", "40", "--seed", str(seed))
    setting = ("--set", f"control={KMIX_CONTROLS[control]}")
    return store.run("emulate", "kmix.toml", *setting, *places, *options, "--", "./kmix.sh", caller)


def kmix_laboratory(store: Store, caller: str, control: str) -> list[dict[str, Any]]:
    """The same with simulated TCP and calls: a result for each seed."""
    calls = f'{{ kind = "call", from = 0, to = 4, count = 5, codec = "g729a", {CALLERS[caller]}, start_s = 0.1 }}'
    bulk = '{ kind = "bulk", from = "internet", to = 4, count = 3, tcp = "reno", profile = "linux", start_s = 0.5 }'
    settings = ("--set", f"control={KMIX_CONTROLS[control]}", "--set", f"traffic=[{calls}, {bulk}]")
    return [store.run("run", "kmix.toml", *settings, "--seed", str(seed)) for seed in range(1, KMIX_SEEDS + 1)]


@dataclass(frozen=True)
class Difference:
    """The mean of draws over that of others, minus 1, with its 95 % interval (Welch 1947)."""

    mean: float
    half: float

    @classmethod
    def of(cls, ours: Sequence[float], others: Sequence[float]) -> Difference:
        base = statistics.mean(others)
        parts = [statistics.variance(values) / len(values) for values in (ours, others)]
        freedom = sum(parts) ** 2 / sum(
            part**2 / (len(values) - 1) for part, values in zip(parts, (ours, others), strict=True)
        )
        half = t_975(freedom) * math.sqrt(sum(parts)) / base
        return cls(statistics.mean(ours) / base - 1, half)

    def verdict(self, bound: float) -> str:
        """Whether the mean is within the bound, and whether the interval is."""
        if abs(self.mean) > bound:
            return "no"
        return "yes" if abs(self.mean) + self.half <= bound else "mean"

    def __str__(self) -> str:
        return f"{percent(self.mean)} ± {100 * self.half:.1f}"


def t_975(freedom: float) -> float:
    """Student's t for a two-sided 95 % interval: Cornish and Fisher's expansion, within 1 % from 2 degrees on."""
    z = statistics.NormalDist().inv_cdf(0.975)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))


def spread(values: Sequence[float], digits: int) -> str:
    """The mean, and the range."""
    return f"{statistics.mean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def kmix_draws(control: str) -> int:
    return KMIX_DRAWS.get(control, KMIX_DRAWS_OTHERWISE)


def kmix_row(caller: str, control: str, real: list[dict[str, Any]], simulated: list[dict[str, Any]]) -> tuple[str, ...]:
    """A row of the table: real draws beside simulated ones."""

    def figures(results: list[dict[str, Any]], name: str) -> list[float]:
        return [float(result["totals"][name]) for result in results]

    mos, goodput, clear = (
        (figures(real, name), figures(simulated, name)) for name in ("mos_mean", "tcp_goodput_mbps", "calls_clear")
    )
    seen = statistics.mean(float(call["observed"]["mos"]) for result in real for call in result["calls"])
    apart = Difference.of(*goodput)
    verdict = apart.verdict(KMIX_BOUND)
    is_good = control != "adaptive" or statistics.mean(clear[0]) >= CLEAR_BOUND
    if abs(statistics.mean(mos[0]) - statistics.mean(mos[1])) > MOS_BOUND or not is_good:
        verdict = "no"
    return (
        caller,
        control,
        str(len(real)),
        *(spread(values, 2) for values in mos),
        f"{seen:.2f}",
        *(spread(values, 3) for values in goodput),
        str(apart),
        *(f"{100 * statistics.mean(values):.1f} %" for values in clear),
        verdict,
    )


def kmix_part(store: Store, args: argparse.Namespace) -> str:
    cells = [(caller, control) for caller in args.callers for control in args.controls]
    draws = [(*cell, args.kernel, seed) for cell in cells for seed in range(1, kmix_draws(cell[1]) + 1)]
    with ThreadPoolExecutor(args.jobs) as pool:
        found = dict(zip(draws, pool.map(lambda draw: kmix_kernel(store, *draw), draws), strict=True))
    rows = [
        kmix_row(*cell, [result for draw, result in found.items() if draw[:2] == cell], kmix_laboratory(store, *cell))
        for cell in cells
    ]
    head = (
        *("calls by", "control", "draws"),
        *("MOS", "laboratory", "seen"),
        *("TCP, Mb/s", "laboratory", "apart, 95 % interval"),
        *("good", "laboratory", "within"),
    )
    return table(head, rows)


def daemons_part(store: Store, args: argparse.Namespace) -> str:
    """Routing daemons on a grid: what bench/emulator/daemons.sh says."""
    rows = []
    for daemon in args.daemons:
        options = ("--virtual", "--kernel", args.kernel)
        said = store.run("emulate", "grid.toml", *options, "--", "./daemons.sh", daemon)["said"]
        words = [line.split() for line in said.splitlines()]
        found = {" ".join(line[:-1]): line[-1] for line in words if len(line) in (2, 3)}
        mbps = [f"{float(found[when]) / 1000:.2f}" for when in ("before", "after")]
        gaps = [found[f"interrupted {at}"] for at in (80, 200)]
        rows.append((daemon, found["converged"], mbps[0], *gaps, mbps[1]))
    head = (
        "daemon",
        "first answer, s",
        "TCP, Mb/s",
        "node 1 off: without answer, s",
        "node 3 off, s",
        "TCP after, Mb/s",
    )
    return table(head, rows)


def hidden_part(store: Store, args: argparse.Namespace) -> str:
    """Two senders of one receiver that sense each other, or do not."""
    rows: list[tuple[str, ...]] = []
    goodputs = []
    flow = '{{ kind = "cbr", from = {}, to = 1, rate_kbps = 6000, payload_bytes = 1400 }}'
    for name, sense_m in (("sense each other", 550), ("hidden", 250)):
        settings = ("--set", "topology.hops=2", "--set", f"radio.propagation.carrier_sense_m={sense_m}")
        options = ("--link", "--virtual", "--kernel", args.kernel, "--duration", "20")
        real = store.run("emulate", "mesh.toml", *settings, *options, "--", "./hidden.sh")
        kernel = sum(
            float(flow["goodput_mbps"]) for flow in real["flows"] if flow["name"] in ("frames of 0", "frames of 2")
        )
        traffic = f"traffic=[{flow.format(0)}, {flow.format(2)}]"
        simulated = store.run("run", "mesh.toml", *settings, "--set", "duration_s=20", "--set", traffic)
        laboratory = goodput_mbps(simulated, "cbr")
        goodputs.append((kernel, laboratory))
        rows.append((name, f"{kernel:.3f}", f"{laboratory:.3f}", percent(kernel / laboratory - 1)))
    (kernel, laboratory), (kernel_hidden, laboratory_hidden) = goodputs
    kept = (kernel_hidden / kernel, laboratory_hidden / laboratory)
    rows.append(("hidden, of the former", *(f"{100 * part:.1f} %" for part in kept), percent(kept[0] / kept[1] - 1)))
    return table(("senders", "kernels, Mb/s", "laboratory, Mb/s", "apart"), rows)


PARTS: dict[str, Callable[[Store, argparse.Namespace], str]] = {
    "path": path_part,
    "mesh": mesh_part,
    "repeat": repeat_part,
    "kmix": kmix_part,
    "daemons": daemons_part,
    "hidden": hidden_part,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--program", type=Path, default=ROOT / "target" / "release" / "fairhop")
    parser.add_argument("--kernel", default="6.1", help="5.10, 6.1 or 6.12")
    parser.add_argument("--seconds", type=int, default=60, help="length of a run over the traced path")
    parser.add_argument("--hops", type=int, nargs="*", default=list(HOPS))
    parser.add_argument("--counts", type=int, nargs="*", default=list(COUNTS), help="flows in a cell of the mesh")
    parser.add_argument("--daemons", nargs="*", default=list(DAEMONS), help="of daemons.sh")
    parser.add_argument("--callers", nargs="*", default=list(CALLERS), help="what makes the calls of kmix")
    parser.add_argument("--controls", nargs="*", default=list(KMIX_CONTROLS), help="controls of kmix")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--write", action="store_true", help="update docs/validation/emulator.md")
    args = parser.parse_args()
    if unknown := [part for part in args.parts if part not in PARTS]:
        parser.error(f"no part {unknown[0]}; there are {', '.join(PARTS)}")
    store = Store(args.program.resolve(), ROOT / "out" / "emulator" / "runs.jsonl", FOLDER)
    for name in args.parts or PARTS:
        text = PARTS[name](store, args)
        print(f"\n{name}\n{text}", flush=True)
        if args.write:
            replace_between(PAGE, name, text)


if __name__ == "__main__":
    main()

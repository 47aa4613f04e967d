"""Kernels in virtual time against traces and against the laboratory: `python3 bench/emulator`.

Every run is kept in `out/emulator/runs.jsonl` by its command line and the program's hash, so that an interrupted bench
goes on where it ended. `--write` puts the tables into docs/validation/emulator.md.
"""

from __future__ import annotations

import argparse
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

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
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
#: What makes the real calls of K-MIX, and how often its RTCP reports.
CALLERS = {"fairhop": 5, "sipp": 0}
#: Seeds of the laboratory's K-MIX: its calls begin at other phases with each.
KMIX_SEEDS = 10
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


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


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


def kmix_kernel(store: Store, control: str, caller: str, kernel: str) -> dict[str, Any]:
    """K-MIX with real TCP and real calls."""
    places = ("--attach", "0", "--attach", "4", "--attach", "internet")
    options = ("--virtual", "--kernel", kernel, "--duration", "40", "--seed", str(SEED))
    setting = ("--set", f"control={KMIX_CONTROLS[control]}")
    return store.run("emulate", "kmix.toml", *setting, *places, *options, "--", "./kmix.sh", caller)


def kmix_laboratory(store: Store, control: str, caller: str) -> list[dict[str, Any]]:
    """The same with simulated TCP and calls: a result for each seed."""
    calls = (
        '{ kind = "call", from = 0, to = 4, count = 5, codec = "g729a", '
        f"rtcp_interval_s = {CALLERS[caller]}, start_s = 0.1 }}"
    )
    bulk = '{ kind = "bulk", from = "internet", to = 4, count = 3, tcp = "reno", profile = "linux", start_s = 0.5 }'
    settings = ("--set", f"control={KMIX_CONTROLS[control]}", "--set", f"traffic=[{calls}, {bulk}]")
    return [store.run("run", "kmix.toml", *settings, "--seed", str(seed)) for seed in range(1, KMIX_SEEDS + 1)]


def spread(values: Sequence[float], digits: int) -> str:
    """The mean, and the range."""
    return f"{statistics.mean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def kmix_part(store: Store, args: argparse.Namespace) -> str:
    cells = [(caller, control) for caller in args.callers for control in KMIX_CONTROLS]
    with ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(lambda cell: kmix_kernel(store, cell[1], cell[0], args.kernel), cells))
    rows = []
    for (caller, control), real in zip(cells, results, strict=True):
        laboratory = [result["totals"] for result in kmix_laboratory(store, control, caller)]
        mos = [float(totals["mos_mean"]) for totals in laboratory]
        goodput = [float(totals["tcp_goodput_mbps"]) for totals in laboratory]
        clear = [float(totals["calls_clear"]) for totals in laboratory]
        totals, calls = real["totals"], real["calls"]
        seen = statistics.mean(float(call["observed"]["mos"]) for call in calls)
        mos_apart = totals["mos_mean"] - statistics.mean(mos)
        apart = totals["tcp_goodput_mbps"] / statistics.mean(goodput) - 1
        is_within = abs(mos_apart) <= MOS_BOUND and abs(apart) <= KMIX_BOUND
        if control == "adaptive":
            is_within = is_within and totals["calls_clear"] >= CLEAR_BOUND
        rows.append(
            (
                caller,
                control,
                f"{totals['mos_mean']:.2f}",
                f"{seen:.2f}",
                spread(mos, 2),
                f"{totals['tcp_goodput_mbps']:.3f}",
                f"{spread(goodput, 3)}, {percent(apart)}",
                f"{100 * totals['calls_clear']:.1f} %",
                f"{100 * statistics.mean(clear):.1f} %",
                "yes" if is_within else "no",
            )
        )
    head = (
        "calls by",
        "control",
        "MOS",
        "seen",
        "laboratory",
        "TCP, Mb/s",
        "laboratory",
        "good",
        "laboratory",
        "within",
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


def write(name: str, text: str) -> None:
    """Replaces the part of the page between its two marks."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    page = PAGE.read_text()
    before, rest = page.split(begin, 1)
    _, after = rest.split(end, 1)
    PAGE.write_text(before + begin + text + end + after)


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
            write(name, text)


if __name__ == "__main__":
    main()

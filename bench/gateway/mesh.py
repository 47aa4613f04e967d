"""The gateway with kernel TCP and real calls in front of the emulated mesh, in virtual time, beside the laboratory.

Cells are K-MIX and the first cells with calls of the grid of `fairhop study adaptive`, in its fixed random order. The
grid is in the Python package (`make wheel`), which must be installed. Runs are kept in out/gateway/runs.jsonl by
command line and program, so that an interrupted bench goes on.

    python3 bench/gateway/mesh.py --cells 30 --jobs 2 --write
"""

from __future__ import annotations

import argparse
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kept import Store
from simulator import ROOT, replace_between, table

try:
    from fairhop.studies.adaptive.grid import COUNTED, PAYLOAD, SHAPED, Cell, speed_test, whole_grid
    from fairhop.studies.lab import FREE
except ModuleNotFoundError as error:
    sys.exit(f"error: no module {error.name}\n  help: make wheel, then pip install the Python package")

FOLDER = Path(__file__).resolve().parent
PAGE = ROOT / "docs" / "validation" / "gateway-mesh.md"
SCENARIO = str(ROOT / "scenarios" / "adaptive-grid.toml")
K_MIX = Cell(4, 5, 3, 30, "reno")
DURATION_S, WARMUP_S = 40, 10
#: Seeds of the laboratory: the phases of its calls differ.
SEEDS = range(1, 5)
#: Other seeds: how many single runs of the laboratory are good, to which single runs of the gateway compare.
ALONE = range(5, 9)
#: What acts on packets into the mesh. The shapers have 90 % of what ten flows reach alone.
WAYS = {"gateway": "gateway", "none": "none", "fq_codel": "FQ-CoDel", "cake": "CAKE"}
RUNS = ("gateway:6.12", "gateway:6.1", "none:6.12", "fq_codel:6.12", "cake:6.12")
#: Bounds: part of the seconds in which calls are good, and goodput of the median cell over the laboratory's.
CLEAR_BOUND, GOODPUT_BOUND = 0.95, 0.85


@dataclass(frozen=True)
class Figures:
    mos: float
    clear: float
    mbps: float

    @classmethod
    def of(cls, result: dict[str, Any]) -> Figures:
        totals = result["totals"]
        return cls(totals["mos_mean"], totals["calls_clear"], totals["tcp_goodput_mbps"])

    @classmethod
    def mean(cls, all_: list[Figures]) -> Figures:
        return cls(*(statistics.mean(getattr(figures, name) for figures in all_) for name in ("mos", "clear", "mbps")))

    def __str__(self) -> str:
        return f"{self.mos:.2f}, {100 * self.clear:.0f} %, {self.mbps:.3f}"


def mean_and_each(all_: list[Figures]) -> str:
    """The mean and, of several runs, the part of good seconds in each."""
    each = f" ({', '.join(f'{100 * figures.clear:.0f}' for figures in all_)})" if len(all_) > 1 else ""
    return f"{Figures.mean(all_)}{each}"


def times() -> tuple[str, ...]:
    return ("--set", f"duration_s={DURATION_S}", "--set", f"warmup_s={WARMUP_S}")


def laboratory(store: Store, cell: Cell, seeds: range) -> list[Figures]:
    """Simulated calls and TCP with Linux's receivers under adaptive control."""
    control = 'control={ kind = "adaptive" }'
    sets = [*cell.sets(), "traffic.1.profile=linux", "traffic.1.start_s=1.5", "traffic.0.rtcp_interval_s=5", control]
    words = [word for setting in sets for word in ("--set", setting)]
    return [Figures.of(store.run("run", SCENARIO, *times(), *words, "--seed", str(seed))) for seed in seeds]


def rate_kbps(store: Store, cell: Cell) -> int:
    """Rate of a shaper for this path, set by a speed test as an operator would."""
    test = speed_test(cell, "down")
    sets = [*test.sets(), "traffic.1.profile=linux", FREE]
    words = [word for setting in sets for word in ("--set", setting)]
    result = store.run("run", SCENARIO, *times(), *words, "--seed", "101")
    mbps = float(result["totals"]["tcp_goodput_mbps"])
    return round(1000 * SHAPED * mbps * COUNTED / PAYLOAD)


def real(store: Store, cell: Cell, way: str, kernel: str, seed: int) -> Figures:
    """Kernel TCP and real calls on the emulated radio."""
    places = ("--attach", "internet", "--attach", str(cell.hops))
    sets = ("traffic=[]", FREE, f"topology.hops={cell.hops}", "internet.delay_ms=0")
    words = [word for setting in sets for word in ("--set", setting)]
    gateway = ("--gateway",) if way == "gateway" else ()
    shaper = (way, str(rate_kbps(store, cell))) if way in ("cake", "fq_codel") else ()
    command = (str(cell.hops), str(cell.calls), str(cell.flows), str(cell.delay_ms), cell.variant, *shaper)
    options = (
        *("--virtual", "--kernel", kernel, "--seed", str(seed)),
        *("--duration", str(DURATION_S), "--set", f"warmup_s={WARMUP_S}"),
    )
    return Figures.of(store.run("emulate", SCENARIO, *words, *places, *gateway, *options, "--", "./mesh.sh", *command))


@dataclass(frozen=True)
class Run:
    """What acts on packets, and the kernel of the server, the gateway and the nodes."""

    way: str
    kernel: str

    @classmethod
    def parse(cls, text: str) -> Run:
        way, colon, kernel = text.partition(":")
        if way not in WAYS or not colon or not kernel:
            raise argparse.ArgumentTypeError(f"'{text}' is not WAY:KERNEL with a way of {', '.join(WAYS)}")
        return cls(way, kernel)

    def __str__(self) -> str:
        return f"{WAYS[self.way]}, {self.kernel}"


def report(store: Store, cells: list[Cell], runs: list[Run], seeds: list[int], jobs: int) -> str:
    wanted = [(cell, run) for cell in cells for run in runs]

    def measured(one: tuple[Cell, Run]) -> list[Figures]:
        cell, run = one
        return [real(store, cell, run.way, run.kernel, seed) for seed in seeds]

    with ThreadPoolExecutor(jobs) as pool:
        found = dict(zip(wanted, pool.map(measured, wanted), strict=True))
        labs = dict(zip(cells, pool.map(lambda cell: Figures.mean(laboratory(store, cell, SEEDS)), cells), strict=True))
    rows = []
    for cell in cells:
        name = "K-MIX" if cell == K_MIX else cell.name().removesuffix(" direction=down")
        rows.append((name, str(labs[cell]), *(mean_and_each(found[cell, run]) for run in runs)))
    text = table(("cell", "laboratory, adaptive", *map(str, runs)), rows)
    asked = [cell for cell in cells if labs[cell].clear >= CLEAR_BOUND]
    if not asked:
        return text
    kept = []
    for run in runs:
        means = {cell: Figures.mean(found[cell, run]) for cell in asked}
        good = sum(mean.clear >= CLEAR_BOUND for mean in means.values())
        parts = sorted(mean.mbps / labs[cell].mbps for cell, mean in means.items())
        kept.append((str(run), str(good), f"{statistics.median(parts):.2f}", f"{parts[0]:.2f} to {parts[-1]:.2f}"))
    alone = [figures for cell in asked for figures in laboratory(store, cell, ALONE)]
    text += (
        f"\nCalls good in the {len(asked)} cells in which the laboratory's are, and TCP over the laboratory's in these "
        f"(bound for the gateway {GOODPUT_BOUND}).\nOf single runs of the laboratory in these cells with other seeds, "
        f"{sum(one.clear >= CLEAR_BOUND for one in alone)} of {len(alone)} are good.\n\n"
    )
    return text + table(("", "calls good", "TCP, median", "TCP, range"), kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "target" / "release" / "fairhop")
    parser.add_argument("--cells", type=int, default=30, help="cells of the grid beside K-MIX")
    parser.add_argument(
        "--runs",
        nargs="+",
        type=Run.parse,
        default=[Run.parse(run) for run in RUNS],
        metavar="WAY:KERNEL",
        help=f"columns of the table: {', '.join(WAYS)}, each with a kernel; default {' '.join(RUNS)}",
    )
    parser.add_argument(
        "--seeds", nargs="+", type=int, default=[1], metavar="SEED", help="of each cell, with means; default 1"
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--write", action="store_true", help="update docs/validation/gateway-mesh.md")
    args = parser.parse_args()
    store = Store(args.program.resolve(), ROOT / "out" / "gateway" / "runs.jsonl", FOLDER)
    cells = [K_MIX, *[cell for cell in whole_grid("down") if cell.calls > 0][: args.cells]]
    text = report(store, cells, args.runs, args.seeds, args.jobs)
    print(text)
    if args.write:
        replace_between(PAGE, "mesh", text)


if __name__ == "__main__":
    main()

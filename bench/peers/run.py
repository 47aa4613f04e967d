"""Run the same scenarios in ns-2, ns-3 and Fairhop, and print the figures side by side.

A scenario is one `Network` (cases.py). The arguments of `ns2/network.tcl` and `ns3/network.cc` (peers.py) and the TOML
that Fairhop runs (fairhop_runs.py) come from it, so the three cannot drift apart. A `Rule` is a capture rule as one
peer realizes it, with its equivalent in Fairhop. README.md explains the parameters and the known differences between
the models.

Results go to one JSON file per case. Runs of one simulator replace only that simulator's part of the file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cases import DSSS_RULES, Case, Network, Point, Rule, cases
from fairhop_runs import FAIRHOP, run_fairhop, scenario
from measures import Figures
from peers import run_ns2, run_ns3, time_ns2
from tables import compare, show

HERE = Path(__file__).resolve().parent


def summarize(runs: list[Figures]) -> dict[str, dict[str, float]]:
    """Mean and standard deviation of every figure over the seeds; of wall times, the median too."""
    out: dict[str, dict[str, float]] = {}
    for key in sorted({k for run in runs for k in run}):
        values = [run[key] for run in runs if key in run and not math.isnan(run[key])]
        if not values:
            continue
        entry = {"mean": statistics.fmean(values), "sd": statistics.stdev(values) if len(values) > 1 else 0.0}
        if key.startswith(("wall_", "cpu_")):
            entry["median"] = statistics.median(values)
        out[key] = {k: round(v, 6) for k, v in entry.items()}
    return out


def run_point(case: Case, point: Point, rule: Rule, who: str, seeds: list[int]) -> list[Figures]:
    """All seeds of one point; timings on one core, the last that this process may use."""
    if point.timing:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if who == "fairhop":
        return run_fairhop(f"{case.name}: {point.label}", point.network, rule, seeds)
    one: Callable[[Network, Rule, int], Figures]
    one = (time_ns2 if point.timing else run_ns2) if rule.peer == "ns2" else run_ns3
    return [one(point.network, rule, seed) for seed in seeds]


def run_case(case: Case, only: set[str], seeds: int | None, folder: Path) -> dict[str, Any]:
    """Runs what is asked of a case and merges it into the case's file."""
    path = folder / f"{case.name}.json"
    result: dict[str, Any] = {"case": case.name, "title": case.title, "points": {}}
    if path.exists():
        result = json.loads(path.read_text(encoding="utf-8"))
    chosen = list(range(1, (seeds or case.seeds) + 1))
    # The cheap simulators first.
    for who in ("fairhop", "ns2", "ns3"):
        if who not in only:
            continue
        for point in case.points:
            entry = result["points"].setdefault(point.label, {})
            entry["network"] = vars(point.network)
            for rule in case.rules:
                if who not in ("fairhop", rule.peer):
                    continue
                if point.network.standard == "11b" and rule not in DSSS_RULES:
                    continue
                runs = run_point(case, point, rule, who, chosen)
                side = "fairhop" if who == "fairhop" else "peer"
                entry.setdefault(rule.name, {})[side] = {"seeds": chosen, **summarize(runs)}
                print(f"  {case.name}: {point.label}: {rule.name} {side}", file=sys.stderr, flush=True)
            path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def install() -> None:
    """Debian's packages of both peers."""
    packages = ["ns2", "libns3-dev", "g++", "make"]
    subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *packages], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--install", action="store_true", help="install ns2 and libns3-dev with apt-get first (as root)"
    )
    parser.add_argument("--only", default="ns2,ns3,fairhop", help="simulators to run, e.g. ns2,fairhop")
    parser.add_argument("--cases", default=",".join(c.name for c in cases()), help="cases to run, e.g. k-mix,osipov")
    parser.add_argument("--seeds", type=int, help="seeds a point; left out: the case's own number")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the results")
    parser.add_argument("--show", action="store_true", help="print the stored results, run nothing")
    parser.add_argument(
        "--compare", action="store_true", help="print the tables of docs/validation/mac.md, run nothing"
    )
    parser.add_argument("--scenarios", type=Path, help="write the Fairhop scenarios to this folder, run nothing")
    args = parser.parse_args()

    only = set(args.only.split(","))
    names = args.cases.split(",")
    known = {c.name: c for c in cases()}
    if unknown := [n for n in names if n not in known]:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(known)}")
    if unknown := sorted(only - {"ns2", "ns3", "fairhop"}):
        parser.error(f"no such simulator: {', '.join(unknown)}; there are ns2, ns3, fairhop")
    chosen = [c for c in known.values() if c.name in names]

    if args.scenarios:
        args.scenarios.mkdir(parents=True, exist_ok=True)
        for case in chosen:
            for point in case.points:
                slug = "".join(ch if ch.isalnum() else "-" for ch in point.label)
                for rule in case.rules:
                    if point.network.standard == "11b" and rule not in DSSS_RULES:
                        continue
                    file = args.scenarios / f"{case.name}-{slug}-{rule.name}.toml"
                    file.write_text(scenario(f"{case.name}: {point.label}", point.network, rule), encoding="utf-8")
        return 0
    if args.install:
        install()
    args.out.mkdir(parents=True, exist_ok=True)
    stored = args.show or args.compare
    if not stored:
        if "ns2" in only and shutil.which("ns") is None:
            parser.error("ns-2 is not installed; try --install")
        if "ns3" in only:
            subprocess.run(["make", "-s", "-C", str(HERE / "ns3")], check=True)
        if "fairhop" in only and not FAIRHOP.exists():
            print(f"{FAIRHOP} is not built; its columns stay as they are", file=sys.stderr)
            only.discard("fairhop")
    for case in chosen:
        if stored:
            path = args.out / f"{case.name}.json"
            if not path.exists():
                print(f"no results of {case.name} yet", file=sys.stderr)
                continue
            result = json.loads(path.read_text(encoding="utf-8"))
        else:
            result = run_case(case, only, args.seeds, args.out)
        (compare if args.compare else show)(case, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())

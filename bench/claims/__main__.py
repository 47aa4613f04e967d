"""Re-run what the papers measured and write the tables of docs/claims.md.

A claim is a ready-made scenario with overrides (`--set`), run for several seeds. The tables show the paper's value
beside the mean and its 95 % confidence interval. There is one module per paper. The page explains the verdicts and why
a claim fails; this program replaces only the text between a paper's two markers.

    cargo build --release && python3 bench/claims          # update docs/claims.md
    python3 bench/claims --only xu2002 --seeds 3 --dry      # a quick look, nothing written
    python3 bench/claims --claims K-GAIN K-REGION           # only the rows and tables of these measurements
    python3 bench/claims --keep target/claims               # reuse the runs of an earlier, interrupted call
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import cai2005
import gateway
import kim2010
import nordstrom2005
import osipov2007
import xu2002
from lab import HEADS, HEADS_BY_RULE, T_975, Lab, Measurements, page_of, page_with
from simulator import FAIRHOP, ROOT, between, replace_between

PAGE = ROOT / "docs" / "claims.md"

#: Heads of the summary and measurements, by paper.
PAPERS: dict[str, tuple[tuple[str, ...], Measurements]] = {
    "kim2010": (HEADS_BY_RULE, kim2010.MEASUREMENTS),
    "gateway": (HEADS_BY_RULE, gateway.MEASUREMENTS),
    "osipov2007": (HEADS_BY_RULE, osipov2007.MEASUREMENTS),
    "nordstrom2005": (HEADS, nordstrom2005.MEASUREMENTS),
    "cai2005": (HEADS, cai2005.MEASUREMENTS),
    "xu2002": (HEADS_BY_RULE, xu2002.MEASUREMENTS),
}
NAMES = [name for _, measurements in PAPERS.values() for name in measurements]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 bench/claims", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--seeds", type=int, default=10, choices=range(2, len(T_975) + 2), metavar="N", help="seeds per run, 2 to 20"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--only", nargs="+", default=list(PAPERS), choices=list(PAPERS), metavar="PAPER", help=", ".join(PAPERS)
    )
    what.add_argument("--claims", nargs="+", default=[], choices=NAMES, metavar="CLAIM", help=", ".join(NAMES))
    parser.add_argument("--dry", action="store_true", help="print the tables, leave docs/claims.md as it is")
    parser.add_argument("--program", type=Path, default=FAIRHOP, metavar="PATH", help="the fairhop to run")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), metavar="N", help="runs at a time")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep results in this folder and reuse them")
    args = parser.parse_args()
    if not args.program.exists():
        parser.error(f"{args.program} is not built: cargo build --release")
    return args


def main() -> int:
    args = parse()
    lab = Lab(range(1, args.seeds + 1), args.program, args.workers, args.keep)
    for paper, (heads, measurements) in PAPERS.items():
        chosen = {name: measure for name, measure in measurements.items() if name in args.claims}
        if args.claims:
            for name, measure in chosen.items():
                section = measure(lab)
                print(f"## {name}\n\n{page_of(heads, [section])}", flush=True)
                if not args.dry:
                    replace_between(PAGE, paper, page_with(between(PAGE, paper), section))
        elif paper in args.only:
            text = page_of(heads, [measure(lab) for measure in measurements.values()])
            print(f"## {paper}\n\n{text}", flush=True)
            if not args.dry:
                replace_between(PAGE, paper, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Re-run what the papers measured and write the tables of docs/claims.md.

A claim is a ready-made scenario with overrides (`--set`), run for several seeds; what a paper says stands beside the
mean and its 95 % confidence interval. There is a module a paper. The page says what the verdicts mean and why a claim
fails where it does; this program replaces only what stands between a paper's two markers.

    cargo build --release && python3 bench/claims         # update docs/claims.md
    python3 bench/claims --only xu2002 --seeds 3 --dry     # a quick look, nothing written
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import cai2005
import gateway
import kim2010
import osipov2007
import xu2002
from lab import T_975, Lab
from simulator import FAIRHOP, ROOT, replace_between

PAGE = ROOT / "docs" / "claims.md"

PAPERS: dict[str, Callable[[Lab], str]] = {
    "kim2010": kim2010.section,
    "gateway": gateway.section,
    "osipov2007": osipov2007.section,
    "cai2005": cai2005.section,
    "xu2002": xu2002.section,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 bench/claims", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--seeds", type=int, default=10, choices=range(2, len(T_975) + 2), metavar="N", help="seeds a run, 2 to 20"
    )
    parser.add_argument(
        "--only", nargs="+", default=list(PAPERS), choices=list(PAPERS), metavar="PAPER", help=", ".join(PAPERS)
    )
    parser.add_argument("--dry", action="store_true", help="print the tables, leave docs/claims.md as it is")
    args = parser.parse_args()
    if not FAIRHOP.exists():
        parser.error(f"{FAIRHOP} is not built: cargo build --release")
    lab = Lab(args.seeds)
    for paper in args.only:
        seeds = f"Seeds 1 to {args.seeds}; mean ± 95 % confidence interval.\n"
        text = f"{seeds}\n{PAPERS[paper](lab)}"
        print(f"## {paper}\n\n{text}", flush=True)
        if not args.dry:
            replace_between(PAGE, paper, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What local repair does to TCP in ns-2's AODV: a string with it, and without it.

    python3 bench/peers/local_repair.py [--seeds 5]

ns-2 has no switch for it. `AODV::rt_ll_failed` repairs a broken link instead of dropping its packets if the node is
nearer to the destination than to the source (`num_forwards > rt_hops`). Here a copy of the program runs in which this
branch is never taken: its conditional jump is replaced by two no-ops. Goodput in Mb/s, with the half-width of 95 %.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from waypoint import interval

#: The end of the branch's code in x86-64, as in Debian's ns2 2.35+dfsg-5: movzwl 0x28(%r12),%eax (rt_hops);
#: cmp %eax,0x64(%rbp) (num_forwards); jg to the call of local_rt_repair. It is there once.
BRANCH = bytes.fromhex("410fb7442428394564") + b"\x7f"
NO_OPS = b"\x90\x90"
HOPS = (4, 6, 8)
RULES = {"ns2-first": 10, "ns2-none": 1000}


def without_repair(program: Path, folder: Path) -> Path:
    """A copy of ns-2 that never repairs locally."""
    code = program.read_bytes()
    if code.count(BRANCH) != 1:
        sys.exit(f"error: {program} is another build than Debian's ns2 2.35+dfsg-5 for amd64: the branch is not in it")
    jump = code.index(BRANCH) + len(BRANCH) - 1
    patched = folder / "ns"
    patched.write_bytes(code[:jump] + NO_OPS + code[jump + len(NO_OPS) :])
    patched.chmod(0o755)
    return patched


def goodput(program: Path, hops: int, threshold: int, seed: int) -> float:
    script = Path(__file__).resolve().parent / "ns2" / "aodv-string.tcl"
    command = [str(program), str(script), str(hops), str(threshold), str(seed)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return float(output.split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    found = shutil.which("ns")
    if found is None:
        sys.exit("error: ns-2 is missing; on Debian: python3 bench/peers/run.py --install")
    with tempfile.TemporaryDirectory() as folder:
        programs = {"as it is": Path(found), "without local repair": without_repair(Path(found), Path(folder))}
        print("| rule | hops | " + " | ".join(programs) + " |\n|---|---|" + "---|" * len(programs))
        for rule, threshold in RULES.items():
            for hops in HOPS:
                cells = [
                    interval([goodput(program, hops, threshold, seed) for seed in range(1, args.seeds + 1)], 3)
                    for program in programs.values()
                ]
                print(f"| {rule} | {hops} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

"""Random waypoint worlds for all simulators: the same places and flows in each of them.

    python3 bench/peers/waypoint.py worlds --seeds 5 --out /tmp/rwp                 # movement files, flows, scenarios
    python3 bench/peers/waypoint.py run --seeds 5 --rule first --program PATH       # delivery, routing load, delay
    python3 bench/peers/waypoint.py speed --program PATH                            # against ns-2, user time
    python3 bench/peers/waypoint.py cost --program PATH                             # moving nodes against resting ones

A world is that of Broch et al. 1998: uniform places, a full pause first, then a uniform destination at a uniform speed.
`move.tcl` is in ns-2's form, which Fairhop reads (`mobility.file`). Draws are those of Python's `random.Random`, the
Mersenne Twister, so that a world is the same on every machine. A source has one flow.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from simulator import FAIRHOP, fairhop  # noqa: E402

#: Student's t for a two-sided 95 % interval, by number of seeds.
T_975 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}


@dataclass(frozen=True)
class World:
    """Parameters of a world; lengths in metres, times in seconds."""

    seed: int = 1
    nodes: int = 50
    width: float = 1500.0
    height: float = 300.0
    pause: float = 0.0
    vmin: float = 1.0
    vmax: float = 20.0
    duration: float = 300.0
    flows: int = 20
    start_max: float = 30.0

    def movements(self) -> str:
        """The movement file."""
        key = f"rwp {self.seed} {self.pause} {self.vmin} {self.vmax} {self.nodes} {self.width} {self.height}"
        draw = random.Random(key)
        starts: list[str] = []
        turns: list[tuple[float, int, float, float, float]] = []
        for node in range(self.nodes):
            x, y, at = draw.uniform(0, self.width), draw.uniform(0, self.height), 0.0
            starts += [f"$node_({node}) set X_ {x:.6f}", f"$node_({node}) set Y_ {y:.6f}", f"$node_({node}) set Z_ 0.0"]
            while at < self.duration:
                at += self.pause
                if at >= self.duration:
                    break
                to_x, to_y = draw.uniform(0, self.width), draw.uniform(0, self.height)
                speed = draw.uniform(self.vmin, self.vmax)
                turns.append((at, node, to_x, to_y, speed))
                at += math.hypot(to_x - x, to_y - y) / speed
                x, y = to_x, to_y
        lines = [
            f'$ns_ at {at:.6f} "$node_({node}) setdest {x:.6f} {y:.6f} {speed:.6f}"'
            for at, node, x, y, speed in sorted(turns)
        ]
        return "\n".join(starts + lines) + "\n"

    def ends(self) -> list[tuple[int, int, float]]:
        """Source, destination and start of each flow."""
        draw = random.Random(f"flows {self.seed} {self.flows} {self.nodes}")
        seen: set[tuple[int, int]] = set()
        sources: set[int] = set()
        found: list[tuple[int, int, float]] = []
        while len(found) < self.flows:
            source, sink = draw.randrange(self.nodes), draw.randrange(self.nodes)
            if source == sink or (source, sink) in seen or (len(seen) < self.nodes and source in sources):
                continue
            seen.add((source, sink))
            sources.add(source)
            found.append((source, sink, draw.uniform(0, self.start_max)))
        return sorted(found, key=lambda flow: flow[2])

    def scenario(self, rule: str, routing: str) -> str:
        """The Fairhop scenario beside `move.tcl`."""
        radio = (
            'standard = "802.11b"\nrate_mbps = 2\nbasic_rates_mbps = [1]\n'
            f'propagation = {{ model = "range", receive_m = 250, carrier_sense_m = 550 }}\ncapture = "{rule}"\n'
        )
        flows = "".join(
            f'\n[[traffic]]\nkind = "cbr"\nfrom = {source}\nto = {sink}\nrate_kbps = 16.384\npayload_bytes = 512\n'
            f"start_s = {start:.6f}\n"
            for source, sink, start in self.ends()
        )
        return (
            f'name = "random waypoint, seed {self.seed}, pause {self.pause:g} s"\nduration_s = {self.duration:g}\n\n'
            f"[radio]\n{radio}\n"
            f'[topology]\nkind = "random"\nnodes = {self.nodes}\n'
            f"width_m = {self.width:g}\nheight_m = {self.height:g}\n\n"
            f'[mobility]\nfile = "move.tcl"\n\n[routing]\n{routing}\n{flows}'
        )

    def write(self, folder: Path, rule: str, routing: str) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "move.tcl").write_text(self.movements(), encoding="utf-8")
        flows = "\n".join(f"{source} {sink} {start:.6f}" for source, sink, start in self.ends())
        (folder / "flows.txt").write_text(flows + "\n", encoding="utf-8")
        path = folder / "scenario.toml"
        path.write_text(self.scenario(rule, routing), encoding="utf-8")
        return path


#: ns-2's AODV: link feedback, no HELLO, expanding ring from 5, routes for 10 s.
LIKE_NS2 = 'protocol = "aodv"\naodv = { hello = "off", link_feedback = true, ttl_start = 5, gratuitous = false }'


def interval(values: list[float], digits: int) -> str:
    if len(values) < 2:
        return f"{values[0]:.{digits}f}"
    half = T_975[len(values)] * statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.fmean(values):.{digits}f} ± {half:.{digits}f}"


def run(args: argparse.Namespace) -> None:
    delivery: list[float] = []
    delay: list[float] = []
    load: list[float] = []
    for seed in range(1, args.seeds + 1):
        world = World(seed=seed, pause=args.pause, duration=args.duration)
        path = world.write(args.out / f"{args.rule}-{args.pause:g}-{seed}", args.rule, args.routing)
        result = fairhop("run", path.name, "--seed", str(seed), program=args.program.resolve(), folder=path.parent)
        flows = result["flows"]
        sent = sum(float(flow["sent"]) for flow in flows)
        arrived = sum(float(flow["sent"]) * (1 - float(flow["loss"])) for flow in flows)
        delays = [(float(flow["sent"]) * (1 - float(flow["loss"])), flow["delay_ms"]) for flow in flows]
        delivery.append(arrived / sent)
        delay.append(sum(n * float(ms) for n, ms in delays if ms is not None) / arrived)
        routing = result.get("routing") or {}
        load.append(float(routing.get("load", math.nan)))
        print(f"seed {seed}: {delivery[-1]:.4f} {load[-1]:.3f} {delay[-1]:.1f} ms", flush=True)
    print(f"delivery {interval(delivery, 3)}, routing load {interval(load, 2)}, delay {interval(delay, 0)} ms")


def user_seconds(command: list[str], folder: Path) -> float:
    """User and system time of a command in seconds: the machine may be busy."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def speed(args: argparse.Namespace) -> None:
    folder = args.out / "speed"
    path = World(duration=args.duration).write(folder, "first", LIKE_NS2)
    script = Path(__file__).resolve().parent / "ns2" / "waypoint.tcl"
    commands = {
        "fairhop": [str(args.program.resolve()), "run", path.name, "--seed", "1", "--threads", "1"],
        "ns-2": ["ns", str(script), str(args.duration)],
    }
    # In turn, so that a slow minute of the machine affects both.
    rounds = [{name: user_seconds(command, folder) for name, command in commands.items()} for _ in range(args.seeds)]
    for name in commands:
        print(f"{name}: {min(times[name] for times in rounds):.2f} s of processor time, fastest of {len(rounds)}")
    ratios = [times["ns-2"] / times["fairhop"] for times in rounds]
    print(f"ratio {statistics.median(ratios):.1f} (median of {min(ratios):.1f} to {max(ratios):.1f})")


def cost(args: argparse.Namespace) -> None:
    """Processor time per frame of 1,000 nodes that move, and of the same at rest, at the density of the 50 nodes."""
    seconds: dict[str, float] = {}
    for name, pause in (("at rest", args.duration), ("moving", 0.0)):
        side = math.sqrt(1000 / 50)
        world = World(
            nodes=1000, width=1500 * side, height=300 * side, pause=pause, duration=args.duration, start_max=5
        )
        path = world.write(args.out / f"cost-{pause:g}", "first", LIKE_NS2)
        command = [str(args.program.resolve()), "run", path.name, "--json"]
        took = min(user_seconds(command, path.parent) for _ in range(args.seeds))
        frames = sum(
            node["frames_sent"]
            for node in fairhop(*command[1:-1], program=args.program.resolve(), folder=path.parent)["nodes"]
        )
        seconds[name] = took / frames
        print(f"{name}: {took:.2f} s of processor time, {frames:.0f} frames, {1e6 * took / frames:.1f} us a frame")
    print(f"ratio {seconds['moving'] / seconds['at rest']:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=("worlds", "run", "speed", "cost"))
    parser.add_argument("--seeds", type=int, default=5, help="worlds, from seed 1 on; of speed and cost: runs")
    parser.add_argument("--rule", default="first", help="capture rule")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds at each place")
    parser.add_argument("--duration", type=float, default=300.0)
    parser.add_argument("--routing", default=LIKE_NS2, help="section [routing] of the scenario")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "waypoint")
    parser.add_argument("--program", type=Path, default=FAIRHOP)
    args = parser.parse_args()
    if args.what == "worlds":
        for seed in range(1, args.seeds + 1):
            world = World(seed=seed, pause=args.pause, duration=args.duration)
            print(world.write(args.out / f"world-{seed}", args.rule, args.routing))
    elif args.what == "run":
        run(args)
    elif args.what == "speed":
        speed(args)
    else:
        cost(args)


if __name__ == "__main__":
    main()

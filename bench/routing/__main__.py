"""AODV on strings and with a walker, path density, control while routes break, captures.

    cargo build --release
    python3 bench/routing                      # everything that has no stored result yet
    python3 bench/routing --only first,cbr     # some tables
    python3 bench/routing --show               # the stored results as tables
    python3 bench/routing captures             # tshark on the captures of one run

Results are stored in out/routing, one line for each run, and are not computed again while they are there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from control import AWARE, WORLDS, Controlled, controlled
from simulator import FAIRHOP, ROOT, Result, fairhop, table
from walker import HANDOVERS_S, ROUTING, SEEDS, Walk, handover, walks

RESULTS = ROOT / "out" / "routing"
#: Of the files of results.
LOCK = Lock()

#: Capture rules of the peers in Fairhop's words: bench/peers/README.md.
RULES = {
    "ns2-first": 'capture = "first"\ncapture_db = 10.0\n'
    'propagation = { model = "range", receive_m = 250, carrier_sense_m = 550 }',
    "ns2-none": 'capture = "none"\npropagation = { model = "range", receive_m = 250, carrier_sense_m = 550 }',
    "ns3-range": 'capture = "none"\n'
    'propagation = { model = "range", receive_m = 250, carrier_sense_m = 550, preamble_m = 250 }',
}

#: Settings of [routing.aodv] by column; none for static routes.
PROTOCOLS: dict[str, str | None] = {
    "static": None,
    "both": 'hello = "active"',
    "feedback": 'hello = "off"',
    "HELLO": "link_feedback = false",
}


@dataclass(frozen=True)
class Case:
    """A run over a string of 802.11b nodes 200 m apart."""

    table: str
    hops: int
    rule: str
    protocol: str
    seed: int
    traffic: str
    duration_s: float
    warmup_s: float = 0.0
    settings: str | None = None
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its file."""
        rate = self.traffic.split()[0]
        return f"{self.table}-{self.hops}-{self.rule}-{self.protocol}-{rate}-{self.seed}".replace(" ", "")

    def scenario(self) -> str:
        """The scenario's text."""
        kind, _, load = self.traffic.partition(" ")
        settings = self.settings if self.settings is not None else PROTOCOLS[self.protocol]
        routing = "" if settings is None else f'[routing]\nprotocol = "aodv"\n\n[routing.aodv]\n{settings}\n'
        if kind == "tcp":
            flow = (
                'kind = "bulk"\nmss_bytes = 1460\nmax_window_packets = 64\nsack = false\nbyte_counting = false\n'
                "initial_window_packets = 2\ndelayed_ack_segments = 1\nrto_min_ms = 1000.0"
            )
        else:
            flow = 'kind = "cbr"\n' + load
        return (
            f'name = "{self.name}"\nduration_s = {self.duration_s}\nwarmup_s = {self.warmup_s}\n\n'
            f'[radio]\nstandard = "802.11b"\nrate_mbps = 2\nbasic_rates_mbps = [1]\n{RULES[self.rule]}\n\n'
            f'[topology]\nkind = "string"\nhops = {self.hops}\nspacing_m = 200\n\n'
            "[mac]\nshort_retry_limit = 7\nlong_retry_limit = 4\nturnaround_us = 0.0\nqueue = { packets = 49 }\n\n"
            f'{routing}\n[[traffic]]\nfrom = 0\nto = "last"\n{flow}\n'
        )

    def kept(self, result: Result, _folder: Path) -> dict[str, Any]:
        """What is stored of a run."""
        flow = result["flows"][0]
        return {
            "goodput_mbps": flow["goodput_mbps"],
            "delivered": 1 - flow["loss"],
            "lost": flow["lost"],
            "routing": result.get("routing"),
        }


def cbr(kbps: float, payload: int, start_s: float = 0.0) -> str:
    """Constant bit rate."""
    return f"cbr{kbps:g} rate_kbps = {kbps}\npayload_bytes = {payload}\nstart_s = {start_s}"


def first_cases() -> Iterator[Case]:
    """V1: the first packet, without HELLO and after HELLO by all nodes."""
    for hops in range(1, 9):
        for seed in range(1, 11):
            load = cbr(16.384, 512, 5.0)
            yield Case("first", hops, "ns2-first", "off", seed, load, 12.0, settings='hello = "off"')
            always = 'hello = "always"\nttl_start = 1'
            yield Case("first", hops, "ns2-first", "always", seed, load, 12.0, settings=always)


def cbr_cases() -> Iterator[Case]:
    """V2: constant bit rate over four hops."""
    for rule in RULES:
        for kbps in (100, 200, 300, 400, 800):
            for protocol in PROTOCOLS:
                for seed in range(1, 6):
                    yield Case("cbr", 4, rule, protocol, seed, cbr(kbps, 1000), 70.0, 10.0)


def tcp_cases() -> Iterator[Case]:
    """V2: one TCP flow."""
    for rule in RULES:
        for hops in (1, 2, 4, 6, 8):
            for protocol in PROTOCOLS:
                for seed in range(1, 6):
                    yield Case("tcp", hops, rule, protocol, seed, "tcp", 70.0, 10.0)


#: Values of `node_traversal_time_ms`, from which the waits of a discovery follow: the RFC's, and some near ns-2's.
TRAVERSAL_MS = (40, 20, 10)


def wait_cases() -> Iterator[Case]:
    """V2: one TCP flow under feedback and ns-2's settings, by how long a discovery waits for its reply."""
    for rule in ("ns2-first", "ns2-none"):
        for hops in (4, 6, 8):
            for traversal in TRAVERSAL_MS:
                settings = f'hello = "off"\nttl_start = 5\ngratuitous = false\nnode_traversal_time_ms = {traversal}'
                for seed in range(1, 6):
                    yield Case("waits", hops, rule, f"{traversal} ms", seed, "tcp", 70.0, 10.0, settings)


#: Numbers of flows over three hops whose overhead is measured.
DENSITIES = (1, 2, 4, 9)
#: Bytes of a HELLO without extension: IPv4, UDP and RREP.
HELLO_BYTES = 48
#: What a flow over three hops carries alone. It stands for all lengths, so that the limit of a source is its share.
THR_MAX_KBPS = 348


@dataclass(frozen=True)
class Shares(Case):
    """Throttled TCP flows of three hops on lines 20 m apart, with shares by the path density protocol."""

    def scenario(self) -> str:
        """The scenario's text."""
        flow = 'kind = "bulk"\nmss_bytes = 600\ndelayed_ack_segments = 1\nbyte_counting = false'
        flows = "".join(
            f"[[traffic]]\nfrom = {4 * line}\nto = {4 * line + 3}\n{flow}\n" for line in range(int(self.protocol))
        )
        return (
            f'name = "{self.name}"\nduration_s = {self.duration_s}\nwarmup_s = {self.warmup_s}\n\n'
            f'[radio]\nstandard = "802.11b"\nrate_mbps = 2\nbasic_rates_mbps = [1]\ncapture = "first"\n'
            f'propagation = {{ model = "range", receive_m = 250, carrier_sense_m = 500 }}\n\n'
            f'[topology]\nkind = "string"\nhops = 3\nspacing_m = 200\nlines = {self.protocol}\nline_spacing_m = 20\n\n'
            f'[routing]\nprotocol = "aodv"\naodv = {{ pdp = true }}\n\n'
            f'[control]\nkind = "throttle"\nthr_max_kbps = {[THR_MAX_KBPS] * 6}\n\n{flows}'
        )

    def kept(self, result: Result, _folder: Path) -> dict[str, Any]:
        """What is stored of a run."""
        return {
            "limits_kbps": [1e3 * flow["limit_mbps"] for flow in result["flows"] if flow.get("limit_mbps")],
            "goodput_kbps": [1e3 * flow["goodput_mbps"] for flow in result["flows"]],
            "seconds": self.duration_s - self.warmup_s,
            "routing": result["routing"],
        }


def share_cases() -> Iterator[Case]:
    """V9: overhead of the path density protocol."""
    for flows in DENSITIES:
        for seed in range(1, 4):
            yield Shares("pdp", 3, "first", str(flows), seed, "tcp", 90.0, 30.0)


#: A run of some table.
Run = Case | Walk | Controlled
#: Cases by table.
CASES: dict[str, Callable[[], Iterator[Run]]] = {
    "first": first_cases,
    "cbr": cbr_cases,
    "tcp": tcp_cases,
    "waits": wait_cases,
    "walker": walks,
    "pdp": share_cases,
    "control": controlled,
}


def cases_of(name: str) -> list[Run]:
    """The cases of a table."""
    return list(CASES[name]())


@cache
def store(name: str) -> dict[str, dict[str, Any]]:
    """The results of a table by case."""
    path = RESULTS / f"{name}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {result["case"]: result for result in map(json.loads, lines)}


def stored(case: Run) -> dict[str, Any] | None:
    """The result of a case, if it has one."""
    return store(case.table).get(case.name)


def run(case: Run, program: Path) -> None:
    """Computes a case that has no result."""
    if stored(case) is not None:
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "case.toml").write_text(case.scenario(), encoding="utf-8")
        command = ("run", "case.toml", "--seed", str(case.seed), *case.options)
        result = fairhop(*command, program=program.resolve(), folder=folder)
        kept = {"case": case.name, **case.kept(result, folder)}
    with LOCK:
        RESULTS.mkdir(parents=True, exist_ok=True)
        with (RESULTS / f"{case.table}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(kept) + "\n")
        store(case.table)[case.name] = kept


def mean(values: list[float], digits: int) -> str:
    """Mean and half the width of the 95 % interval (Student t with 4 or 9 degrees of freedom)."""
    if len(values) < 2:
        return f"{values[0]:.{digits}f}" if values else "-"
    quantile = {3: 4.303, 5: 2.776, 10: 2.262}.get(len(values), 2.0)
    half = quantile * statistics.stdev(values) / len(values) ** 0.5
    text = f"{statistics.mean(values):.{digits}f}"
    return text if half < 0.5 * 10**-digits else f"{text} ± {half:.{digits}f}"


def of(cases: Sequence[Run], value: Callable[[dict[str, Any]], float | None]) -> list[float]:
    """The figures of those cases that have a result."""
    results = [value(result) for case in cases if (result := stored(case)) is not None]
    return [figure for figure in results if figure is not None]


def show_first() -> str:
    """The median delay of the first packet by hops."""
    cases = list(first_cases())
    rows = []
    for protocol in ("off", "always"):
        cells = []
        for hops in range(1, 9):
            mine = [case for case in cases if case.hops == hops and case.protocol == protocol]
            delays = of(mine, lambda result: result["routing"]["paths"][0]["first_packet_ms"])
            cells.append(f"{statistics.median(delays):.1f}" if delays else "-")
        rows.append([f"HELLO {protocol}", *cells])
    return table(["hops", *(str(hops) for hops in range(1, 9))], rows)


def show_grid(name: str, key: Callable[[Case], str], value: Callable[[dict[str, Any]], float], head: str) -> str:
    """A table by rule and load or hops, with a column for each protocol and the false breaks of `both`."""
    cases = [case for case in CASES[name]() if isinstance(case, Case)]
    rows = []
    for rule in RULES:
        for point in dict.fromkeys(key(case) for case in cases):
            mine = [case for case in cases if case.rule == rule and key(case) == point]
            cells = [mean(of([case for case in mine if case.protocol == protocol], value), 3) for protocol in PROTOCOLS]
            both = [case for case in mine if case.protocol == "both"]
            breaks = mean(of(both, lambda result: result["routing"]["false_breaks"]), 0)
            rows.append([rule, point, *cells, breaks])
    return table(["rule", head, *PROTOCOLS, "false breaks of both"], rows)


def show_waits() -> str:
    """Goodput by hops and waits, and the longest silence."""
    cases = list(wait_cases())
    columns = [f"{traversal} ms" for traversal in TRAVERSAL_MS]
    rows = []
    for rule, hops in dict.fromkeys((case.rule, case.hops) for case in cases):
        row = [rule, str(hops)]
        for column in columns:
            mine = [case for case in cases if (case.rule, case.hops, case.protocol) == (rule, hops, column)]
            silent = of(mine, lambda result: result["routing"]["paths"][0]["interrupted_s"])
            row.append(mean(of(mine, itemgetter("goodput_mbps")), 3) + f"; {mean(silent, 0)} s")
        rows.append(row)
    return table(["rule", "hops", *columns], rows)


def show_walker(traffic: str) -> str:
    """Losses or goodput of the walker's flow, and the silences at its handovers."""
    rows = []
    for routing in ROUTING:
        mine = [Walk(traffic, routing, seed) for seed in range(1, SEEDS[traffic] + 1)]
        if traffic == "cbr":
            figure = mean(of(mine, lambda result: sum(result["lost"].values())), 0)
        else:
            figure = mean(of(mine, lambda result: result["goodput_mbps"]), 3)
        silences = []
        for name in HANDOVERS_S:
            lengths = of(mine, partial(handover, name))
            silences.append(f"{min(lengths):.1f} to {max(lengths):.1f}" if any(lengths) else "none")
        rows.append([routing, figure, *silences])
    head = "packets lost of 2840" if traffic == "cbr" else "Mb/s"
    return table(["routing", head, *(f"silence at {name}, s" for name in HANDOVERS_S)], rows)


def overhead(case: Case, part: str, result: dict[str, Any]) -> float:
    """kb/s of a part of the overhead for each flow."""
    messages, sent = result["routing"]["bytes"], result["routing"]["messages"]
    hellos = HELLO_BYTES * sent["hello"]
    parts = {
        "extension": messages["hello"] - hellos,
        "HELLO without it": hellos,
        "other": sum(messages.values()) - messages["hello"],
    }
    return float(parts[part] * 8 / 1e3 / result["seconds"] / int(case.protocol))


def distance(flows: int, result: dict[str, Any]) -> float:
    """The largest distance of a source's share from an equal one, as a part of it."""
    return max(abs(float(limit) * flows / THR_MAX_KBPS - 1) for limit in result["limits_kbps"])


def show_shares() -> str:
    """Overhead of the path density protocol for each flow, and how far shares are from equal ones."""
    cases = list(share_cases())
    rows = []
    for flows in DENSITIES:
        mine = [case for case in cases if isinstance(case, Case) and case.protocol == str(flows)]
        parts = []
        for part in ("extension", "HELLO without it", "other"):
            results = [(case, stored(case)) for case in mine]
            parts.append([overhead(case, part, result) for case, result in results if result is not None])
        off = of(mine, partial(distance, flows))
        cells = [mean(figures, 2) for figures in parts]
        rows.append([str(flows), *cells, f"{100 * max(off, default=0.0):.2f} %"])
    heads = ["flows", "extension", "HELLO without it", "RREQ, RREP, RERR", "largest distance from an equal share"]
    return table(heads, rows)


def show_control() -> str:
    """TCP and calls by world, unaware → aware of broken routes."""
    rows = []
    for world in WORLDS:
        cells = []
        for key, digits in (
            ("tcp_mbps", 2),
            ("tcp_after_mbps", 2),
            ("clear", 3),
            ("clear_after", 3),
            ("learnt_anew", 1),
            ("named_s", 1),
        ):
            values = []
            for aware in AWARE:
                mine = [case for case in controlled() if case.world == world and case.aware == aware]
                figures = of(mine, itemgetter(key))
                values.append(f"{statistics.mean(figures):.{digits}f}" if figures else "-")
            cells.append(values[-1] if key == "named_s" else " → ".join(dict.fromkeys(values)))
        rows.append([world, *cells])
    heads = [
        "world",
        "TCP, Mb/s",
        "TCP after outages",
        "good seconds of calls",
        "the same after outages",
        "learnt anew",
        "named, s",
    ]
    return table(heads, rows)


def show(names: list[str]) -> None:
    """Prints stored results."""
    if "first" in names:
        print("First packet, ms (median of 10 seeds)\n\n" + show_first())
    if "cbr" in names:
        print("Delivered / sent over 4 hops\n")
        print(show_grid("cbr", lambda case: case.traffic.split()[0][3:], lambda result: result["delivered"], "kb/s"))
    if "tcp" in names:
        print("One TCP flow, Mb/s\n")
        print(show_grid("tcp", lambda case: str(case.hops), lambda result: result["goodput_mbps"], "hops"))
    if "waits" in names:
        print("One TCP flow under feedback by node_traversal_time_ms, Mb/s; silent for\n\n" + show_waits())
    if "walker" in names:
        print("The walker, CBR of 20 packets of 1000 bytes a second\n\n" + show_walker("cbr"))
        print("The walker, TCP\n\n" + show_walker("tcp"))
    if "pdp" in names:
        print("Overhead of path density, kb/s for each flow of three hops\n\n" + show_shares())
    if "control" in names:
        print("Adaptive control, unaware → aware of broken routes\n\n" + show_control())
    loops = [
        result["routing"]["loops"]
        for name in names
        for case in cases_of(name)
        if (result := stored(case)) is not None and result["routing"]
    ]
    print(f"{len(loops)} runs with AODV, {sum(loops):.0f} loops")


def captures(program: Path) -> int:
    """Runs one case with captures and lets tshark read them. Fails if a message is malformed or unnamed."""
    case = Case("capture", 4, "ns2-none", "both", 1, cbr(400, 1000), 30.0)
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "case.toml"
        scenario.write_text(case.scenario(), encoding="utf-8")
        fairhop("run", str(scenario), "--out", f"{folder}/out", "--pcap", program=program)
        counts: dict[str, int] = {}
        bad = 0
        for capture in sorted(Path(folder).rglob("*.pcapng")):
            # UDP and IP checksums are off by default in tshark.
            base = ["tshark", "-r", str(capture), "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
            types = subprocess.run(
                [*base, "-Y", "aodv", "-T", "fields", "-e", "aodv.type"], capture_output=True, text=True, check=True
            )
            for kind in types.stdout.split():
                counts[kind] = counts.get(kind, 0) + 1
            wrong = "udp.port == 654 && (!aodv || _ws.malformed || udp.checksum.status == 0 || ip.checksum.status == 0)"
            bad += len(
                subprocess.run([*base, "-Y", wrong], capture_output=True, text=True, check=True).stdout.splitlines()
            )
    print(f"aodv.type: {counts}; malformed, unnamed or with a wrong checksum: {bad}")
    return 1 if bad or not counts else 0


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["tables", "captures"], default="tables")
    parser.add_argument("--only", help=f"tables, separated by commas: {', '.join(CASES)}")
    parser.add_argument("--show", action="store_true", help="print the stored results and compute nothing")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    parser.add_argument("--program", type=Path, default=FAIRHOP, help="the program to run")
    arguments = parser.parse_args()
    if arguments.what == "captures":
        return captures(arguments.program)
    names = arguments.only.split(",") if arguments.only else list(CASES)
    if not arguments.show:
        cases = [case for name in names for case in cases_of(name)]
        with ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(lambda case: run(case, arguments.program), cases))
    show(names)
    return 0


if __name__ == "__main__":
    sys.exit(main())

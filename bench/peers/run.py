"""Run the same scenarios in ns-2, ns-3 and Fairhop, and print the figures side by side.

A scenario is one `World`; from it come the arguments of `ns2/world.tcl` and `ns3/world.cc` and the TOML that Fairhop
runs, so the three cannot drift apart. A `Rule` is a capture rule as one peer realizes it, and the same in Fairhop's
words. README.md explains the parameters and the known differences between the models.

Results go to one JSON file per case. Runs of one simulator replace only that simulator's part of the file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NS2_SCRIPT = HERE / "ns2" / "world.tcl"
NS3_PROGRAM = HERE / "ns3" / "world"
FAIRHOP = HERE.parents[1] / "target" / "release" / "fairhop"

#: A packet sent in the last second may still be on its way at the end; no voice statistic counts it.
SETTLE_S = 1.0
#: Playout delay after the fastest packet of a stream, and the vocoder's share (kim2010).
PLAYOUT_MS = 60.0
VOCODER_MS = 25.0
#: A call is good from here on.
MOS_GOOD = 3.6

Figures = dict[str, float]


@dataclass(frozen=True)
class World:
    """One scenario in words that all three simulators have. Times in seconds, rates in Mb/s unless the name says so."""

    topology: str = "string"
    hops: int = 4
    lines: int = 1
    columns: int = 10
    rows: int = 10
    stations: int = 10
    standard: str = "11a"
    rate_mbps: int = 12
    basic_mbps: int = 6
    rts: bool = False
    internet: bool = True
    calls: int = 0
    tcp: int = 0
    burst: int = 0
    cbr_kbps: float = 0.0
    cbr_payload: int = 1000
    mss: int = 1460
    delack: int = 2
    duration: float = 65.0
    warmup: float = 5.0


@dataclass(frozen=True)
class Rule:
    """A capture rule as one peer realizes it."""

    name: str
    peer: str
    setting: str


RULES = (
    Rule("ns2-none", "ns2", "1000"),
    Rule("ns2-first", "ns2", "10"),
    Rule("ns3-disc", "ns3", "disc"),
    Rule("ns3-lock", "ns3", "lock"),
)
#: `lock` relies on OFDM's thresholds.
DSSS_RULES = tuple(r for r in RULES if r.name != "ns3-lock")


@dataclass(frozen=True)
class Point:
    """A world with a name in its case's table. `timing` runs are made without traces and report wall time only."""

    label: str
    world: World
    timing: bool = False


@dataclass(frozen=True)
class Case:
    """Points that belong in one table, and the figures that it shows."""

    name: str
    title: str
    points: tuple[Point, ...]
    shows: tuple[str, ...]
    seeds: int = 5
    rules: tuple[Rule, ...] = field(default=RULES)


def cases() -> list[Case]:
    """Every case of the comparison, cheapest first."""
    osipov = World(standard="11b", rate_mbps=2, basic_mbps=1, mss=600, delack=1, internet=False, tcp=1)
    timed = replace(World(), warmup=0.0)
    return [
        Case(
            "k-mix",
            "4 hops, 802.11a 12 Mb/s: 5 calls and 3 TCP, and TCP alone",
            (
                Point("5 calls + 3 TCP", World(calls=5, tcp=3)),
                Point("3 TCP alone", World(tcp=3)),
                Point("5 calls alone", World(calls=5)),
            ),
            ("tcp_mbps", "mos", "mos_down", "mos_up"),
        ),
        Case(
            "k-cap-t",
            "one TCP flow from the Internet over 1 to 8 hops, 802.11a 12 Mb/s",
            tuple(Point(f"{h} hops", World(hops=h, tcp=1)) for h in range(1, 9)),
            ("tcp_mbps",),
            seeds=3,
        ),
        Case(
            "k-cap-v",
            "4 hops, 802.11a 12 Mb/s: calls alone",
            tuple(Point(f"{c} calls", World(calls=c)) for c in range(8, 14)),
            ("mos", "mos_worst"),
            seeds=3,
        ),
        Case(
            "k-burst",
            "4 hops, 802.11a 12 Mb/s: 5 calls and 550 kb/s of 1500-byte packets in bursts",
            tuple(Point(f"burst {b}", World(calls=5, burst=b)) for b in range(1, 6)),
            ("voice_loss_pct", "voice_delay_ms", "data_kbps", "data_delay_ms", "mos"),
            seeds=3,
        ),
        Case(
            "osipov",
            "one TCP flow over 1 to 9 hops, 802.11b 2 Mb/s, MSS 600, an ACK a segment",
            tuple(
                Point(f"{h} hops{', RTS' if rts else ''}", replace(osipov, hops=h, rts=rts))
                for rts in (False, True)
                for h in range(1, 10)
            ),
            ("tcp_mbps",),
            seeds=3,
            rules=DSSS_RULES,
        ),
        Case(
            "cell",
            "n saturated stations and one receiver in one cell, 1000-byte payload",
            tuple(
                Point(
                    f"{std} n={n}{', RTS' if rts else ''}",
                    World(
                        topology="cell",
                        stations=n,
                        standard=std,
                        rate_mbps=rate,
                        basic_mbps=basic,
                        rts=rts,
                        internet=False,
                        cbr_kbps=1.2e3 * rate / n,
                        duration=25.0,
                    ),
                )
                for std, rate, basic in (("11a", 12, 6), ("11b", 2, 1))
                for rts in (False, True)
                for n in (1, 5, 20)
            ),
            ("udp_mbps",),
            seeds=3,
            rules=tuple(r for r in RULES if r.name in ("ns2-none", "ns3-disc")),
        ),
        Case(
            "speed",
            "wall time, one core, no traces",
            (
                Point("K-MIX, 100 s", replace(timed, calls=5, tcp=3, duration=100.0), timing=True),
                Point(
                    "three 3-hop flows, 802.11b, 100 s",
                    replace(osipov, hops=3, lines=3, tcp=3, duration=100.0, warmup=0.0),
                    timing=True,
                ),
                Point(
                    "10 x 10 grid, ten CBR flows, 30 s",
                    replace(timed, topology="grid", internet=False, cbr_kbps=100.0, duration=30.0),
                    timing=True,
                ),
            ),
            ("wall_run_ms", "cpu_ms", "wall_stock_ms", "cpu_stock_ms"),
            seeds=3,
        ),
    ]


# ---- the E-model ----------------------------------------------------------------------------------------------------


def mos(loss: float, network_ms: float) -> float:
    """MOS of G.729a by the E-model as Cole and Rosenbluth simplify it; R to MOS by ITU-T G.107 annex B."""
    delay = VOCODER_MS + PLAYOUT_MS + network_ms
    impairment = 0.024 * delay + (0.11 * (delay - 177.3) if delay > 177.3 else 0.0)
    r = 94.2 - impairment - 11.0 - 40.0 * math.log(1.0 + 10.0 * loss)
    if r <= 0.0:
        return 1.0
    return min(4.5, max(1.0, 1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)))


def judge(sent: int, delays_ms: list[float]) -> tuple[float, float, float, float]:
    """MOS, loss, late and mean delay (ms) of one direction of a call.

    A packet is played 60 ms after the fastest one of its stream would have been: what comes later is lost to the ear,
    and the network's part of the mouth-to-ear delay is that of the fastest packet.
    """
    if not sent or not delays_ms:
        return 1.0, 1.0, 0.0, math.nan
    fastest = min(delays_ms)
    late = sum(d > fastest + PLAYOUT_MS for d in delays_ms) / sent
    loss = 1.0 - len(delays_ms) / sent
    return mos(loss + late, fastest), loss, late, statistics.fmean(delays_ms)


def figures(streams: dict[str, tuple[int, list[float]]], world: World) -> Figures:
    """Figures over all calls and the burst, from packets sent and delays (ms) by stream."""
    out: Figures = {}
    span = world.duration - world.warmup - SETTLE_S
    calls = {name: judge(*s) for name, s in streams.items() if name.startswith("call-")}
    if calls:
        out["mos"] = statistics.fmean(c[0] for c in calls.values())
        out["mos_worst"] = min(c[0] for c in calls.values())
        for way in ("down", "up"):
            out[f"mos_{way}"] = statistics.fmean(c[0] for n, c in calls.items() if n.endswith(way))
        out["voice_loss_pct"] = 100 * statistics.fmean(c[1] for c in calls.values())
        out["voice_late_pct"] = 100 * statistics.fmean(c[2] for c in calls.values())
        out["voice_delay_ms"] = statistics.fmean(c[3] for c in calls.values())
    if "burst" in streams:
        sent, delays = streams["burst"]
        out["data_kbps"] = len(delays) * 1500 * 8e-3 / span
        out["data_loss_pct"] = 100 * (1 - len(delays) / sent)
        out["data_delay_ms"] = statistics.fmean(delays)
    return out


def peer_arguments(world: World, seed: int) -> dict[str, object]:
    """What both peers' programs are told about a world, in their common words."""
    return {
        "topology": world.topology, "hops": world.hops, "lines": world.lines, "columns": world.columns,
        "rows": world.rows, "stations": world.stations, "standard": world.standard, "rate": world.rate_mbps,
        "rts": int(world.rts), "internet": int(world.internet), "calls": world.calls, "tcp": world.tcp,
        "burst": world.burst, "cbr_kbps": world.cbr_kbps, "cbr_payload": world.cbr_payload, "mss": world.mss,
        "delack": world.delack, "duration": world.duration, "warmup": world.warmup, "seed": seed,
    }  # fmt: skip


# ---- ns-2 -----------------------------------------------------------------------------------------------------------


def read_ns2_trace(lines: Iterator[str], world: World) -> dict[int, tuple[int, list[float]]]:
    """Packets sent and delays (ms) by flow number, from the `+` and `r` lines of ns-2; the warm-up does not count."""
    under_way: dict[tuple[int, str], float] = {}
    sent: dict[int, int] = {}
    delays: dict[int, list[float]] = {}
    for line in lines:
        kind, at, _, _, _, _, _, flow, _, _, number, _ = line.split()
        key = (int(flow), number)
        if kind == "+":
            if world.warmup <= float(at) < world.duration - SETTLE_S:
                under_way[key] = float(at)
                sent[key[0]] = sent.get(key[0], 0) + 1
        elif (started := under_way.pop(key, None)) is not None:
            delays.setdefault(key[0], []).append((float(at) - started) * 1e3)
    return {flow: (n, delays.get(flow, [])) for flow, n in sent.items()}


def run_ns2(world: World, rule: Rule, seed: int, extra: tuple[str, ...] = (), traced: bool = True) -> Figures:
    """One run of ns-2. The trace goes through a pipe and is read as it comes."""
    told = peer_arguments(world, seed) | {"basic": world.basic_mbps, "cpthresh": rule.setting}
    command = ["ns", str(NS2_SCRIPT), *(str(x) for pair in told.items() for x in pair), *extra]
    # Without calls or bursts nothing would be traced.
    reader, writer = os.pipe() if traced and (world.calls or world.burst) else (None, None)
    passed = () if writer is None else (writer,)
    if writer is not None:
        command += ["trace", f"/dev/fd/{writer}"]
    cpu_before = children_cpu_ms()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, pass_fds=passed
    ) as process:
        flows: dict[int, tuple[int, list[float]]] = {}
        if reader is not None and writer is not None:
            os.close(writer)
            with os.fdopen(reader) as trace:
                flows = read_ns2_trace(trace, world)
        output = process.communicate()[0]
    if process.returncode:
        raise RuntimeError(f"ns-2 failed ({process.returncode}): {' '.join(command)}")
    names: dict[int, str] = {}
    tcp: list[tuple[float, float]] = []
    udp: list[float] = []
    out: Figures = {"cpu_ms": children_cpu_ms() - cpu_before}
    for line in output.splitlines():
        match line.split():
            case ["flow", number, name, *_]:
                names[int(number)] = name
            case ["tcp", _, goodput, sent]:
                tcp.append((float(goodput), float(sent)))
            case ["cbr", _, goodput]:
                udp.append(float(goodput))
            case ["wall_ms", run, total]:
                out |= {"wall_run_ms": float(run), "wall_total_ms": float(total)}
    if "wall_run_ms" not in out:
        raise RuntimeError(f"ns-2 did not finish: {' '.join(command)}")
    out |= totals(tcp, udp)
    return out | figures({names[f]: s for f, s in flows.items()}, world)


def children_cpu_ms() -> float:
    """Processor time of all child processes so far. Unlike wall time it does not suffer from other load."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (usage.ru_utime + usage.ru_stime)


def totals(tcp: list[tuple[float, float]], udp: list[float]) -> Figures:
    """Goodput over all flows, with the share of the sent bytes that it is."""
    out: Figures = {}
    if tcp:
        out["tcp_mbps"] = sum(goodput for goodput, _ in tcp)
        out["tcp_sent_mbps"] = sum(sent for _, sent in tcp)
    if udp:
        out["udp_mbps"] = sum(udp)
    return out


def time_ns2(world: World, rule: Rule, seed: int) -> Figures:
    """Wall time of ns-2 at its best (few headers, its fastest event list) and as it is installed."""
    runs = [run_ns2(world, rule, seed, ("scheduler", s), traced=False) for s in ("List", "Splay", "Heap")]
    best = min(runs, key=lambda r: r["cpu_ms"])
    stock = run_ns2(world, rule, seed, ("scheduler", "Calendar", "headers", "all"), traced=False)
    return best | {"wall_stock_ms": stock["wall_run_ms"], "cpu_stock_ms": stock["cpu_ms"]}


# ---- ns-3 -----------------------------------------------------------------------------------------------------------


def run_ns3(world: World, rule: Rule, seed: int) -> Figures:
    """One run of ns-3."""
    told = peer_arguments(world, seed) | {"rule": rule.setting}
    command = [str(NS3_PROGRAM), *(f"--{k}={v}" for k, v in told.items())]
    cpu_before = children_cpu_ms()
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"ns-3 failed ({process.returncode}): {' '.join(command)}\n{process.stderr[-500:]}")
    streams: dict[str, tuple[int, list[float]]] = {}
    tcp: list[tuple[float, float]] = []
    udp: list[float] = []
    out: Figures = {"cpu_ms": children_cpu_ms() - cpu_before}
    for line in process.stdout.splitlines():
        match line.split():
            case ["udp", name, sent, goodput, *delays_us]:
                streams[name] = (int(sent), [float(d) / 1e3 for d in delays_us])
                if name.startswith("cbr-"):
                    udp.append(float(goodput))
            case ["tcp", _, goodput, sent]:
                tcp.append((float(goodput), float(sent)))
            case ["wall_ms", run, total]:
                out |= {"wall_run_ms": float(run), "wall_total_ms": float(total)}
    return out | totals(tcp, udp) | figures(streams, world)


# ---- Fairhop --------------------------------------------------------------------------------------------------------


def table(name: str, **values: object) -> str:
    """A TOML table. Values are numbers, strings, booleans and lists of numbers, whose JSON form is also TOML."""
    body = "".join(
        f"{k} = {v if isinstance(v, str) and v.startswith('{') else json.dumps(v)}\n" for k, v in values.items()
    )
    return f"\n{name}\n{body}"


#: Each rule in Fairhop's words: distance between neighbours and the keys of `[radio]`.
FAIRHOP_RADIO: dict[str, tuple[float, dict[str, object]]] = {
    # Sensed frames lock and are followed by EIFS, as in ns-2.
    "ns2-none": (200.0, {
        "propagation": '{ model = "range", receive_m = 250, carrier_sense_m = 550 }',
        "reception": "threshold", "capture": "none",
    }),
    "ns2-first": (200.0, {
        "propagation": '{ model = "range", receive_m = 250, carrier_sense_m = 550 }',
        "reception": "threshold", "capture": "first", "capture_db": 10.0,
    }),
    # Sensed frames are energy only.
    "ns3-disc": (200.0, {
        "propagation": '{ model = "range", receive_m = 250, carrier_sense_m = 550, preamble_m = 250 }',
        "reception": "threshold", "capture": "none",
    }),
    # Preambles lock from an SNR of 4 dB up; noise is -94 dBm.
    "ns3-lock": (46.0, {
        "propagation": '{ model = "log-distance", exponent = 3.0, reference_loss_db = 46.6777 }',
        "reception": "sinr", "capture": "first", "tx_power_dbm": 16.0206, "noise_figure_db": 7.0,
        "preamble_detect_dbm": -90.0, "energy_detect_dbm": -90.8,
    }),
}  # fmt: skip


def scenario(title: str, world: World, rule: Rule) -> str:
    """The world as a Fairhop scenario."""
    spacing, radio = FAIRHOP_RADIO[rule.name]
    text = (
        f"name = {json.dumps(f'{title}, as {rule.name}')}\nduration_s = {world.duration}\nwarmup_s = {world.warmup}\n"
    )
    # ns-2 has one basic rate; ns-3 answers at the mandatory rates, which is what Fairhop does unless told otherwise.
    basic: dict[str, object] = {"basic_rates_mbps": [float(world.basic_mbps)]} if rule.peer == "ns2" else {}
    text += table(
        "[radio]", standard=f"802.{world.standard}", rate_mbps=float(world.rate_mbps), **basic, **radio
    )  # fmt: skip
    # Fairhop's queue does not count the packet in service, the peers' 50 do. Both peers notice a carrier up to the
    # instant of sending.
    mac: dict[str, object] = {
        "short_retry_limit": 7, "long_retry_limit": 4, "turnaround_us": 0.0, "queue": "{ packets = 49 }",
    }  # fmt: skip
    if world.rts:
        mac["rts_threshold_bytes"] = 0
    text += table("[mac]", **mac)
    paths: list[list[int]] = []
    if world.topology == "string":
        text += table(
            "[topology]", kind="string", hops=world.hops, spacing_m=spacing, lines=world.lines, line_spacing_m=spacing
        )
        size = world.hops + 1
        paths = [list(range(line * size, (line + 1) * size)) for line in range(world.lines)]
        ends = [(p[0], p[-1]) for p in paths]
    elif world.topology == "grid":
        text += table("[topology]", kind="grid", columns=world.columns, rows=world.rows, spacing_m=spacing)
        paths = [list(range(r * world.columns, (r + 1) * world.columns)) for r in range(world.rows)]
        ends = [(p[0], p[-1]) for p in paths]
    else:
        angles = [2 * math.pi * s / world.stations for s in range(world.stations)]
        places = [(0.0, 0.0), *((math.cos(a), math.sin(a)) for a in angles)]
        nodes = ", ".join(f"{{ x_m = {x:.6f}, y_m = {y:.6f} }}" for x, y in places)
        text += f'\n[topology]\nkind = "explicit"\nnodes = [{nodes}]\n'
        ends = [(s, 0) for s in range(1, world.stations + 1)]
    if paths:
        text += table("[routing]", paths=paths)
    if world.internet:
        text += table("[internet]", delay_ms=30.0, rate_mbps=100.0, queue="{ packets = 1000 }")
    if world.calls:
        text += table("[[traffic]]", kind="call", codec="g729a", count=world.calls, **{"from": 0, "to": ends[0][1]})
    if world.burst:
        text += table(
            "[[traffic]]", kind="burst", burst_packets=world.burst, rate_kbps=550.0, packet_bytes=1500,
            **{"from": 0, "to": ends[0][1]},
        )  # fmt: skip
    if world.cbr_kbps:
        for source, target in ends:
            text += table(
                "[[traffic]]", kind="cbr", rate_kbps=world.cbr_kbps, payload_bytes=world.cbr_payload,
                **{"from": source, "to": target},
            )  # fmt: skip
    # ns-2 has a window of 64 packets and no SACK, ns-3 a buffer of 128 KiB and SACK. Both grow the window by the ACK.
    window: dict[str, object] = (
        {"max_window_packets": 64, "sack": False}
        if rule.peer == "ns2"
        else {"receive_buffer_bytes": 131072, "sack": True}
    )
    for k in range(world.tcp):
        text += table(
            "[[traffic]]", kind="bulk", byte_counting=False, mss_bytes=world.mss, initial_window_packets=10,
            delayed_ack_segments=world.delack, delayed_ack_ms=200.0, rto_min_ms=1000.0, start_s=round(0.03 * k, 2),
            **window,
            **{"from": "internet" if world.internet else ends[k % len(ends)][0], "to": ends[k % len(ends)][1]},
        )  # fmt: skip
    return text


def run_fairhop(title: str, world: World, rule: Rule, seeds: list[int]) -> list[Figures]:
    """Fairhop's figures, one run per seed (so that the spread is known as for the peers)."""
    out: list[Figures] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "world.toml"
        path.write_text(scenario(title, world, rule), encoding="utf-8")
        for seed in seeds:
            command = [str(FAIRHOP), "run", str(path), "--seed", str(seed), "--json"]
            started, cpu_before = time.perf_counter(), children_cpu_ms()
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            total_ms, cpu_ms = 1e3 * (time.perf_counter() - started), children_cpu_ms() - cpu_before
            if process.returncode:
                raise RuntimeError(f"fairhop failed ({process.returncode}): {process.stderr[-2000:]}")
            walls = {"wall_total_ms": total_ms, "cpu_ms": cpu_ms}
            out.append(fairhop_figures(json.loads(process.stdout)) | walls)
    return out


def fairhop_figures(result: dict[str, Any]) -> Figures:
    """The figures of the comparison out of Fairhop's JSON."""
    out: Figures = {"wall_run_ms": 1e3 * result["wall_s"]}
    calls = result["calls"]
    flows = result["flows"]
    if calls:
        out["mos"] = statistics.fmean(c["mos"] for c in calls)
        out["mos_worst"] = min(c["mos_worst"] for c in calls)
        for way, direction in (("down", "forward"), ("up", "backward")):
            out[f"mos_{way}"] = statistics.fmean(c[direction]["mos"] for c in calls)
        out["voice_loss_pct"] = 100 * statistics.fmean(c["loss"] for c in calls)
        out["voice_late_pct"] = 100 * statistics.fmean(c["late"] for c in calls)
        out["voice_delay_ms"] = statistics.fmean(c["delay_ms"] for c in calls)
    bulk = [f for f in flows if f["kind"] == "bulk"]
    if bulk:
        out["tcp_mbps"] = sum(f["goodput_mbps"] for f in bulk)
        out["tcp_sent_mbps"] = sum(f["sent_mbps"] for f in bulk)
    cbr = [f for f in flows if f["kind"] == "cbr"]
    if cbr:
        out["udp_mbps"] = sum(f["goodput_mbps"] for f in cbr)
    for burst in (f for f in flows if f["kind"] == "burst"):
        # Goodput counts UDP payload; kim2010 and the peers count IP packets.
        out["data_kbps"] = 1e3 * burst["goodput_mbps"] * 1500 / 1472
        out["data_loss_pct"] = 100 * burst["loss"]
        out["data_delay_ms"] = burst["delay_ms"]
    return out


# ---- running and reporting ------------------------------------------------------------------------------------------


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
        return run_fairhop(f"{case.name}: {point.label}", point.world, rule, seeds)
    one: Callable[[World, Rule, int], Figures]
    one = (time_ns2 if point.timing else run_ns2) if rule.peer == "ns2" else run_ns3
    return [one(point.world, rule, seed) for seed in seeds]


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
            entry["world"] = vars(point.world)
            for rule in case.rules:
                if who not in ("fairhop", rule.peer):
                    continue
                if point.world.standard == "11b" and rule not in DSSS_RULES:
                    continue
                runs = run_point(case, point, rule, who, chosen)
                side = "fairhop" if who == "fairhop" else "peer"
                entry.setdefault(rule.name, {})[side] = {"seeds": chosen, **summarize(runs)}
                print(f"  {case.name}: {point.label}: {rule.name} {side}", file=sys.stderr, flush=True)
            path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def cell(entry: dict[str, Any], rule: str, side: str, figure: str) -> str:
    """One cell of the table: mean and standard deviation, or of wall times the median."""
    value = entry.get(rule, {}).get(side, {}).get(figure)
    if value is None:
        return "-"
    if figure.endswith("_ms") and "median" in value:
        return f"{value['median'] / 1e3:.3f} s"
    digits = 3 if abs(value["mean"]) < 1 else 2
    return f"{value['mean']:.{digits}f} ±{value['sd']:.{digits}f}"


def show(case: Case, result: dict[str, Any]) -> None:
    """Prints a case as one table per figure, peer beside Fairhop under each rule."""
    print(f"\n## {case.name}: {case.title}")
    for figure in case.shows:
        heads = [f"{r.name} {side}" for r in case.rules for side in ("peer", "fairhop")]
        print(f"\n{figure}")
        print("| |" + "|".join(heads) + "|\n|" + "---|" * (len(heads) + 1))
        for point in case.points:
            entry = result["points"].get(point.label, {})
            row = [cell(entry, r.name, side, figure) for r in case.rules for side in ("peer", "fairhop")]
            print(f"|{point.label}|" + "|".join(row) + "|")
    if any(point.timing for point in case.points):
        show_ratios(case, result)
    if case.name == "k-cap-v":
        for rule in case.rules:
            for side in ("peer", "fairhop"):
                if capacity := voice_capacity(case, result, rule, side):
                    print(f"K-CAP-V {rule.name} {side}: {capacity} calls")


def show_ratios(case: Case, result: dict[str, Any]) -> None:
    """Prints how many times as long as Fairhop a peer took, where both were timed: as installed, and at its best."""
    kinds = {
        "as installed, wall": ("wall_stock_ms", "wall_run_ms"),
        "as installed, processor": ("cpu_stock_ms", "cpu_ms"),
        "at its best, wall": ("wall_run_ms", "wall_run_ms"),
        "at its best, processor": ("cpu_ms", "cpu_ms"),
    }
    rows = []
    for point in case.points:
        for rule in case.rules:
            sides = result["points"].get(point.label, {}).get(rule.name, {})
            peer, fairhop = sides.get("peer", {}), sides.get("fairhop", {})
            ratios = [
                f"{peer[theirs]['median'] / fairhop[ours]['median']:.1f}" if theirs in peer and ours in fairhop else "-"
                for theirs, ours in kinds.values()
            ]
            if set(ratios) != {"-"}:
                rows.append(f"|{point.label}, {rule.name}|" + "|".join(ratios) + "|")
    if rows:
        print("\ntime of the peer / time of Fairhop\n| |" + "|".join(kinds) + "|\n|" + "---|" * (len(kinds) + 1))
        print("\n".join(rows))


def compare(case: Case, result: dict[str, Any]) -> None:
    """Prints a case as docs/validation/mac.md has it: peer, Fairhop and the difference in one cell."""
    print(f"\n### {case.name}: {case.title}")
    for figure in case.shows:
        rows: list[str] = []
        for point in case.points:
            row = [compared(result["points"].get(point.label, {}), rule.name, figure) for rule in case.rules]
            if any(row):
                rows.append(f"| {point.label} | " + " | ".join(row) + " |")
        heads = " | ".join(f"`{rule.name}`" for rule in case.rules)
        print(f"\n| {figure} | {heads} |\n|" + " --- |" * (len(case.rules) + 1))
        print("\n".join(rows))


def compared(entry: dict[str, Any], rule: str, figure: str) -> str:
    """Peer / Fairhop (difference); empty where one is missing."""
    values = [entry.get(rule, {}).get(side, {}).get(figure) for side in ("peer", "fairhop")]
    if None in values:
        return ""
    peer, ours = (value["mean"] for value in values)
    digits = 0 if peer >= 100 else 2 if peer >= 1 else 3
    pair = f"{peer:.{digits}f} / {ours:.{digits}f}"
    if figure.startswith("mos"):
        return f"{pair} ({ours - peer:+.2f})"
    return f"{pair} ({100 * (ours / peer - 1):+.0f} %)" if peer > 0.1 else pair


def voice_capacity(case: Case, result: dict[str, Any], rule: Rule, side: str) -> int:
    """Most calls of a case whose mean MOS is good; 0 if none is or none was run."""
    most = 0
    for point in case.points:
        score = result["points"].get(point.label, {}).get(rule.name, {}).get(side, {}).get("mos")
        if score is not None and score["mean"] >= MOS_GOOD:
            most = max(most, point.world.calls)
    return most


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
                    if point.world.standard == "11b" and rule not in DSSS_RULES:
                        continue
                    file = args.scenarios / f"{case.name}-{slug}-{rule.name}.toml"
                    file.write_text(scenario(f"{case.name}: {point.label}", point.world, rule), encoding="utf-8")
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

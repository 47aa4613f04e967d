"""Runs of ns-2 and ns-3. Both programs take a network as arguments and print the same lines of results."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from cases import Network, Rule
from measures import SETTLE_S, Figures, children_cpu_ms, figures, totals

HERE = Path(__file__).resolve().parent
NS2_SCRIPT = HERE / "ns2" / "network.tcl"
NS3_PROGRAM = HERE / "ns3" / "network"


def peer_arguments(network: Network, seed: int) -> dict[str, object]:
    """The arguments that describe a network to both peers' programs."""
    return {
        "topology": network.topology, "hops": network.hops, "lines": network.lines, "columns": network.columns,
        "rows": network.rows, "stations": network.stations, "standard": network.standard, "rate": network.rate_mbps,
        "rts": int(network.rts), "internet": int(network.internet), "calls": network.calls, "tcp": network.tcp,
        "burst": network.burst, "cbr_kbps": network.cbr_kbps, "cbr_payload": network.cbr_payload, "mss": network.mss,
        "delack": network.delack, "duration": network.duration, "warmup": network.warmup, "seed": seed,
    }  # fmt: skip


# ---- ns-2 -----------------------------------------------------------------------------------------------------------


def read_ns2_trace(lines: Iterator[str], network: Network) -> dict[int, tuple[int, list[float]]]:
    """Packets sent and delays (ms) by flow number, from the `+` and `r` lines of ns-2; the warm-up does not count."""
    under_way: dict[tuple[int, str], float] = {}
    sent: dict[int, int] = {}
    delays: dict[int, list[float]] = {}
    for line in lines:
        kind, at, _, _, _, _, _, flow, _, _, number, _ = line.split()
        key = (int(flow), number)
        if kind == "+":
            if network.warmup <= float(at) < network.duration - SETTLE_S:
                under_way[key] = float(at)
                sent[key[0]] = sent.get(key[0], 0) + 1
        elif (started := under_way.pop(key, None)) is not None:
            delays.setdefault(key[0], []).append((float(at) - started) * 1e3)
    return {flow: (n, delays.get(flow, [])) for flow, n in sent.items()}


def run_ns2(network: Network, rule: Rule, seed: int, extra: tuple[str, ...] = (), traced: bool = True) -> Figures:
    """One run of ns-2. The trace is read through a pipe while the program runs."""
    arguments = peer_arguments(network, seed) | {"basic": network.basic_mbps, "cpthresh": rule.setting}
    command = ["ns", str(NS2_SCRIPT), *(str(x) for pair in arguments.items() for x in pair), *extra]
    # Without calls or bursts nothing would be traced.
    reader, writer = os.pipe() if traced and (network.calls or network.burst) else (None, None)
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
                flows = read_ns2_trace(trace, network)
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
    return out | figures({names[f]: s for f, s in flows.items()}, network)


def time_ns2(network: Network, rule: Rule, seed: int) -> Figures:
    """Wall time of ns-2 at its best (few headers, its fastest event list) and as it is installed."""
    runs = [run_ns2(network, rule, seed, ("scheduler", s), traced=False) for s in ("List", "Splay", "Heap")]
    best = min(runs, key=lambda r: r["cpu_ms"])
    stock = run_ns2(network, rule, seed, ("scheduler", "Calendar", "headers", "all"), traced=False)
    return best | {"wall_stock_ms": stock["wall_run_ms"], "cpu_stock_ms": stock["cpu_ms"]}


# ---- ns-3 -----------------------------------------------------------------------------------------------------------


def run_ns3(network: Network, rule: Rule, seed: int) -> Figures:
    """One run of ns-3."""
    arguments = peer_arguments(network, seed) | {"rule": rule.setting}
    command = [str(NS3_PROGRAM), *(f"--{k}={v}" for k, v in arguments.items())]
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
    return out | totals(tcp, udp) | figures(streams, network)

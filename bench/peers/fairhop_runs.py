"""The networks as Fairhop scenarios, and Fairhop's runs of them."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from cases import Network, Rule
from measures import Figures, children_cpu_ms

FAIRHOP = Path(__file__).resolve().parents[2] / "target" / "release" / "fairhop"


def toml_table(name: str, **values: object) -> str:
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


def scenario(title: str, network: Network, rule: Rule) -> str:
    """The network as a Fairhop scenario."""
    spacing, radio = FAIRHOP_RADIO[rule.name]
    text = f"name = {json.dumps(f'{title}, as {rule.name}')}\n"
    text += f"duration_s = {network.duration}\nwarmup_s = {network.warmup}\n"
    # ns-2 has one basic rate; ns-3 answers at the mandatory rates, as Fairhop does by default.
    basic: dict[str, object] = {"basic_rates_mbps": [float(network.basic_mbps)]} if rule.peer == "ns2" else {}
    text += toml_table(
        "[radio]", standard=f"802.{network.standard}", rate_mbps=float(network.rate_mbps), **basic, **radio
    )  # fmt: skip
    # Fairhop's queue does not count the packet in service; the 50 packets of the peers do. Both peers sense a carrier
    # up to the instant of sending.
    mac: dict[str, object] = {
        "short_retry_limit": 7, "long_retry_limit": 4, "turnaround_us": 0.0, "queue": "{ packets = 49 }",
    }  # fmt: skip
    if network.rts:
        mac["rts_threshold_bytes"] = 0
    text += toml_table("[mac]", **mac)
    paths: list[list[int]] = []
    if network.topology == "string":
        text += toml_table(
            "[topology]",
            kind="string",
            hops=network.hops,
            spacing_m=spacing,
            lines=network.lines,
            line_spacing_m=spacing,
        )
        size = network.hops + 1
        paths = [list(range(line * size, (line + 1) * size)) for line in range(network.lines)]
        ends = [(p[0], p[-1]) for p in paths]
    elif network.topology == "grid":
        text += toml_table("[topology]", kind="grid", columns=network.columns, rows=network.rows, spacing_m=spacing)
        paths = [list(range(r * network.columns, (r + 1) * network.columns)) for r in range(network.rows)]
        ends = [(p[0], p[-1]) for p in paths]
    else:
        angles = [2 * math.pi * s / network.stations for s in range(network.stations)]
        places = [(0.0, 0.0), *((math.cos(a), math.sin(a)) for a in angles)]
        nodes = ", ".join(f"{{ x_m = {x:.6f}, y_m = {y:.6f} }}" for x, y in places)
        text += f'\n[topology]\nkind = "explicit"\nnodes = [{nodes}]\n'
        ends = [(s, 0) for s in range(1, network.stations + 1)]
    if paths:
        text += toml_table("[routing]", paths=paths)
    if network.internet:
        text += toml_table("[internet]", delay_ms=30.0, rate_mbps=100.0, queue="{ packets = 1000 }")
    if network.calls:
        text += toml_table(
            "[[traffic]]", kind="call", codec="g729a", count=network.calls, **{"from": 0, "to": ends[0][1]}
        )
    if network.burst:
        text += toml_table(
            "[[traffic]]", kind="burst", burst_packets=network.burst, rate_kbps=550.0, packet_bytes=1500,
            **{"from": 0, "to": ends[0][1]},
        )  # fmt: skip
    if network.cbr_kbps:
        for source, target in ends:
            text += toml_table(
                "[[traffic]]", kind="cbr", rate_kbps=network.cbr_kbps, payload_bytes=network.cbr_payload,
                **{"from": source, "to": target},
            )  # fmt: skip
    # ns-2 has a window of 64 packets and no SACK, ns-3 a buffer of 128 KiB and SACK. Both grow the window by the ACK.
    window: dict[str, object] = (
        {"max_window_packets": 64, "sack": False}
        if rule.peer == "ns2"
        else {"receive_buffer_bytes": 131072, "sack": True}
    )
    for k in range(network.tcp):
        text += toml_table(
            "[[traffic]]", kind="bulk", byte_counting=False, mss_bytes=network.mss, initial_window_packets=10,
            delayed_ack_segments=network.delack, delayed_ack_ms=200.0, rto_min_ms=1000.0, start_s=round(0.03 * k, 2),
            **window,
            **{"from": "internet" if network.internet else ends[k % len(ends)][0], "to": ends[k % len(ends)][1]},
        )  # fmt: skip
    return text


def run_fairhop(title: str, network: Network, rule: Rule, seeds: list[int]) -> list[Figures]:
    """Fairhop's figures, by seed."""
    out: list[Figures] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.toml"
        path.write_text(scenario(title, network, rule), encoding="utf-8")
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
    """The figures of the comparison, from Fairhop's JSON."""
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

"""Figures of a run: MOS by the E-model, loss and delay of streams, goodput."""

from __future__ import annotations

import math
import resource
import statistics

from cases import Network

#: Packets sent in the last second may still be under way at the end, so voice statistics leave them out.
SETTLE_S = 1.0
#: Playout delay after the fastest packet of a stream, and the vocoder's share (kim2010).
PLAYOUT_MS = 60.0
VOCODER_MS = 25.0
#: The lowest MOS of a good call.
MOS_GOOD = 3.6

Figures = dict[str, float]


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

    A packet is played 60 ms after the fastest packet's delay; one that comes later counts as lost. The network's part
    of the mouth-to-ear delay is that of the fastest packet.
    """
    if not sent or not delays_ms:
        return 1.0, 1.0, 0.0, math.nan
    fastest = min(delays_ms)
    late = sum(d > fastest + PLAYOUT_MS for d in delays_ms) / sent
    loss = 1.0 - len(delays_ms) / sent
    return mos(loss + late, fastest), loss, late, statistics.fmean(delays_ms)


def figures(streams: dict[str, tuple[int, list[float]]], network: Network) -> Figures:
    """Figures over all calls and the burst, from packets sent and delays (ms) by stream."""
    out: Figures = {}
    span = network.duration - network.warmup - SETTLE_S
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


# ---- totals ---------------------------------------------------------------------------------------------------------


def totals(tcp: list[tuple[float, float]], udp: list[float]) -> Figures:
    """Total goodput of the flows, and the total rate at which TCP sends."""
    out: Figures = {}
    if tcp:
        out["tcp_mbps"] = sum(goodput for goodput, _ in tcp)
        out["tcp_sent_mbps"] = sum(sent for _, sent in tcp)
    if udp:
        out["udp_mbps"] = sum(udp)
    return out


def children_cpu_ms() -> float:
    """Processor time of all child processes so far, which other load affects less than wall time."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (usage.ru_utime + usage.ru_stime)

"""nordstrom2005: E. Nordström, C. Rohner, "Interaction between TCP and UDP flows in wireless multi-hop ad hoc networks":
claims N-*.

The paper measured on a testbed of 802.11b cards; it names neither rates, nor RTS, nor preamble, nor places. These are
choices of the scenarios: 11 Mb/s, no RTS, long preamble, log-distance loss with exponent 4, and error rates from SINR.
The second link is as weak as N-STATIC needs it; this one number is fitted, and everything else follows from it.
"""

from __future__ import annotations

from collections.abc import Callable

from lab import DIFFERS, REPRODUCED, SHAPE, Claim, Estimate, Lab, Section
from simulator import Result, table

#: Offered by node 2, in Mb/s.
OFFERED = (0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 10)


def udp(result: Result) -> Result:
    """The figures of the UDP flow, which is the first."""
    flow: Result = result["flows"][0]
    return flow


def delivery(result: Result) -> float:
    return 1 - float(udp(result)["loss"])


def one_row(name: str, paper: str, lab: Lab, found: str, verdict: str) -> Claim:
    return Claim(name, paper, lab.seeds_text(), [found], [verdict])


def n_static(lab: Lab) -> Section:
    runs = lab.run("n-static", ())
    delivered = Estimate.of([delivery(run) for run in runs])
    rows: list[list[str]] = []
    lost = Estimate.of([lost_at(run, 1) / max(1.0, lost_at(run, 1) + lost_at(run, 2)) for run in runs])
    rows.append([delivered.text(4), lost.text()])
    enough, second = delivered.mean >= 0.98, lost.mean >= 0.8
    verdict = REPRODUCED if enough and second else SHAPE if enough or second else DIFFERS
    found = f"delivery {100 * delivered.mean:.1f} ± {100 * delivered.half:.1f} %, {100 * lost.mean:.0f} % of losses on 1→0"
    claim = one_row("N-STATIC", "delivery 99.2 %, most losses on 1→0", lab, found, verdict)
    return Section([claim], {"N-STATIC": table(["delivery", "share of losses on 1→0"], rows)})


def lost_at(result: Result, node: int) -> float:
    """Packets that a node gave up at the retry limit or that its queue refused."""
    return float(result["nodes"][node]["packets_lost"])


def transmitted_mbps(result: Result) -> float:
    """What node 2 gets through to node 1, in Mb/s of payload: the paper's transmitted rate."""
    flow = udp(result)
    return float(flow["offered_mbps"]) - 8e-6 * 1470 * lost_at(result, 2) / float(result["measured_s"])


def n_cbr(lab: Lab) -> Section:
    rows: list[list[str]] = []
    points: list[tuple[float, float]] = []
    for offered in OFFERED:
        runs = lab.run("n-static", (f"traffic.0.rate_kbps={1000 * offered:g}",))
        sent = Estimate.of([transmitted_mbps(run) for run in runs])
        received = Estimate.of([float(udp(run)["goodput_mbps"]) for run in runs])
        points.append((sent.mean, received.mean))
        rows.append([f"{offered:g}", sent.text(), received.text()])
    peak = max(range(len(points)), key=lambda at: points[at][1])
    at_peak, last = points[peak], points[-1]
    falls = min(received for _, received in points[peak:]) <= 0.8 * at_peak[1] and last[0] > at_peak[0]
    capped = max(sent for sent, _ in points) <= 5.5
    verdict = REPRODUCED if falls and capped else SHAPE if capped else DIFFERS
    found = (
        f"received peaks at {at_peak[1]:.2f} where {at_peak[0]:.2f} Mb/s are transmitted, "
        f"and is {last[1]:.2f} at {last[0]:.2f}"
    )
    paper = "received peaks where node 2 transmits about 3.5 Mb/s, falls beyond; transmitted never over 5.2"
    claim = one_row("N-CBR", paper, lab, found, verdict)
    return Section([claim], {"N-CBR": table(["offered, Mb/s", "transmitted by node 2", "received by node 0"], rows)})


MEASUREMENTS: dict[str, Callable[[Lab], Section]] = {
    "N-STATIC": n_static,
    "N-CBR": n_cbr,
}

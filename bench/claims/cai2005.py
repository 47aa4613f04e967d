"""cai2005: L. Cai, X. Shen, J. W. Mark, J. Pan, "QoS support for multimedia traffic in wireless/IP networks using AIMD
protocols". No radio of 802.11 and so no capture rule: a base station with a channel in slots, claims C-*."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab import DIFFERS, REPRODUCED, SHAPE, Estimate, Lab
from simulator import Result, Sets, fairhop, table

#: R and D in slots, and the part of the packets that may be later than D.
RTT_SLOTS, DELAY_SLOTS, BOUND = 17, 10, 0.01
SLOT_S = 0.005
#: Packet of an AIMD flow, in bytes: all of it, and what counts as payload (less IP, UDP and the header of 12 bytes).
PACKET, PAYLOAD = 125, 85
UDP_PAYLOAD = PACKET - 28
TCP_PAYLOAD = 1210
ERRORS = tuple(percent / 100 for percent in range(1, 11))
#: Those for which the largest window is sought, each with several runs.
SOUGHT = (0.01, 0.02, 0.04, 0.06, 0.08, 0.1)
#: Seeds of runs with TCP on the backbone, a million packets each.
FEW = 3
#: The link from the base station to the mobile host.
LINK = "wired.links.3"
OPTIMAL = ("--arq", "optimal", "--states", "3", "--memory", "0.35")
#: Flows of TCP on the backbone: under 50 each could have more than a packet a slot.
FLOWS = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
#: Rates of UDP in packets a slot.
UDP_RATES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.1, 1.2)

Row = tuple[str, str, str, str]


# ---- figures of one run ---------------------------------------------------------------------------------------------


def flow(result: Result, name: str) -> Result:
    found: Result = next(flow for flow in result["flows"] if flow["name"] == name)
    return found


def per_slot(result: Result, name: str, payload: int) -> float:
    """Packets that a flow delivers in a slot."""
    return float(flow(result, name)["goodput_mbps"]) * 1e6 / 8 / payload * SLOT_S


def outage(result: Result, name: str = "aimd-0") -> float:
    return float(flow(result, name)["outage"])


def loss(result: Result, name: str) -> float:
    return float(flow(result, name)["loss"])


def channel(error: float, optimal: bool) -> str:
    memory = "states = 3, memory = 0.35, " if optimal else ""
    arq = "optimal" if optimal else "persistent"
    return f'{LINK}.forward.channel={{ error = {error}, {memory}arq = "{arq}", slot_bytes = {PACKET} }}'


def analysis(*options: str) -> list[Result]:
    """The rows of `fairhop outage` for 1 to 10 % of errors."""
    rows: list[Result] = fairhop("outage", *options)["rows"]
    return rows


# ---- the claims -----------------------------------------------------------------------------------------------------


def c_friend() -> Row:
    worst = max(abs(3 * (1 - beta) / (1 + beta) - alpha) for alpha, beta in ((1.0, 0.5), (0.2, 0.875)))
    verdict = REPRODUCED if worst < 1e-12 else DIFFERS
    return "C-FRIEND", "equation 1, exactly", "AIMD(1, 0.5) and AIMD(0.2, 0.875) satisfy it", verdict


def utilization(beta: float, buffer: int) -> float:
    """Over a whole cycle of figure 1: stage I of equation 2, and stage II, in which the link is busy."""
    alpha, r = 3 * (1 - beta) / (1 + beta), RTT_SLOTS
    low = beta * (r + buffer)
    if low >= r:
        return 1.0
    stage_1 = (r - low) / alpha * r
    stage_2 = buffer / alpha * (r + buffer / 2)
    return ((low + r) / (2 * r) * stage_1 + stage_2) / (stage_1 + stage_2)


def c_util(lab: Lab) -> tuple[Row, str]:
    rows, off = [], []
    for beta, buffers in ((0.5, (4, 9, 13, 17, 20)), (0.7, (2, 4, 6, 8, 11)), (0.875, (1, 2, 3, 6))):
        for buffer in buffers:
            # The queue of a link has the packet in it that is being sent; B has not.
            sets = (f"traffic.0.beta={beta}", f"wired.links.0.queue.packets={buffer + 1}")
            found = per_slot(lab.run("c-util", sets)[0], "aimd-0", PAYLOAD)
            expected = utilization(beta, buffer)
            off.append(abs(found / expected - 1))
            rows.append([str(beta), str(buffer), f"{expected:.4f}", f"{found:.4f}"])
    verdict = REPRODUCED if max(off) <= 0.03 else SHAPE if max(off) <= 0.05 else DIFFERS
    row = ("C-UTIL", "equation 2, within 3 %", f"within {100 * max(off):.1f} % over whole cycles", verdict)
    return row, table(["β", "B", "figure 1 and equation 2", "simulated"], rows)


def largest(lab: Lab, error: float, optimal: bool, start: int, cross: Sets) -> int:
    """The largest rwnd with which no more than 1 % of the packets are late, in the mean over seeds."""

    def keeps(rwnd: int) -> bool:
        sets = (channel(error, optimal), f"traffic.0.rwnd_packets={rwnd}", *cross)
        return lab.measure("c-outage", sets, outage).mean <= BOUND

    while start > 1 and not keeps(start):
        start -= 1
    while keeps(start + 1):
        start += 1
    return start


#: Cross traffic: windows of 20 packets, ns-2's default, leave the backbone room; without limit TCP fills it; and for a
#: time it is the bottleneck.
CROSS: dict[str, Sets] = {
    "light": (),
    "greedy": ("traffic.1.max_window_packets=10000",),
    "heavy": ("traffic.2.count=100", "traffic.2.start_s=30", "traffic.2.stop_s=60"),
}


def c_outage(lab: Lab) -> tuple[list[Row], str]:
    """C-OUTAGE with persistent ARQ and C-OPT with the optimal one."""
    rows, claims = [], []
    found: dict[bool, dict[str, list[int]]] = {}
    for optimal in (False, True):
        sought = ("--error", ",".join(map(str, SOUGHT)))
        windows = [int(row["window"]) for row in analysis(*sought, *(OPTIMAL if optimal else ()))]
        found[optimal] = {"analysis": windows}
        for what, cross in CROSS.items():
            found[optimal][what] = [
                largest(lab, error, optimal, window, cross) for error, window in zip(SOUGHT, windows, strict=True)
            ]
        arq = "optimal" if optimal else "persistent"
        rows += [[arq, what, *map(str, column)] for what, column in found[optimal].items()]
    for optimal, name in ((False, "C-OUTAGE"), (True, "C-OPT")):
        of = found[optimal]
        light, heavy = (
            [simulated - window for simulated, window in zip(of[what], of["analysis"], strict=True)]
            for what in ("light", "heavy")
        )
        off = max(map(abs, light))
        less = not optimal or all(o < p for what in of for o, p in zip(of[what], found[False][what], strict=True))
        verdict = REPRODUCED if off <= 1 and min(heavy) >= 0 and less else SHAPE if off <= 2 and less else DIFFERS
        text = (
            f"light: {of['light'][0]} to {of['light'][-1]} packets, at most {off} from the analysis; "
            f"heavy: {min(heavy):+d} to {max(heavy):+d}"
        )
        paper = "to within a packet of the analysis; heavy: the analysis is the smaller"
        if optimal:
            paper += "; less than persistent"
            text += "; less than persistent" if less else "; not always less than persistent"
        claims.append((name, paper, text, verdict))
    return claims, table(["ARQ", "rwnd", *(f"{100 * e:.0f} %" for e in SOUGHT)], rows)


def c_share(lab: Lab) -> tuple[Row, str]:
    rows, wireless, fair = [], [], []
    for flows in FLOWS:
        sets = (f"traffic.1.count={flows}",)
        target = lab.measure("c-share", sets, lambda result: per_slot(result, "aimd-0", PAYLOAD))

        def mean(result: Result, flows: int = flows) -> float:
            tcp = sum(per_slot(result, f"bulk-{i}", TCP_PAYLOAD) for i in range(flows))
            return (tcp + per_slot(result, "aimd-0", PAYLOAD)) / (flows + 1)

        all_flows = lab.measure("c-share", sets, mean)
        late = lab.measure("c-share", sets, lambda result: 100 * outage(result))
        rows.append([str(flows), target.text(3), all_flows.text(3), late.text()])
        if flows < 50:
            wireless.append(abs(target.mean / 0.9 - 1))
        if flows > 50:
            fair.append(abs(target.mean / all_flows.mean - 1))
    verdict = (
        REPRODUCED
        if max(wireless) <= 0.05 and max(fair) <= 0.2
        else SHAPE
        if max(wireless) <= 0.2 and max(fair) <= 0.5
        else DIFFERS
    )
    text = (
        f"under 50 flows within {100 * max(wireless):.0f} % of 0.9; "
        f"over 50 within {100 * max(fair):.0f} % of the mean of all flows"
    )
    row = ("C-SHARE-BB", "0.9 packets/slot below 50 flows, its fair share above", text, verdict)
    return row, table(["TCP flows", "AIMD, packets/slot", "mean of all flows", "outage, %"], rows)


def fair_settings() -> Iterator[tuple[int, str, float, Sets, list[str]]]:
    """Flows, round trips, error, overrides and names of the flows."""
    for flows in (2, 4):
        for rtts in ("85", "85,125"):
            options = ("--flows", str(flows), "--rtt-ms", rtts)
            for error, row in zip(ERRORS, analysis(*options), strict=True):
                near, far = (int(flow["window"]) for flow in row["flows"][:2])
                sets = (
                    f"{LINK}.forward.channel.error={error}",
                    f"{LINK}.queue.packets={row['buffer']}",
                    f"traffic.0.rwnd_packets={near}",
                    f"traffic.1.rwnd_packets={far}",
                    f"traffic.0.count={flows // 2}",
                    f"traffic.1.count={flows // 2}",
                    f"traffic.1.from={'far' if ',' in rtts else 'ch'}",
                )
                names = [f"{name}-{i}" for name in ("near", "far") for i in range(flows // 2)]
                yield flows, rtts, error, sets, names


def c_fair(lab: Lab) -> tuple[Row, str]:
    rows, uneven, late = [], [], []
    for flows, rtts, error, sets, names in fair_settings():
        results = lab.run("c-fair", sets)
        shares = [Estimate.of([per_slot(result, name, PAYLOAD) for result in results]).mean for name in names]
        worst = max(Estimate.of([outage(result, name) for result in results]).mean for name in names)
        apart = max(abs(share * flows / sum(shares) - 1) for share in shares)
        uneven.append(apart)
        late.append(worst)
        rows.append(
            [
                str(flows),
                rtts,
                f"{100 * error:.0f}",
                " ".join(f"{share:.3f}" for share in shares),
                f"{100 * apart:.1f}",
                f"{100 * worst:.2f}",
            ]
        )
    holds = [max(uneven) <= 0.1, max(late) <= 0.015]
    verdict = REPRODUCED if all(holds) else SHAPE if max(uneven) <= 0.2 and max(late) <= 0.03 else DIFFERS
    text = f"shares within {100 * max(uneven):.0f} % of equal, outage up to {100 * max(late):.2f} %"
    heads = ["flows", "rtts, ms", "error, %", "packets/slot", "from equal, %", "worst outage, %"]
    return ("C-FAIR", "equal throughputs, outage ≤ 1 % or slightly above", text, verdict), table(heads, rows)


def c_udp(lab: Lab) -> tuple[Row, str]:
    alone = ("traffic.0.count=1", "traffic.1.count=0", f"{LINK}.queue.packets=20")
    in_time = lab.measure("c-udp", alone, lambda r: per_slot(r, "aimd-0", PAYLOAD) * (1 - outage(r)))
    lost = lab.measure("c-udp", alone, lambda r: 100 * loss(r, "aimd-0"))
    missed = lab.measure("c-udp", alone, lambda r: 100 * (1 - (1 - loss(r, "aimd-0")) * (1 - outage(r))))
    rows = [["AIMD, ARQ", "", in_time.text(3), lost.text(), missed.text()]]
    less, no_more, lossier, worse = True, True, True, True
    for arq in ("persistent", "none"):
        for rate in UDP_RATES:
            sets = (
                f"{LINK}.forward.channel.arq={arq}",
                f"traffic.1.rate_kbps={rate * UDP_PAYLOAD * 8 / SLOT_S / 1e3:.3f}",
            )
            got = lab.measure("c-udp", sets, lambda r: per_slot(r, "udp-0", UDP_PAYLOAD) * (1 - outage(r, "udp-0")))
            gone = lab.measure("c-udp", sets, lambda r: 100 * loss(r, "udp-0"))
            bad = lab.measure("c-udp", sets, lambda r: 100 * (1 - (1 - loss(r, "udp-0")) * (1 - outage(r, "udp-0"))))
            less &= got.mean < in_time.mean
            no_more &= got.mean - got.half <= in_time.mean + in_time.half
            lossier &= gone.mean >= lost.mean
            worse &= bad.mean > missed.mean
            name = "UDP, ARQ" if arq == "persistent" else "UDP, no ARQ"
            rows.append([name, f"{rate}", got.text(3), gone.text(), bad.text()])
    verdict = REPRODUCED if less and worse else SHAPE if no_more and lossier else DIFFERS
    goodput = "lower at every rate" if less else "never higher" if no_more else "higher at some rates"
    text = (
        f"goodput {goodput}, loss {'never lower' if lossier else 'lower at some rates'}, "
        f"lost or late {'more at every rate' if worse else 'less at low rates'}"
    )
    heads = ["", "rate, packets/slot", "in time, packets/slot", "lost, %", "lost or late, %"]
    row = ("C-UDP", "at every rate UDP has lower goodput and higher loss", text, verdict)
    return row, table(heads, rows)


def section(lab: Lab) -> str:
    """What the page says of this paper."""
    few = Lab(min(FEW, len(lab.seeds)))
    util, util_table = c_util(lab)
    windows, windows_table = c_outage(few)
    share, share_table = c_share(few)
    fair, fair_table = c_fair(lab)
    udp, udp_table = c_udp(lab)
    rows: Sequence[Row] = [c_friend(), util, *windows, share, fair, udp]
    return "\n".join(
        (
            table(["claim", "paper", "ours", "verdict"], [[*row[:3], f"**{row[3]}**"] for row in rows]),
            "### C-UTIL\n",
            util_table,
            "### C-OUTAGE and C-OPT\n",
            windows_table,
            "### C-SHARE-BB\n",
            share_table,
            "### C-FAIR\n",
            fair_table,
            "### C-UDP\n",
            udp_table,
        )
    )

"""The cases of the comparison: networks, capture rules, and the figures of each table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Network:
    """One scenario, in terms that all three simulators have. Times are in seconds, rates in Mb/s unless named."""

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
    """A network with a name in its case's table. `timing` runs write no traces and report times only."""

    label: str
    network: Network
    timing: bool = False


@dataclass(frozen=True)
class Case:
    """The points of one table and the figures that it shows."""

    name: str
    title: str
    points: tuple[Point, ...]
    shows: tuple[str, ...]
    seeds: int = 5
    rules: tuple[Rule, ...] = field(default=RULES)


def cases() -> list[Case]:
    """Every case of the comparison, cheapest first."""
    osipov = Network(standard="11b", rate_mbps=2, basic_mbps=1, mss=600, delack=1, internet=False, tcp=1)
    timed = replace(Network(), warmup=0.0)
    return [
        Case(
            "k-mix",
            "4 hops, 802.11a 12 Mb/s: 5 calls and 3 TCP, and TCP alone",
            (
                Point("5 calls + 3 TCP", Network(calls=5, tcp=3)),
                Point("3 TCP alone", Network(tcp=3)),
                Point("5 calls alone", Network(calls=5)),
            ),
            ("tcp_mbps", "mos", "mos_down", "mos_up"),
        ),
        Case(
            "k-cap-t",
            "one TCP flow from the Internet over 1 to 8 hops, 802.11a 12 Mb/s",
            tuple(Point(f"{h} hops", Network(hops=h, tcp=1)) for h in range(1, 9)),
            ("tcp_mbps",),
            seeds=3,
        ),
        Case(
            "k-cap-v",
            "4 hops, 802.11a 12 Mb/s: calls alone",
            tuple(Point(f"{c} calls", Network(calls=c)) for c in range(8, 14)),
            ("mos", "mos_worst"),
            seeds=3,
        ),
        Case(
            "k-burst",
            "4 hops, 802.11a 12 Mb/s: 5 calls and 550 kb/s of 1500-byte packets in bursts",
            tuple(Point(f"burst {b}", Network(calls=5, burst=b)) for b in range(1, 6)),
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
                    Network(
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

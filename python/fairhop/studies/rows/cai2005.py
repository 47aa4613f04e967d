"""cai2005: L. Cai, X. Shen, J. W. Mark, J. Pan, "QoS support for multimedia traffic in wireless/IP networks using AIMD
protocols"."""

from __future__ import annotations

from fairhop.studies.model import Near, Reason, Row, by_id

#: Fractions off equation 2 and off shares; the largest outage.
UTILIZATION, SHARE_OFF, SHARE_FAR_OFF = 0.03, 0.1, 0.2
OUTAGE, LARGE_OUTAGE = 0.015, 0.03
#: Packets per slot below 50 flows.
BELOW_50 = Near(0.9, 0.05)

ROWS = by_id(
    Row(
        "C-FRIEND", "pairs of AIMD parameters that are fair to TCP", "equation 1, exactly", "exact",
        overrides="arithmetic; sending rates beside NewReno: [validation](validation/aimd.md)",
    ),
    Row(
        "C-UTIL", "use of a link of fixed capacity in stage I, by buffer", "equation 2",
        "stage I within 3 % of equation 2", "stage I grows with the buffer, up to 1",
        scenario="c-util",
        overrides="`traffic.0.beta`; the queue is B + 1, because a link's queue holds the packet that is being sent; "
        "`--trace cwnd --trace queue --trace-interval-ms 5`",
    ),
    Row(
        "C-OUTAGE", "the largest window with at most 1 % late packets, persistent ARQ",
        "to within a packet of the analysis; heavy: the analysis is the smaller",
        "largest window within one packet of the analysis; under heavy traffic not smaller than the analysis",
        "within two packets",
        scenario="c-outage",
        overrides="the channel, and `traffic.0.rwnd_packets` until 1 % of the packets are late; *greedy*: TCP without "
        "a limit of its window; *heavy*: 100 more flows from 30 to 60 s",
    ),
    Row(
        "C-OPT", "the same with optimal ARQ",
        "to within a packet of the analysis; heavy: the analysis is the smaller; less than persistent",
        "as C-OUTAGE, and smaller than persistent", "within two packets, and smaller than persistent",
        scenario="c-outage",
        overrides="the channel, and `traffic.0.rwnd_packets` until 1 % of the packets are late; *greedy*: TCP without "
        "a limit of its window; *heavy*: 100 more flows from 30 to 60 s",
    ),
    Row(
        "C-SHARE-BB", "AIMD beside 0 to 100 TCP flows on the backbone",
        "0.9 packets/slot below 50 flows, its fair share above",
        "under 50 flows within 5 % of 0.9 packets per slot, over 50 within 20 % of the mean of all flows",
        "within 20 % and 50 %",
        scenario="c-share", overrides="`traffic.1.count` from 0 to 100",
    ),
    Row(
        "C-FAIR", "two and four AIMD flows with equal and different round trips",
        "equal throughputs, outage ≤ 1 % or slightly above", "shares within 10 % of equal, outage at most 1.5 %",
        "within 20 %, at most 3 %",
        scenario="c-fair", overrides="windows by `fairhop outage --flows 2` or `4`, `--rtt-ms 85` or `85,125`",
    ),
    Row(
        "C-UDP", "AIMD against UDP, with and without ARQ", "at every rate UDP has lower goodput and higher loss",
        "at every rate UDP has less goodput in time and more packets lost or late",
        "never more goodput, never less loss",
        scenario="c-udp", overrides="rate and ARQ",
    ),
)  # fmt: skip

TITLE = "AIMD datagrams over a wireless link behind a backbone"

ABOUT = (
    "There is no capture rule: nothing here is 802.11. Runs last 80 s with 5 s of warm-up, as in the "
    "paper; C-UTIL 800 s with 100 s. TCP is NewReno with SACK and an acknowledgment for each segment. "
    "C-UTIL has nothing random and needs one seed."
)

REASONS = (
    Reason(
        ("C-UTIL",),
        "Stage I is 3.5 % below equation 2 for TCP's pair (β = 0.5) with a buffer of 9, and 3.3 % for β = "
        "0.7 with 6. The equation lets cwnd packets be outstanding; a sender has whole packets "
        "outstanding, on average half a packet less, which is 3 % of R = 17. With R = 40 the same "
        "machines are within 1.5 % ([validation](validation/aimd.md)).",
    ),
    Reason(
        ("C-OPT",),
        "Within a packet of the analysis everywhere. But under heavy traffic the analysis is not always "
        "the smaller: at 8 %, where W_max is R = 17, the simulation allows 16. With a window of R or less "
        "the queue at the base station is often empty, so a delay on the backbone is not hidden behind "
        "other packets but adds to the packet's delay. The analysis knows only the wireless link. Without "
        "cross traffic simulation and analysis agree ([validation](validation/aimd.md)); with persistent "
        "ARQ, where every window is larger than R, cross traffic changes nothing.",
    ),
    Reason(
        ("C-UDP",),
        "The claim fails at one end. Where UDP sends a packet or more per slot without ARQ, no slot is empty, and "
        "0.900 packets per slot are in time, all that the channel lets through. AIMD gets the same 0.900 "
        "across, of which 0.4 % are late: 0.896. The paper has UDP below AIMD there too. The price is a "
        "loss of 10 to 25 %, against none. At the other end the claim is true and says little: with ARQ "
        "and at most 0.8 packets per slot UDP loses as little as AIMD, nothing, and uses less of the "
        "link. No rate has both AIMD's goodput and its loss.",
    ),
)

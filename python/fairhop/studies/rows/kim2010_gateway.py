"""kim2010's control at the gateway: how much TCP fits beside how many calls, what control gains without calls, and
where a window stops working."""

from __future__ import annotations

from fairhop.studies.model import Between, Reason, Row, by_id

#: Smallest gains of K-GAIN, and the flows of K-SCALE-1 and -2.
GAIN, SOME_GAIN = Between(low=0.25), 0.05
NEAR_FLOWS, FAR_FLOWS = Between(8, 14), Between(12, 19)
#: The ends of the paper's nominal line in figure 5: TCP alone in Mb/s, and calls alone.
TCP_ALONE_MBPS, CALLS_ALONE = 1.35, 11

ROWS = by_id(
    Row(
        "K-REGION", "the most TCP beside 1 to 11 calls that are all good, under each kind of control",
        "windows above both pacings, under the nominal line, TCP up to 10 calls",
        "windows above both pacings at most numbers of calls; no point more than 5 % over the line from (0 calls, TCP "
        "alone) to (11, 0); TCP up to 10 calls", "the last two",
        scenario="k-region", overrides="`traffic.0.count`; `control`",
    ),
    Row(
        "K-GAIN", "one download without calls: control against none", "+40 % goodput",
        "the best control carries at least 25 % more than none", "more than 5 % more",
        scenario="k-region", overrides="no call; `control`",
    ),
    Row(
        "K-SCALE-1", "downloads with a window of one segment each, beside three calls",
        "windows fail past 11 flows, pacing does not", "windows fail past 8 to 14 flows, pacing later",
        "windows fail past some number, pacing later",
        scenario="k-region", overrides="3 calls, `traffic.1.count` up to 32, a window of one segment each",
    ),
    Row(
        "K-SCALE-2", "the same with a round trip of 150 ms", "past 15 with an RTT of 150 ms",
        "windows fail past 12 to 19 flows, later than in K-SCALE-1", "later than in K-SCALE-1",
        scenario="k-region", overrides="the same and `internet.delay_ms=75`",
    ),
    Row(
        "K-SCALE-3", "the window that one download needs beside six calls, near and far",
        "W = 2 near, 7 far, where its bursts hurt the calls",
        "the window that carries nine tenths of what pacing carries grows with the delay, and calls under it are worse "
        "than under pacing", "one of the two",
        scenario="k-region", overrides="6 calls, `internet.delay_ms` 5 and 55",
    ),
)  # fmt: skip

TITLE = "control at the gateway"

ABOUT = (
    "The string, calls and TCP are those above, with 10 s of warm-up; one download unless stated "
    "otherwise. The search tries windows of 1 to 16, 20, 24, 32, 48, 64, 96 and 128 segments, and rates "
    "from 20 to 9,000 kb/s in steps of 12 % (one hop carries 8.6 Mb/s), then the winner's neighbours at 4 "
    "and 8 %. It goes from loose to tight and stops where a setting's ceiling is below what the best one "
    "carries; it does not assume that more TCP is worse for calls. A setting qualifies if on each "
    "searched seed every call's MOS (mean of both directions) is at least 3.6. The best one is then "
    "judged on other seeds."
)

REASONS = (
    Reason(
        ("K-GAIN",),
        "Data pacing gives the paper's gain under `none`: 35 %. The gain comes from collisions in the "
        "mesh. Without control 46 % of the frames that the gateway sends are retransmissions (8,481 of "
        "18,378; seed 11), since a packet collides with the one three hops ahead. Packets paced at 2,080 "
        "kb/s are as far apart as the string can forward them, and no node retransmits a frame. A window "
        "limits the number of packets on the string and not their distance, so it gains nothing. TCP's "
        "own retransmissions are not the reason: without control 99.7 % of its segments are useful. With "
        "capture fewer frames collide, so pacing gains 20 % under `first` and 5 % under `stronger`.",
    ),
    Reason(
        ("K-REGION",),
        "Under `none` the string carries no tenth call (K-CAP-V), and so no TCP beside ten. Pacing is "
        "above windows there, and not below as in the paper: it spaces the packets (K-GAIN). Under "
        "`first` and `stronger` the line from TCP alone to 11 calls is no bound: the string carries 12 or "
        "13 calls, and paced TCP carries more than TCP alone without control. More TCP is not always "
        "worse for calls: beside five calls under `none` the searched seeds also allow a window of 128 "
        "segments, no limit at all. A MOS in a cell is that of the worst call on the judging seeds where "
        "it is under 3.6; such a point counts as 0.",
    ),
    Reason(
        ("K-SCALE-1", "K-SCALE-2"),
        "Receivers that acknowledge every second segment hold the ACK of a lone segment for 200 ms, so a "
        "window of one segment carries little, and more flows fit than in the paper.",
    ),
)

"""xu2002: K. Xu, S. Bae, M. Gerla, S. Lee, "TCP behavior across multihop wireless networks and the wired Internet"."""

from __future__ import annotations

from fairhop.studies.model import Between, Reason, Row, by_id

#: Smallest Jain's index that counts as fair, IN's share, the wait ratio.
FAIR, CAPTURED, WAITS = Between(low=0.9), Between(low=0.8), Between(low=0.8)

ROWS = by_id(
    Row(
        "X-LAN", "IN and OUT over one hop", "no significant unfairness", "Jain's index at least 0.9 on every string",
        "on some of the strings", scenario="x-lan",
    ),
    Row(
        "X-MIX", "IN, and later OUT, over two to four hops", "IN has more than 80 %",
        "IN has at least 80 % on every string", "on some of the strings",
        scenario="x-mix", overrides="`topology.hops` 2, 3, 4; the places of the two clients",
    ),
    Row(
        "X-OUT", "two uploads of 1 MB", "one waits for the other (ratio 1)", "wait ratio at least 0.8 on every string",
        "on some of the strings",
        scenario="x-out", overrides="`topology.hops` 2, 3, 4; the flows at the last two nodes",
    ),
    Row(
        "X-IN", "two downloads", "they share equally", "Jain's index at least 0.9 on every string",
        "on some of the strings",
        scenario="x-in", overrides="`topology.hops` 2, 3, 4; the flows at the last two nodes",
    ),
    Row(
        "X-WIN", "IN and OUT with the same largest window", "8 packets are best and fair, more are unfair",
        "a window other than the smallest and largest has 97 % of the best total and Jain's index of 0.9; the largest "
        "has less", "the largest window has a lower index than another",
        scenario="x-win", overrides="`max_window_packets` 1 to 64; both flows at the last of 3 hops, as in X-ADHOC",
    ),
    Row(
        "X-ADHOC", "the same without the wired part", "fair with W = 1 or 2, no gain past 2",
        "Jain's index at least 0.9 with W = 1 and 2, and no larger window carries 5 % more, on 2, 3 and 4 hops",
        "the first",
        scenario="x-adhoc",
        overrides="`topology.hops` 2, 3, 4 with matching ends; `max_window_packets` 1, 2, 4, 8 or none; "
        "`delayed_ack_segments=1`, because a delayed ACK would hold a window of one until its timer",
    ),
    Row(
        "X-VIDEO", "TCP beside a video at 80 to 1200 kb/s", "less at 540 kb/s, more again at 800",
        "TCP keeps 85 % beside 80 kb/s, at least a fifth beside 540, and has 5 % more beside 800",
        "beside 800 no less than beside 540, to 5 %",
        scenario="x-video", overrides="`traffic.1.rate_kbps` 80 to 1200",
    ),
)  # fmt: skip

TITLE = "TCP over strings, with and without a wired part"

ABOUT = (
    "802.11b at 2 Mb/s, 120 s with 10 s of warm-up, the rest as above. The wait ratio of X-OUT is the "
    "time between the two completions over the time of the first: 0 if both end together, 1 if one waits "
    "for the other and then takes as long."
)

REASONS = (
    Reason(
        (),
        "Its numbers for strings without a wired part need capture: with it one or two packets are fair "
        "and enough at every length, and without a limit one flow starves the other. Without capture W = "
        "1 and 2 are fair too, but larger windows still gain up to 30 %.",
        title="Which rule the paper used",
    ),
    Reason(
        ("X-MIX",),
        "The slides do not say where the clients are, and that decides. With IN's client one hop nearer "
        "to the gateway IN has 0.89 to 0.99 at three and four hops under every rule; with OUT's client "
        "nearer OUT has the most at three hops under every rule, and at four hops IN has anything from "
        "0.09 (`first`) to 0.92 (`stronger`). With both at the last node, where the verdict is taken, the "
        "winner of a run keeps the channel, so means over seeds have wide intervals. At two hops no node "
        "is hidden from another and the flows share.",
    ),
    Reason(
        ("X-OUT",),
        "At two hops too the near upload finishes first: it has one hop, the other two. Under `first` at "
        "three hops the second upload makes progress while the first runs (wait ratio 0.56), as under "
        "`stronger` at four hops (0.50).",
    ),
    Reason(
        ("X-IN",),
        "Without capture the far download loses frames to hidden terminals on its last hop and the near one does not.",
    ),
    Reason(
        ("X-VIDEO",),
        "TCP keeps its half however much video is offered: beyond 400 kb/s the video's own source queue "
        "overflows, and packets lost there disturb no one. TCP does not recover, because the source "
        "always has a frame to send. Packets are lost at the source, as the slides say; TCP does not gain "
        "from it.",
    ),
)

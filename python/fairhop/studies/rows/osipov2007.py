"""osipov2007: E. Osipov, C. Tschudin, "TCP-friendly bandwidth sharing in mobile ad hoc networks: from theory to
reality"."""

from __future__ import annotations

from fairhop.studies.model import Between, Reason, Row, by_id

#: u from which the paper calls a network unfair; its largest u, and ours of the same size.
UNFAIR = 0.1
PEAK = Between(low=0.8 * 0.5)
#: Off the reference in O-REF, off an estimate in O-MULTI and O-MOB, as fractions.
OF_ONE, OF_ESTIMATE, OF_PHASE = 0.05, 0.15, 0.05
#: Gains of the walker at its handovers.
FIRST_GAIN, SECOND_GAIN = Between(low=1.4), Between(low=1.8)
#: The paper's walker, in kb/s by phase: without and with throttling.
WALKER_PLAIN, WALKER_THROTTLED = (169.8, 177.3, 338.8), (196.2, 288.3, 566.4)
#: Table 2: total in kb/s and u, without and with throttling.
LENGTHS_KBPS, LENGTHS_U = (554, 605), (0.31, 0.09)

ROWS = by_id(
    Row(
        "O-SHARE-1", "shares of four flows over several bottlenecks", "1/3, 1/3, 1/3, 2/3", "exact",
        scenario="o-multi", overrides="nodes, paths and flows of the layout; `control`",
    ),
    Row(
        "O-SURF", "2 to 9 flows side by side over 1 to 6 hops: the unfairness u",
        "without: over 0.1 from six 1-hop flows on, up to 0.5; with: virtually 0",
        "without throttling u > 0.1 for six one-hop flows and at least 0.4 at three hops (the paper's 0.5 - 20 %); "
        "with it u ≤ 0.1 wherever u was above that",
        "u is smaller with throttling wherever it is above 0.1 without",
        scenario="o-surf", overrides="lines, hops, paths and flows; `control`",
    ),
    Row(
        "O-REF", "the total of 2 to 9 flows over three hops, against one flow alone",
        "with: within 3 %; without: always lower, up to 12 %", "with throttling within 5 % of one flow alone",
        "with throttling nearer to it than without",
        scenario="o-surf", overrides="lines, hops, paths and flows; `control`",
    ),
    Row(
        "O-MULTI", "four flows over several bottlenecks: their throughputs",
        "without: TCP1 almost shut down; with: every flow at its estimate",
        "in every layout: with throttling every flow within 15 % of φ · Thr_max, without it TCP1 under a quarter",
        "in every layout: with throttling TCP1 has at least half of it, and 1.5 times what it has without",
        scenario="o-multi", overrides="nodes, paths and flows of the layout; `control`",
    ),
    Row(
        "O-LEN", "flows of one, two and three hops from one source",
        "simulated: total 554 → 605 kb/s, u 0.31 → 0.09", "u falls to a third or less, and the total does not fall",
        "u falls",
        scenario="o-len", overrides="`control`",
    ),
    Row(
        "O-MOB", "three static flows of three hops, and a walker whose flow has three, two, one",
        "with: 196 → 288 → 566 kb/s, gains 1.47 and 1.96; without: 170 → 177 → 339, 1.04 and 1.91",
        "with throttling the walker in each phase, and the static flows after the first handover, within 5 % of φ · "
        "Thr_max; gains of at least 1.4 and 1.8; without it less than half of the first gain",
        "gains at both handovers, smaller without",
        scenario="o-mob", overrides="`control`; `warmup_s` and `duration_s` of each phase",
    ),
)  # fmt: skip

TITLE = "shares of C-load, enforced at the sources"

ABOUT = (
    "802.11b at 2 Mb/s, segments of 600 bytes, an ACK for each segment, NewReno, frames decoded to 250 m "
    "and sensed to 500 m, 120 s with 12 s of warm-up. Thr_max is what one flow carries alone over the "
    "same number of hops (`scenarios/osipov-string.toml`), measured under each rule. u is the paper's "
    "equation 4 in every row: the distance of the throughputs from φ · Thr_max, over the length of the "
    "latter. The lines of O-SURF are 20 m apart, so that the nodes at equal places are in one L-region; "
    "the paper does not give the distance.\n\n"
    "The places of the paper's figure 7 are not in its text. The three layouts of O-MULTI fit what the "
    "text says: 126 m between neighbours, TCP3 the shortest flow, three L-regions crossed by TCP1, 2 and "
    "3, four crossed by TCP1 and 4, none crossed by more. TCP1 goes over five hops along a line, TCP2 and "
    "TCP4 over two, TCP3 over one; `LAYOUTS` in `python/fairhop/studies/osipov2007.py` has the places.\n\n"
    "O-PDP, the shares that the path density protocol finds against the centralized ones, is in "
    "[validation](validation/routing.md#rules-loops-sequence-numbers)."
)

REASONS = (
    Reason(
        ("O-SURF",),
        "Without throttling u has the paper's size under `none` (0.43 for six flows of three hops; the "
        "paper's peak is 0.5), but there throttling leaves up to 0.16: with nine flows so many stations "
        "collide that the total stays 12 % under Thr_max (O-REF). Under `first` and `stronger` throttling "
        "brings u to 0.08 and below, but without it u reaches only 0.18: capture makes plain TCP fairer "
        "than the paper's.",
    ),
    Reason(
        ("O-REF",),
        "Throttled totals stay within 2 % under `stronger`, and within 6 % under `first`, where nine "
        "flows are farthest off because more stations collide. Under `none` up to four flows are within 1 "
        "%, and nine are 12 % below. Without throttling two flows carry 2 % more than one alone under "
        "`first` and `stronger`, within the confidence interval.",
    ),
    Reason(
        ("O-MULTI",),
        "Under `first` the claim holds in layouts a and b. In layout c TCP4 is 378 m from TCP3: outside "
        "its L-region (250 m), but within carrier sense and interference (500 m). The shares do not count "
        "that load, so the air around TCP3 is given away one and two thirds times, and TCP3 has 56 % of "
        "its estimate. In layouts a and b TCP4 is more than 500 m from TCP2 and TCP3. Under `none` TCP1 "
        "gets nothing with throttling either: every overlap with the other flows destroys its frames, and "
        "it needs five hops in a row. Under `stronger` its frames survive, so it is not shut down without "
        "throttling: it keeps 25 to 59 %.",
    ),
    Reason(
        ("O-LEN",),
        "Under `first` u falls as in the paper, to 0.09, but the total falls too, from 0.81 to 0.58 Mb/s. "
        "Without throttling the flow of one hop has two thirds of what it would have alone, and a bit "
        "over one hop costs a third of the air of a bit over three: the most unfair division carries "
        "most. The paper's flows start nearer to fairness (u 0.31; here 0.78), and its total without "
        "throttling is lower. With throttling the total is 92 % of the sum of the estimates. Under `none` "
        "the same happens with more collisions. Under `stronger` the flows are nearly fair without "
        "throttling (u 0.12), and throttling changes nothing.",
    ),
    Reason(
        ("O-MOB",),
        "The throttled half is within 5 % in every phase and under every rule, with Thr_max measured here "
        "(2,324, 1,164 to 1,184, and 788 to 820 kb/s over one to three hops; the paper's are 2,266, 1,153 "
        "and 786). Plain TCP is fairer here than in the paper: the walker gains 16 to 21 % at the first "
        "handover where the paper's gains 4 %.\n\n"
        "The rows *with AODV and PDP* are our own: in the paper routes are static and shares are switched "
        "by a script. Here AODV finds the routes, and nodes compute the shares by the path density "
        "protocol. Each flow learns its quarter: under `first` and `stronger` the static flows stay "
        "within 1 % of φ · Thr_max, and the walker at one hop within 3 %. At 48 s nothing happens: the "
        "route over three hops still works, and AODV does not look for a shorter one; at 84 s the walker "
        "hears the HELLO of its destination and has one hop. Under `none` routing messages destroy frames "
        "that overlap with them, and TCP stays 5 to 13 % below its share. Broadcasts at 1 Mb/s reach 250 "
        "m and data 30 m, so without `signal_threshold` AODV finds routes of one hop that carry nothing "
        "(all flows at 0); with broadcasts at 11 Mb/s instead, the lines do not hear each other's shares, "
        "and the walker has 250, 264 and 470 kb/s.",
    ),
)

"""xu2002: S. Xu, Bae, M. Gerla, S. Lee, "TCP behavior across multihop wireless networks and the wired Internet"."""

from __future__ import annotations

from lab import DIFFERS, REPRODUCED, RULES, SHAPE, Claim, Lab, Sets, capture, jain, named, summary, table, tcp_mbps

WINDOWS = (1, 2, 4, 8, 0)


def x_adhoc(lab: Lab) -> tuple[Claim, str]:
    """Fair: Jain's index at least 0.9 with W = 1 and 2. No gain: no larger window carries 5 % more than W = 2.

    An acknowledgment a segment: with a window of one, a delayed one would wait for its timer each time.
    """
    rows: list[list[str]] = []
    notes: list[str] = []
    verdicts: list[str] = []
    falls: list[float] = []
    for rule in RULES:
        fair: list[bool] = []
        gain: list[float] = []
        last: list[float] = []
        for hops in (2, 3, 4):
            total, index = [], []
            for window in WINDOWS:
                sets: Sets = (capture(rule), f"topology.hops={hops}", f"traffic.0.to={hops}", f"traffic.1.from={hops}")
                for flow in (0, 1):
                    sets += (
                        f"traffic.{flow}.delayed_ack_segments=1",
                        f"traffic.{flow}.max_window_packets={window or 1000000}",
                    )
                total.append(lab.measure("x-adhoc", sets, tcp_mbps))
                index.append(lab.measure("x-adhoc", sets, jain))
            rows.append([f"`{rule}`", str(hops), "total, Mb/s", *(t.text(3) for t in total)])
            rows.append([f"`{rule}`", str(hops), "Jain's index", *(i.text() for i in index)])
            fair.append(min(index[0].mean, index[1].mean) >= 0.9)
            gain.append(max(t.mean for t in total[2:]) / total[1].mean - 1)
            last.append(index[-1].mean)
        verdicts.append(REPRODUCED if all(fair) and max(gain) < 0.05 else SHAPE if all(fair) else DIFFERS)
        falls.append(min(last))
        notes.append(
            f"W ≤ 2 fair at {sum(fair)} of 3 lengths; a larger W gains up to {100 * max(0.0, *gain):.0f} %; "
            f"without limit Jain down to {min(last):.2f}"
        )
    points = named([rule for rule, verdict in zip(RULES, verdicts, strict=True) if verdict == REPRODUCED])
    claim = Claim("X-ADHOC", "fair with W = 1 or 2, no gain past 2", notes, verdicts, points)
    return claim, table(["rule", "hops", "", *(f"W = {w}" if w else "no limit" for w in WINDOWS)], rows)


def section(lab: Lab) -> str:
    """What the page says of this paper."""
    adhoc, adhoc_table = x_adhoc(lab)
    return "\n".join((summary([adhoc]), "### X-ADHOC\n", adhoc_table))

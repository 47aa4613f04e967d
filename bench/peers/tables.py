"""The stored results as tables."""

from __future__ import annotations

from typing import Any

from cases import Case, Rule
from measures import MOS_GOOD


def cell(entry: dict[str, Any], rule: str, side: str, figure: str) -> str:
    """One cell of the table: mean and standard deviation, or of wall times the median."""
    value = entry.get(rule, {}).get(side, {}).get(figure)
    if value is None:
        return "-"
    if figure.endswith("_ms") and "median" in value:
        return f"{value['median'] / 1e3:.3f} s"
    digits = 3 if abs(value["mean"]) < 1 else 2
    return f"{value['mean']:.{digits}f} ±{value['sd']:.{digits}f}"


def show(case: Case, result: dict[str, Any]) -> None:
    """Prints a case as one table per figure, peer beside Fairhop under each rule."""
    print(f"\n## {case.name}: {case.title}")
    for figure in case.shows:
        heads = [f"{r.name} {side}" for r in case.rules for side in ("peer", "fairhop")]
        print(f"\n{figure}")
        print("| |" + "|".join(heads) + "|\n|" + "---|" * (len(heads) + 1))
        for point in case.points:
            entry = result["points"].get(point.label, {})
            row = [cell(entry, r.name, side, figure) for r in case.rules for side in ("peer", "fairhop")]
            print(f"|{point.label}|" + "|".join(row) + "|")
    if any(point.timing for point in case.points):
        show_ratios(case, result)
    if case.name == "k-cap-v":
        for rule in case.rules:
            for side in ("peer", "fairhop"):
                if capacity := voice_capacity(case, result, rule, side):
                    print(f"K-CAP-V {rule.name} {side}: {capacity} calls")


def show_ratios(case: Case, result: dict[str, Any]) -> None:
    """Prints how many times as long as Fairhop a peer took, where both were timed: as installed, and at its best."""
    kinds = {
        "as installed, wall": ("wall_stock_ms", "wall_run_ms"),
        "as installed, processor": ("cpu_stock_ms", "cpu_ms"),
        "at its best, wall": ("wall_run_ms", "wall_run_ms"),
        "at its best, processor": ("cpu_ms", "cpu_ms"),
    }
    rows = []
    for point in case.points:
        for rule in case.rules:
            sides = result["points"].get(point.label, {}).get(rule.name, {})
            peer, fairhop = sides.get("peer", {}), sides.get("fairhop", {})
            ratios = [
                f"{peer[theirs]['median'] / fairhop[ours]['median']:.1f}" if theirs in peer and ours in fairhop else "-"
                for theirs, ours in kinds.values()
            ]
            if set(ratios) != {"-"}:
                rows.append(f"|{point.label}, {rule.name}|" + "|".join(ratios) + "|")
    if rows:
        print("\ntime of the peer / time of Fairhop\n| |" + "|".join(kinds) + "|\n|" + "---|" * (len(kinds) + 1))
        print("\n".join(rows))


def compare(case: Case, result: dict[str, Any]) -> None:
    """Prints a case as docs/validation/mac.md has it: peer, Fairhop and the difference in one cell."""
    print(f"\n### {case.name}: {case.title}")
    for figure in case.shows:
        rows: list[str] = []
        for point in case.points:
            row = [compared(result["points"].get(point.label, {}), rule.name, figure) for rule in case.rules]
            if any(row):
                rows.append(f"| {point.label} | " + " | ".join(row) + " |")
        heads = " | ".join(f"`{rule.name}`" for rule in case.rules)
        print(f"\n| {figure} | {heads} |\n|" + " --- |" * (len(case.rules) + 1))
        print("\n".join(rows))


def compared(entry: dict[str, Any], rule: str, figure: str) -> str:
    """Peer / Fairhop (difference); empty where one is missing."""
    values = [entry.get(rule, {}).get(side, {}).get(figure) for side in ("peer", "fairhop")]
    if None in values:
        return ""
    peer, ours = (value["mean"] for value in values)
    digits = 0 if peer >= 100 else 2 if peer >= 1 else 3
    pair = f"{peer:.{digits}f} / {ours:.{digits}f}"
    if figure.startswith("mos"):
        return f"{pair} ({ours - peer:+.2f})"
    return f"{pair} ({100 * (ours / peer - 1):+.0f} %)" if peer > 0.1 else pair


def voice_capacity(case: Case, result: dict[str, Any], rule: Rule, side: str) -> int:
    """The largest number of calls of a case with a good mean MOS; 0 if there is none."""
    largest = 0
    for point in case.points:
        score = result["points"].get(point.label, {}).get(rule.name, {}).get(side, {}).get("mos")
        if score is not None and score["mean"] >= MOS_GOOD:
            largest = max(largest, point.network.calls)
    return largest

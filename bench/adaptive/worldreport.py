"""Tables of the results in drawn worlds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from report import decile
from simulator import table
from worldoracle import Best
from worldruns import Figures
from worlds import World

#: Number of worlds in a list of the worst.
WORST = 15
#: Seconds that packets may wait in the pacer while the decision is that the budget is not used.
STUCK_S = 5.0
#: Fraction of video frames in time that is enough.
FRAMES = 0.8
#: Page time over that without control that is acceptable.
PAGE_RATIO = 1.2
#: Classes of fewer judged worlds than this have no line.
FEW = 3


@dataclass(frozen=True)
class Judged:
    """A world, and the figures in it: the best fixed setting, no control, FQ-CoDel (with video), adaptive; and for each
    seed of adaptive its own."""

    world: World
    best: Best
    none: Figures
    fq_codel: Figures | None
    adaptive: Figures
    seeds: tuple[Figures, ...]

    @property
    def can(self) -> bool:
        """Whether the best fixed setting makes calls good; true without calls."""
        return self.best.figures.good

    @property
    def ratio(self) -> float:
        """Data goodput over that of the best fixed setting."""
        return self.adaptive.data_mbps / max(self.best.figures.data_mbps, 1e-6)

    @property
    def none_ratio(self) -> float:
        return self.none.data_mbps / max(self.best.figures.data_mbps, 1e-6)

    @property
    def to_none(self) -> float:
        """Data goodput over that without control."""
        return self.adaptive.data_mbps / max(self.none.data_mbps, 1e-6)


def spread(values: Sequence[float]) -> list[str]:
    """Median, worst decile and worst."""
    if not values:
        return ["", "", ""]
    return [f"{statistics.median(values):.2f}", f"{decile(values):.2f}", f"{min(values):.2f}"]


def of(part: int, whole: int) -> str:
    return f"{part} of {whole}" if whole else ""


HEADS = ("worlds", "calls good", "without control", "data, median", "worst decile", "worst", "without control")


def figures(several: Sequence[Judged]) -> list[str]:
    can = [judged for judged in several if judged.can]
    calls = [judged for judged in can if judged.world.has_calls]
    return [
        str(len(can)),
        of(sum(judged.adaptive.good for judged in calls), len(calls)),
        of(sum(judged.none.good for judged in calls), len(calls)),
        *spread([judged.ratio for judged in can]),
        spread([judged.none_ratio for judged in can])[0],
    ]


def by_class(several: Sequence[Judged]) -> str:
    labels = sorted({label for judged in several for label in judged.world.labels})
    rows = [["**all**", *figures(several)]]
    for label in labels:
        part = [judged for judged in several if label in judged.world.labels]
        if sum(judged.can for judged in part) >= FEW:
            rows.append([label, *figures(part)])
    return table(("class", *HEADS), rows)


def percentile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def aims(several: Sequence[Judged]) -> list[str]:
    """One line for each aim that is not in the table."""
    lines: list[str] = []
    can = [judged for judged in several if judged.can]
    calls = [judged for judged in can if judged.world.has_calls]
    if can:
        learnt = [one.learnt_s for judged in can for one in judged.seeds]
        free = [judged.none.learnt_s for judged in can]
        lines.append(
            f"80 % of the final goodput: median {statistics.median(learnt):.0f} s, 90th percentile "
            f"{percentile(learnt, 0.9):.0f} s (without control {statistics.median(free):.0f} s and "
            f"{percentile(free, 0.9):.0f} s)"
        )
    if calls:
        bad = statistics.fmean(1 - judged.adaptive.clear_first for judged in calls)
        best = statistics.fmean(1 - judged.best.figures.clear_first for judged in calls)
        lines.append(f"bad call-seconds in the first ten: {bad:.1%} (best fixed setting {best:.1%})")
        before = [judged for judged in calls if judged.none.good]
        if before:
            ratios = ", ".join(spread([judged.to_none for judged in before]))
            lines.append(
                f"calls good without control: {len(before)} worlds; adaptive's data over that without control, median, "
                f"worst decile, worst: {ratios}"
            )
    starved = [judged for judged in several if not judged.can]
    if starved:
        ratios = ", ".join(spread([judged.to_none for judged in starved]))
        lines.append(f"calls bad whatever is done: {len(starved)} worlds; data over that without control: {ratios}")
    runs = [one for judged in several for one in judged.seeds]
    stuck = sum(one.stuck_s > STUCK_S for one in runs)
    lines.append(
        f"runs with packets waiting for more than {STUCK_S:g} s under an unused budget: {of(stuck, len(runs))}"
    )
    video = [(judged, judged.fq_codel) for judged in calls if judged.fq_codel]
    if video:
        fine = [judged for judged, fq in video if fq.video >= FRAMES]
        kept = sum(judged.adaptive.video >= FRAMES for judged in fine)
        lines.append(
            f"video beside calls: {FRAMES:.0%} of frames in time in {of(kept, len(fine))} worlds in which FQ-CoDel has "
            f"them; median {statistics.median(judged.adaptive.video for judged, _ in video):.2f}, FQ-CoDel "
            f"{statistics.median(fq.video for _, fq in video):.2f}, best fixed setting "
            f"{statistics.median(judged.best.figures.video for judged, _ in video):.2f}"
        )
    pages = [
        judged.adaptive.page_s / judged.none.page_s for judged in can if judged.none.page_s and judged.adaptive.page_s
    ]
    if pages:
        late = sum(ratio > PAGE_RATIO for ratio in pages)
        lines.append(
            f"web pages: time over that without control, median {statistics.median(pages):.2f}, worst "
            f"{max(pages):.2f}; over {PAGE_RATIO} in {of(late, len(pages))} worlds"
        )
    return lines


def worst(several: Sequence[Judged], files: Callable[[World], Path]) -> str:
    """The worst worlds by calls and by data, with the command that runs each."""
    can = [judged for judged in several if judged.can]
    bad = sorted((judged for judged in can if not judged.adaptive.good), key=lambda judged: judged.adaptive.clear)
    low = sorted(can, key=lambda judged: judged.ratio)[:WORST]
    stuck = sorted((judged for judged in several if judged.adaptive.stuck_s > 0), key=lambda j: -j.adaptive.stuck_s)
    parts: list[str] = []
    titles = ("Calls are bad", "Least data against the best fixed setting", "Packets wait under an unused budget")
    for title, part in zip(titles, (bad[:WORST], low, stuck[:5]), strict=True):
        if part:
            parts += [f"{title}:\n", *(line(judged, files) for judged in part), ""]
    return "\n".join(parts)


def line(judged: Judged, files: Callable[[World], Path]) -> str:
    best, adaptive = judged.best.figures, judged.adaptive
    setting = judged.best.setting[0].removeprefix("control=")
    return (
        f"- {judged.world.name()}: clear {adaptive.clear:.3f}, data {adaptive.data_mbps:.3f} Mb/s; best fixed setting "
        f"{best.clear:.3f}, {best.data_mbps:.3f} Mb/s with `{setting}`; none {judged.none.clear:.3f}, "
        f"{judged.none.data_mbps:.3f} Mb/s; stuck {adaptive.stuck_s:.0f} s; {', '.join(judged.world.labels)}\n"
        f"  `fairhop run {files(judged.world)} --seed 1 --set 'control={{ kind = \"adaptive\" }}'`"
    )


def text(several: Sequence[Judged], unknown: int, files: Callable[[World], Path]) -> str:
    """The whole report."""
    calls = [judged for judged in several if judged.world.has_calls]
    chosen = sum(judged.best.chosen_good for judged in calls)
    can = sum(judged.can for judged in calls)
    parts = [
        f"{len(several)} worlds, {len(calls)} with calls; the best fixed setting makes calls good in {can} of these on "
        f"the seeds that judge ({chosen} on those that chose it), and only these and worlds without calls count."
    ]
    if unknown:
        parts.append(f"{unknown} worlds are left out: their best fixed setting is not known yet.")
    parts += ["", by_class(several), *(f"- {words}" for words in aims(several)), "", worst(several, files)]
    return "\n".join(parts)

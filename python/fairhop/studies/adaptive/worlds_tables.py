"""Tables of the results in drawn worlds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairhop.studies.adaptive.grid_tables import decile
from fairhop.studies.adaptive.worlds import World
from fairhop.studies.adaptive.worlds_oracle import Best
from fairhop.studies.adaptive.worlds_runs import Figures
from fairhop.studies.lab import Sets
from fairhop.studies.model import Table

#: Number of worlds in a list of the worst.
WORST = 15
#: Seconds that packets may wait in the pacer while the decision is that the budget is not used.
STUCK_S = 5.0
#: Fraction of video frames in time that is enough.
FRAMES = 0.8
#: Page time over that without control that is acceptable.
PAGE_RATIO = 1.2
#: Classes of fewer judged worlds than this have no line in a report of one split.
FEW = 3
#: The same for the page.
ENOUGH = 8


@dataclass(frozen=True)
class Judged:
    """A world, and the figures in it: the best fixed setting, no control, FQ-CoDel (with video), adaptive with its
    setting; for each seed of adaptive its own; and with other seeds those of the best fixed setting, where that makes
    calls good, and of adaptive."""

    world: World
    best: Best
    none: Figures
    fq_codel: Figures | None
    sets: Sets
    adaptive: Figures
    seeds: tuple[Figures, ...]
    again: tuple[Figures, Figures] | None

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
    return Table(("class", *HEADS), rows).markdown()


def percentile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def aims(several: Sequence[Judged]) -> dict[str, str]:
    """The aims that are not columns of the table of classes, and their figures."""
    found: dict[str, str] = {}
    can = [judged for judged in several if judged.can]
    calls = [judged for judged in can if judged.world.has_calls]
    if can:
        learnt = [one.learnt_s for judged in can for one in judged.seeds]
        free = [judged.none.learnt_s for judged in can]
        found["80 % of the final goodput: median, 90th percentile (without control)"] = (
            f"{statistics.median(learnt):.0f} s, {percentile(learnt, 0.9):.0f} s "
            f"({statistics.median(free):.0f} s, {percentile(free, 0.9):.0f} s)"
        )
    if calls:
        bad = 100 * statistics.fmean(1 - judged.adaptive.clear_first for judged in calls)
        best = 100 * statistics.fmean(1 - judged.best.figures.clear_first for judged in calls)
        found["bad call-seconds in the first ten (best fixed setting)"] = f"{bad:.1f} % ({best:.1f} %)"
        before = [judged for judged in calls if judged.none.good]
        if before:
            found[f"where calls are good without control: {TO_NONE}"] = to_none(before)
    again = [judged.again for judged in calls if judged.again]
    if again:
        kept = sum(adaptive.good for best, adaptive in again if best.good)
        best_good = sum(best.good for best, _ in again)
        found["calls good again on other seeds: best fixed setting, adaptive, both"] = (
            f"{best_good}, {sum(adaptive.good for _, adaptive in again)}, {kept} of {len(again)}"
        )
    starved = [judged for judged in several if not judged.can]
    if starved:
        found[f"where calls are bad whatever is done: {TO_NONE}"] = to_none(starved)
    runs = [one for judged in several for one in judged.seeds]
    stuck = sum(one.stuck_s > STUCK_S for one in runs)
    found[f"runs with packets waiting for over {STUCK_S:g} s under an unused budget"] = of(stuck, len(runs))
    video = [(judged, judged.fq_codel) for judged in calls if judged.fq_codel]
    if video:
        fine = [judged for judged, fq in video if fq.video >= FRAMES]
        kept = sum(judged.adaptive.video >= FRAMES for judged in fine)
        found[f"{100 * FRAMES:.0f} % of video frames in time beside calls, where FQ-CoDel has them"] = of(
            kept, len(fine)
        )
    pages = [
        judged.adaptive.page_s / judged.none.page_s for judged in can if judged.none.page_s and judged.adaptive.page_s
    ]
    if pages:
        late = sum(ratio > PAGE_RATIO for ratio in pages)
        found[f"web pages, time over that without control: median, worst; over {PAGE_RATIO}"] = (
            f"{statistics.median(pages):.2f}, {max(pages):.2f}; {of(late, len(pages))}"
        )
    return found


#: What `to_none` gives.
TO_NONE = "worlds; data over that without control, median, worst decile, worst"


def to_none(several: Sequence[Judged]) -> str:
    return f"{len(several)}; {', '.join(spread([judged.to_none for judged in several]))}"


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
    parts += [
        "",
        by_class(several),
        *(f"- {aim}: {found}" for aim, found in aims(several).items()),
        "",
        worst(several, files),
    ]
    return "\n".join(parts)


def short(splits: Mapping[str, Sequence[Judged]]) -> str:
    """A column of figures for each split."""
    rows: dict[str, dict[str, str]] = {}
    for name, several in splits.items():
        worlds, calls, free, *data, _ = figures(several)
        found = {
            "worlds; those that count": f"{len(several)}; {worlds}",
            "calls good (without control)": f"{calls} ({free})",
            "data over the best fixed setting's: median, worst decile, worst": ", ".join(data),
            **aims(several),
        }
        for row, cell in found.items():
            rows.setdefault(row, {})[name] = cell
    lines = [[row, *(cells.get(name, "") for name in splits)] for row, cells in rows.items()]
    return Table(("", *splits), lines).markdown()


def classes(splits: Mapping[str, Sequence[Judged]]) -> str:
    """Three columns for each split; classes with enough worlds in at least one."""
    labels = sorted({label for several in splits.values() for judged in several for label in judged.world.labels})
    rows = [["**all**", *(cell for several in splits.values() for cell in class_cells(several, 0))]]
    for label in labels:
        cells: list[str] = []
        for several in splits.values():
            cells += class_cells([judged for judged in several if label in judged.world.labels], ENOUGH)
        if any(cells):
            rows.append([label, *cells])
    heads = [f"{name}: {head}" for name in splits for head in ("worlds", "calls good", "data")]
    return Table(("class", *heads), rows).markdown()


def class_cells(several: Sequence[Judged], enough: int) -> list[str]:
    """Worlds that count, good calls, median and worst decile of data; nothing if there are too few worlds."""
    worlds, calls, _, median, low, *_ = figures(several)
    return [worlds, calls, f"{median} / {low}"] if int(worlds) >= max(enough, 1) else ["", "", ""]

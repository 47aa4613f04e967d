"""`fairhop study`: measures the rows of the papers and writes the report."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from fairhop.studies import STUDIES, adaptive, pages, report
from fairhop.studies.lab import INTERRUPTED, Lab, ProgramError, Runner, Stopped, find_program
from fairhop.studies.model import NOT_MEASURED, Claim, Measurement, Part, Section, Study
from fairhop.sweeps import MissingLibraryError

#: Seeds of a quick and of a full study.
QUICK_SEEDS, FULL_SEEDS = 2, 10
#: Searches of a full study try about this many times more settings and seeds than the coarse ones.
FINER = 6


class StudyError(Exception):
    """What the user can fix; the message says how."""


# ---- what is chosen -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """A measurement of a study."""

    study: Study
    part: Part
    measurement: Measurement

    @property
    def name(self) -> str:
        """Its rows."""
        return ", ".join(self.measurement.rows)


def studies_named(names: Sequence[str]) -> list[Study]:
    """The studies of these names, or all.

    Raises:
        StudyError: A name is unknown.
    """
    for name in names:
        if name == adaptive.NAME:
            raise StudyError("the study adaptive has options of its own\n  help: fairhop study adaptive --help")
        if name not in STUDIES and name != "all":
            known = f"{', '.join(STUDIES)}, all (of these), and {adaptive.NAME}"
            raise StudyError(f"there is no study {name!r}\n  help: the studies are {known}")
    return [study for study in STUDIES.values() if study.name in names or "all" in names]


def choose(studies: Sequence[Study], only: Sequence[str]) -> list[Chosen]:
    """The measurements of some rows, or all.

    Raises:
        StudyError: A row is unknown.
    """
    every = [Chosen(study, part, measured) for study in studies for part, measured in study.measurements()]
    known = [row for chosen in every for row in chosen.measurement.rows]
    for row in only:
        if row.upper() not in known:
            names = " and ".join(study.name for study in studies)
            raise StudyError(f"there is no row {row!r} in {names}\n  help: the rows are {', '.join(known)}")
    wanted = {row.upper() for row in only} or set(known)
    return [chosen for chosen in every if wanted & set(chosen.measurement.rows)]


def listing() -> str:
    """The studies and their rows."""
    lines: list[str] = []
    for study in STUDIES.values():
        lines += [*([""] if lines else []), f"{study.name}: {study.paper}"]
        rows = study.rows()
        for _, measurement in study.measurements():
            lines += [
                f"  {name:<11} {rows[name].setting if name in rows else 'settings that the paper leaves open'}"
                for name in measurement.rows
            ]
    lines += ["", f"{adaptive.NAME}: {adaptive.ABOUT}"]
    lines += [f"  {command:<34} {about}" for command, about in adaptive.COMMANDS.items()]
    return "\n".join(lines)


# ---- measuring ------------------------------------------------------------------------------------------------------


def measured(chosen: Chosen, lab: Lab) -> Section:
    """The section of a measurement. Without a program that it needs, its rows say so.

    Raises:
        Stopped: The study is being interrupted.
        StudyError: A run failed.
    """
    needs = chosen.measurement.needs
    if needs and which(needs) is None:
        return absent(chosen, f"{needs} is not installed")
    try:
        return chosen.measurement.measure(lab.owned(chosen.name))
    except CancelledError:
        raise Stopped from None
    except ProgramError as error:
        raise StudyError(f"{chosen.name}: {error}") from None


def absent(chosen: Chosen, why: str) -> Section:
    """The section of rows that could not be measured."""
    nearest = "" if chosen.part.by_rule else None
    rows = [chosen.part.rows[name] for name in chosen.measurement.rows if name in chosen.part.rows]
    return Section([Claim(row, "none", [why], [NOT_MEASURED], nearest) for row in rows], {})


class Progress:
    """A line on standard error: runs, rate, and the time that is left."""

    def __init__(self, runner: Runner, chosen: Sequence[Chosen], lab: Lab) -> None:
        self.runner = runner
        self.began = time.monotonic()
        scale = len(lab.seeds) / QUICK_SEEDS
        self.expected = {
            each.name: each.measurement.core_s * scale * (FINER if each.measurement.quick and not lab.quick else 1)
            for each in chosen
        }
        self.done: set[str] = set()
        self.watched = sys.stderr.isatty()
        self._shown = self.began if not self.watched else 0.0

    def left_s(self) -> float:
        """Seconds that are left, from what measurements were expected to take, what they took so far, and the part of
        the cores that the study gets."""
        spent = dict(self.runner.core_s)
        known = sum(self.expected[name] for name in self.done)
        ratio = sum(spent.get(name, 0.0) for name in self.done) / known if known > 5 else 1.0
        left = [
            max(self.expected[name] * ratio - spent.get(name, 0.0), 0.05 * spent.get(name, 0.0))
            for name in self.expected
            if name not in self.done
        ]
        cores = self.runner.made_core_s / max(time.monotonic() - self.began, 1e-9)
        return sum(left) / (cores if self.runner.made_core_s > 5 else self.runner.workers)

    def text(self) -> str:
        """The line."""
        made, found = sum(self.runner.made.values()), sum(self.runner.found.values())
        rate = made / max(time.monotonic() - self.began, 1e-9)
        return (
            f"{made} runs made and {found} found, {rate:.1f} a second; {len(self.done)} of {len(self.expected)} "
            f"measurements done; about {report.duration(self.left_s())} left"
        )

    def show(self) -> None:
        """Shows the line, on a terminal at every call and elsewhere every minute."""
        now = time.monotonic()
        if self.watched:
            print(f"\r\x1b[K{self.text()}", end="", file=sys.stderr, flush=True)
        elif now - self._shown >= 60:
            self._shown = now
            print(self.text(), file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Removes the line from a terminal."""
        if self.watched:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def measure(chosen: Sequence[Chosen], lab: Lab) -> list[Section]:
    """The sections, in the order of what is chosen. All are measured at a time, so that no core waits for a search.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; what was finished is kept.
        StudyError: A run failed.
    """
    progress = Progress(lab.runner, chosen, lab)
    pool = ThreadPoolExecutor(max(1, len(chosen)))
    futures: list[Future[Section]] = []
    try:
        futures = [pool.submit(measured, each, lab) for each in chosen]
        pending = set(futures)
        while pending:
            finished, pending = wait_for(pending, timeout=0.5)
            progress.done |= {each.name for each, future in zip(chosen, futures, strict=True) if future in finished}
            for future in finished:
                future.result()
            progress.show()
    except BaseException:
        lab.runner.stop()
        raise
    finally:
        progress.clear()
        pool.shutdown()
    return [future.result() for future in futures]


# ---- the command ----------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `fairhop study`."""
    parser.add_argument(
        "what", metavar="WHAT", nargs="+", help=f"list, all, papers ({', '.join(STUDIES)}), or adaptive"
    )
    parser.add_argument("--only", metavar="ROW", nargs="+", default=[], help="only these rows, such as K-REGION")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--quick", action="store_true", help=f"{QUICK_SEEDS} seeds and coarse searches (the default): minutes"
    )
    form.add_argument("--full", action="store_true", help=f"{FULL_SEEDS} seeds and whole searches: hours")
    parser.add_argument("--seeds", type=int, choices=range(2, 21), metavar="N", help="another number of seeds, 2 to 20")
    parser.add_argument(
        "--out", type=Path, default=Path("out/study"), metavar="DIR", help="folder of runs and report [out/study]"
    )
    parser.add_argument("--threads", type=int, metavar="N", help="runs at a time [default: one per core]")
    parser.add_argument("--program", type=Path, metavar="FILE", help="the fairhop to run [default: this one]")
    parser.add_argument("--page", type=Path, metavar="FILE", help="update the tables of docs/claims.md, too")
    parser.set_defaults(command=study)


def study(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit code.

    Raises:
        StudyError: The arguments are wrong, or a run failed.
        OSError: A file cannot be read or written.
        MissingLibraryError: matplotlib is not installed.
    """
    if args.what == ["list"]:
        print(listing())
        return 0
    if args.what == ["page"]:
        return data_only(args)
    studies = studies_named(args.what)
    chosen = choose(studies, args.only)
    if args.page and not args.full:
        raise StudyError("--page takes a full study\n  help: add --full")
    if find_spec("matplotlib") is None:
        raise MissingLibraryError("matplotlib")
    runner = Runner(find_program(args.program), args.out / "runs", args.threads)
    seeds = args.seeds or (FULL_SEEDS if args.full else QUICK_SEEDS)
    lab = Lab(runner, range(1, seeds + 1), quick=not args.full)
    began = time.monotonic()
    try:
        sections = measure(chosen, lab)
    except KeyboardInterrupt:
        return interrupted(sum(runner.made.values()))
    form = "full" if args.full else "quick"
    made = report.Made(
        program=version(runner),
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        seeds=lab.seeds_text(),
        quick=lab.quick,
        options=f"--{form}" + (f" --seeds {seeds}" if args.seeds else ""),
        wall_s=time.monotonic() - began,
        core_s=sum(runner.core_s.values()),
        runs=sum(runner.made.values()) + sum(runner.found.values()),
        found=sum(runner.found.values()),
    )
    name = "all" if len(studies) == len(STUDIES) else "-".join(each.name for each in studies)
    of_study: dict[str, tuple[Study, report.Measured]] = {}
    for each, section in zip(chosen, sections, strict=True):
        _, found = of_study.setdefault(each.study.name, (each.study, []))
        found.append((each.part, each.measurement, section))
    by_study = list(of_study.values())
    title = "The papers' claims" if name == "all" else f"The claims of {', '.join(of.name for of, _ in by_study)}"
    page = args.out / f"{name}-{form}.html"
    report.write(page, report.html(title, made, by_study))
    folder = args.out / f"{name}-{form}"
    for file, text in report.csv_files(by_study).items():
        report.write(folder / file, text)
    if args.page:
        update_page(args.page, chosen, sections)
    for section in sections:
        for claim in section.claims:
            print(f"{claim.name:<28} {'; '.join(dict.fromkeys(claim.verdicts))}")
    print(f"{made.runs} runs, {made.found} of them found; report: {page}, tables: {folder}", file=sys.stderr)
    return 0


def interrupted(kept: int) -> int:
    """Says how an interrupted study goes on; returns its exit code."""
    print(f"interrupted: {kept} runs were made and kept; to go on: {command_line()}", file=sys.stderr)
    return INTERRUPTED


def command_line() -> str:
    """The command as it was called."""
    return shlex.join(["fairhop", "study", *sys.argv[2:]])


def version(runner: Runner) -> str:
    """The program's version and the begin of its hash."""
    return f"fairhop {runner.version()}, SHA-256 {runner.hash[:12]}"


def data_only(args: argparse.Namespace) -> int:
    """Brings the tables of docs/claims.md up to date that do not depend on measurements."""
    if not args.page:
        raise StudyError("`fairhop study page` needs the page\n  help: add --page docs/claims.md")
    pages.write(args.page, pages.with_data(args.page.read_text(encoding="utf-8"), list(STUDIES.values())))
    return 0


def update_page(path: Path, chosen: Sequence[Chosen], sections: Sequence[Section]) -> None:
    """Writes what was measured to the page, and what comes from the rows.

    Raises:
        ValueError: The page lacks a marker, or has no row for what was measured.
    """
    page = pages.with_data(path.read_text(encoding="utf-8"), list(STUDIES.values()))
    for part in dict.fromkeys(each.part.name for each in chosen):
        of = [(each, section) for each, section in zip(chosen, sections, strict=True) if each.part.name == part]
        whole = of[0][0].part
        if len(of) == len(whole.measurements):
            page = pages.replaced(page, part, pages.measured(whole, [section for _, section in of]))
        else:
            for _, section in of:
                page = pages.replaced(page, part, pages.with_section(pages.between(page, part), section))
    pages.write(path, page)

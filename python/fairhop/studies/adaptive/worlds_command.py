"""`fairhop study adaptive worlds`: adaptive control in drawn worlds, against the best fixed setting of each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path

from fairhop.studies.adaptive import worlds_oracle, worlds_runs, worlds_tables
from fairhop.studies.adaptive.output import add_common, check_page, describe, positive, publish, runner_of, update_page
from fairhop.studies.adaptive.parallel import for_all
from fairhop.studies.adaptive.store import UnknownRunError
from fairhop.studies.adaptive.worlds import SPLITS, World, drawn
from fairhop.studies.adaptive.worlds_oracle import Best
from fairhop.studies.adaptive.worlds_runs import AGAIN, JUDGING, PROBED, Figures, WorldRuns
from fairhop.studies.adaptive.worlds_tables import Judged
from fairhop.studies.command import StudyError, interrupted
from fairhop.studies.lab import FREE, ProgramError, Runner, Sets, Stopped

ABOUT = """\
Adaptive control in networks (worlds) drawn at random over all kinds of radio, topology, codec, TCP and change, against
the best fixed setting of each. World K of a split is always the same network with the same traffic. The best setting is
searched on other seeds than those that judge it: 20 to 30 runs a world."""

EXAMPLES = """\
examples:
  fairhop study adaptive worlds --split train --count 100
  fairhop study adaptive worlds --split train --count 100 --only-adaptive --program PATH    another controller
  fairhop study adaptive worlds --split train --count 100 --class "receiver linux" --class "hops 1"
  fairhop study adaptive worlds --split test --count 400 --no-adaptive      only the best fixed settings
  fairhop study adaptive worlds --split train --count 100 --list            worlds and their classes
  fairhop study adaptive worlds --split test --count 400 --probe unreported
  fairhop study adaptive worlds --split test --count 400 --opaque           calls of an unknown protocol

Each run is kept in DIR/worlds/runs.jsonl: after Ctrl-C the same command goes on, and another controller (--program)
runs only the adaptive control. The worlds are written to DIR/worlds/SPLIT/NUMBER.toml."""

#: The first worlds of each split, which the page is about.
PAGE_WORLDS = {"train": 400, "validation": 300, "test": 400}
#: Worlds that the program refuses: a node walks out of the reach of all others. Another generator would change others.
REFUSED = {("test", 123)}

FQ_CODEL: Sets = (FREE, 'mac.queue={ discipline = "fq-codel", packets = 1000 }')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    describe(parser, ABOUT, EXAMPLES)
    parser.add_argument("--split", default="train", choices=SPLITS, help="part of the worlds [train]")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="number of the first world [0]")
    parser.add_argument("--count", type=positive, default=100, metavar="N", help="number of worlds [100]")
    parser.add_argument(
        "--class", dest="classes", action="append", default=[], metavar="LABEL", help="only such worlds"
    )
    parser.add_argument("--worlds", type=numbers_of, metavar="K,K,…", help="only worlds with these numbers")
    parser.add_argument("--only-adaptive", action="store_true", help="leave out worlds without a stored best setting")
    parser.add_argument("--no-adaptive", action="store_true", help="search the best fixed settings and nothing else")
    parser.add_argument(
        "--probe",
        choices=PROBED,
        help="only worlds that are for probes: where all calls stay in the mesh, of the ends of the calls or of the "
        "data; where calls without reports are beside uploads, of the nodes of these calls",
    )
    parser.add_argument(
        "--opaque",
        action="store_true",
        help="only worlds with calls; the gateway does not know their protocol, and has no reports of them",
    )
    parser.add_argument("--list", action="store_true", help="list worlds and their classes; run nothing")
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="measure the worlds of docs/validation/adaptive.md, of all splits, and update its tables",
    )
    add_common(parser)
    parser.set_defaults(command=run)


def numbers_of(text: str) -> list[int]:
    """`3,17`."""
    words = text.split(",")
    if not all(word.isdecimal() for word in words):
        raise argparse.ArgumentTypeError(f"{text} is not of the form 3,17")
    return [int(word) for word in words]


def judge(runs: WorldRuns, world: World, under: Sets | None) -> Judged | None:
    """All figures of a world under that adaptive control, or none if only the best fixed setting is searched.

    Raises:
        UnknownRunError: A fixed setting is not stored, and only `adaptive` may be run.
        ProgramError: The program refused the world.
    """
    best: Best = worlds_oracle.seek(runs, world)
    none = runs.mean(world, (FREE,), JUDGING)
    fq_codel: Figures | None = runs.mean(world, FQ_CODEL, JUDGING) if world.entries("video") else None
    counts = world.has_calls and best.figures.good
    best_again = runs.mean(world, best.setting, AGAIN) if counts else None
    if not under:
        return None
    seeds = tuple(runs.one(world, under, seed) for seed in JUDGING)
    again = (best_again, runs.mean(world, under, AGAIN)) if best_again else None
    return Judged(world, best, none, fq_codel, under, Figures.mean(seeds), seeds, again)


def selected(args: argparse.Namespace) -> list[World]:
    """The chosen worlds.

    Raises:
        StudyError: There are none.
    """
    numbers = args.worlds or range(args.first, args.first + args.count)
    worlds = [drawn(args.split, number) for number in numbers]
    chosen = [world for world in worlds if not args.classes or set(args.classes) & set(world.labels)]
    if args.probe:
        chosen = [world for world in chosen if worlds_runs.probed_nodes(world, args.probe)]
    if args.opaque:
        chosen = [world for world in chosen if world.has_calls]
    if not chosen:
        what = "of these classes, with calls, or for these probes"
        raise StudyError(f"none of {len(worlds)} worlds is {what}\n  help: --list shows the classes of each")
    return chosen


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit code.

    Raises:
        StudyError: The arguments are wrong, or the program refused some worlds.
        OSError: A file cannot be read or written.
    """
    worlds = selected(args)
    if args.list:
        for world in worlds:
            print(f"{world.name()}: {', '.join(world.labels)}")
        return 0
    check_page(args.page, "worlds-in-short", "worlds")
    runner = runner_of(args)
    with closing(WorldRuns(runner, args.out / "worlds", only_adaptive=args.only_adaptive)) as runs:
        try:
            if args.page:
                write(args, runner, runs)
            else:
                show(args, runner, runs, worlds)
        except (KeyboardInterrupt, Stopped):
            return interrupted(runs.made)
    return 0


def show(args: argparse.Namespace, runner: Runner, runs: WorldRuns, worlds: Sequence[World]) -> None:
    """The report of the chosen worlds.

    Raises:
        StudyError: The program refused some worlds.
    """

    def under(world: World) -> Sets:
        return worlds_runs.adaptive(world, args.probe, args.opaque)

    found, unknown, failed = all_judged(runner, runs, worlds, None if args.no_adaptive else under)
    if found:
        text = worlds_tables.text(found, unknown, partial(worlds_runs.file_of, runs.folder))
        title = f"Adaptive control in {len(found)} worlds of the {args.split} split"
        publish(args, runner, f"worlds-{args.split}", title, text, *every_world(found))
    elif not args.no_adaptive:
        print("No world's best fixed setting is stored yet: run without --only-adaptive.")
    if failed:
        raise StudyError(f"{failed} worlds failed; their errors are above")


def write(args: argparse.Namespace, runner: Runner, runs: WorldRuns) -> None:
    """Updates the page's tables from the worlds of `PAGE_WORLDS`, searching what is not stored.

    Raises:
        StudyError: The program refused some worlds.
    """
    splits: dict[str, list[Judged]] = {}
    for split, count in PAGE_WORLDS.items():
        worlds = [drawn(split, number) for number in range(count) if (split, number) not in REFUSED]
        splits[split], _, failed = all_judged(runner, runs, worlds, worlds_runs.adaptive)
        if failed:
            raise StudyError(f"{failed} worlds of {split} failed; their errors are above, and the page is as it was")
    update_page(args.page, "worlds-in-short", worlds_tables.short(splits))
    update_page(args.page, "worlds", worlds_tables.classes(splits))


def all_judged(
    runner: Runner, runs: WorldRuns, worlds: Sequence[World], under: Callable[[World], Sets] | None
) -> tuple[list[Judged], int, int]:
    """The figures of the worlds in order under that control, how many have no stored setting, and how many failed."""
    unknown: list[World] = []
    failed: list[World] = []

    def attempt(world: World) -> Judged | None:
        try:
            return judge(runs, world, under(world) if under else None)
        except UnknownRunError:
            unknown.append(world)
        except ProgramError as problem:
            # One world that cannot run does not end a search of hours.
            failed.append(world)
            print(f"{world.name()}: {problem}", file=sys.stderr, flush=True)
        return None

    results = for_all(runner, worlds[0].split, worlds, attempt, unit="worlds")
    found = [judged for judged in results if judged]
    return sorted(found, key=lambda judged: judged.world.number), len(unknown), len(failed)


def every_world(found: Sequence[Judged]) -> tuple[Sequence[str], list[list[str]]]:
    """The figures of each world under each control, the best fixed setting included: heads and rows."""
    names = [field.name for field in fields(Figures)]
    rows: list[list[str]] = []
    for judged in found:
        world = judged.world
        under: dict[str, tuple[Sets, Figures | None]] = {
            "best fixed setting": (judged.best.setting, judged.best.figures),
            "none": ((FREE,), judged.none),
            "fq-codel": (FQ_CODEL, judged.fq_codel),
            "adaptive": (judged.sets, judged.adaptive),
        }
        about = [world.split, str(world.number), "; ".join(world.labels)]
        for name, (sets, figures) in under.items():
            if figures:
                values = [f"{value:.6f}" for value in asdict(figures).values()]
                rows.append([*about, name, "; ".join(sets), *values])
    return ["split", "world", "classes", "control", "setting", *names], rows

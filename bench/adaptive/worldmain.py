"""`python3 bench/adaptive worlds`: adaptive control in drawn worlds, against the best fixed setting of each.

    python3 bench/adaptive worlds --split train --count 100
    python3 bench/adaptive worlds --split train --count 100 --only-adaptive --program target/release/fairhop
    python3 bench/adaptive worlds --split train --count 100 --class "receiver linux" --class "hops 1"
    python3 bench/adaptive worlds --split test --count 400 --no-adaptive          # only the best fixed settings
    python3 bench/adaptive worlds --split train --count 100 --list                # worlds and their classes
    python3 bench/adaptive worlds --write     # adaptive control in the worlds of the page, of all splits; its tables

Each run is stored in --store, so an interrupted call continues where it stopped, and another controller (--program)
runs only the adaptive control. The worlds are written to out/worlds/SPLIT/NUMBER.toml.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import worldoracle
import worldreport
from report import PAGE
from simulator import FAIRHOP, FREE, ROOT, InterruptedRunError, Sets, replace_between
from worldoracle import Best
from worldreport import Judged
from worldruns import ADAPTIVE, JUDGING, Figures, UnknownRunError, WorldRuns
from worlds import SPLITS, World, drawn

#: The first worlds of each split, which the page is about.
PAGE_WORLDS = {"train": 60, "validation": 60, "test": 108}

FQ_CODEL: Sets = (FREE, 'mac.queue={ discipline = "fq-codel", packets = 1000 }')


class FailedWorldsError(Exception):
    """The program refused some worlds."""


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 bench/adaptive worlds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--split", default="train", choices=SPLITS)
    parser.add_argument("--first", type=int, default=0, metavar="K", help="number of the first world")
    parser.add_argument("--count", type=int, default=100, metavar="N", help="number of worlds")
    parser.add_argument("--program", type=Path, default=FAIRHOP, metavar="PATH", help="the fairhop to run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="runs at a time")
    parser.add_argument(
        "--class", dest="classes", action="append", default=[], metavar="LABEL", help="only such worlds"
    )
    parser.add_argument("--worlds", metavar="K,K,…", help="only worlds with these numbers")
    parser.add_argument("--store", type=Path, default=ROOT / "target" / "adaptive" / "worlds", metavar="DIR")
    parser.add_argument("--written", type=Path, default=ROOT / "out" / "worlds", metavar="DIR", help="scenario files")
    parser.add_argument("--only-adaptive", action="store_true", help="leave out worlds without a stored best setting")
    parser.add_argument("--no-adaptive", action="store_true", help="search the best fixed settings and nothing else")
    parser.add_argument("--list", action="store_true", help="list worlds and their classes; run nothing")
    parser.add_argument("--write", action="store_true", help="update the tables of docs/validation/adaptive.md")
    args = parser.parse_args(words)
    if not args.list and not args.program.exists():
        parser.error(f"{args.program} is not built: cargo build --release")
    return args


def judge(runs: WorldRuns, world: World, *, adaptive: bool) -> Judged | None:
    """All figures of a world, or none if only the best fixed setting is searched.

    Raises:
        UnknownRunError: A fixed setting is not stored, and only `adaptive` may be run.
    """
    best: Best = worldoracle.seek(runs, world)
    none = runs.mean(world, (FREE,), JUDGING)
    fq_codel: Figures | None = runs.mean(world, FQ_CODEL, JUDGING) if world.entries("video") else None
    if not adaptive:
        return None
    seeds = tuple(runs.one(world, ADAPTIVE, seed) for seed in JUDGING)
    return Judged(world, best, none, fq_codel, Figures.mean(seeds), seeds)


def selected(args: argparse.Namespace) -> list[World]:
    numbers = list(range(args.first, args.first + args.count))
    if args.worlds:
        numbers = [int(word) for word in args.worlds.split(",")]
    worlds = [drawn(args.split, number) for number in numbers]
    return [world for world in worlds if not args.classes or set(args.classes) & set(world.labels)]


def run(words: Sequence[str]) -> None:
    args = parse(words)
    if args.write:
        write(args)
        return
    worlds = selected(args)
    if args.list:
        for world in worlds:
            print(f"{world.name()}: {', '.join(world.labels)}")
        return
    runs = WorldRuns(args.program, args.store, args.written, only_adaptive=args.only_adaptive)
    found, unknown, failed = all_judged(runs, worlds, args)
    if found:
        print(worldreport.text(found, unknown, runs.file))
    elif not args.no_adaptive:
        print("No world's best fixed setting is stored yet: run without --only-adaptive.")
    if failed:
        raise FailedWorldsError(f"{failed} worlds failed; their errors are above")


def write(args: argparse.Namespace) -> None:
    """Updates the page's tables from the worlds of `PAGE_WORLDS`, searching what is not stored."""
    runs = WorldRuns(args.program, args.store, args.written, only_adaptive=False)
    splits: dict[str, list[Judged]] = {}
    for split, count in PAGE_WORLDS.items():
        found, _, failed = all_judged(runs, [drawn(split, number) for number in range(count)], args)
        if failed:
            raise FailedWorldsError(
                f"{failed} worlds of {split} failed; their errors are above, and the page is as it was"
            )
        splits[split] = found
    replace_between(PAGE, "worlds-in-short", worldreport.short(splits))
    replace_between(PAGE, "worlds", worldreport.classes(splits))


def all_judged(runs: WorldRuns, worlds: Sequence[World], args: argparse.Namespace) -> tuple[list[Judged], int, int]:
    """The figures of the worlds in order, how many have no stored setting, and how many failed."""
    found: list[Judged] = []
    unknown, failed, done, since = 0, 0, 0, time.monotonic()
    with ThreadPoolExecutor(args.jobs) as pool:
        futures = {pool.submit(judge, runs, world, adaptive=not args.no_adaptive): world for world in worlds}
        try:
            for future in as_completed(futures):
                try:
                    judged = future.result()
                except UnknownRunError:
                    unknown += 1
                    continue
                except RuntimeError as problem:
                    # One world that cannot run does not end a search of hours.
                    failed += 1
                    print(f"{futures[future].name()}: {problem}", file=sys.stderr, flush=True)
                    continue
                done += 1
                if judged:
                    found.append(judged)
                left = (time.monotonic() - since) / done * (len(worlds) - unknown - failed - done) / 60
                if done % 10 == 0:
                    print(
                        f"{futures[future].split}: {done} of {len(worlds)} worlds, {left:.0f} min left",
                        file=sys.stderr,
                        flush=True,
                    )
        except KeyboardInterrupt:
            runs.stop.set()
            pool.shutdown(cancel_futures=True)
            raise InterruptedRunError from None
        except BaseException:
            runs.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return sorted(found, key=lambda judged: judged.world.number), unknown, failed

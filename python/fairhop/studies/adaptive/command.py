"""`fairhop study adaptive`: which of its commands the words mean."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fairhop.studies.adaptive import ABOUT, NAME, grid_command, long_runs, sensitivity, worlds_command


def add_arguments(study: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """The arguments of the command that `words` begin with, after `fairhop study adaptive`: the grid by default.

    Only this command is added, so that options of the grid cannot stand before the name of another command unnoticed.
    """
    adaptive = study.add_subparsers(required=True).add_parser(NAME, help=ABOUT)
    match words[:1]:
        case ["worlds"]:
            worlds_command.add_arguments(adaptive.add_subparsers(required=True).add_parser("worlds"))
        case ["long"]:
            long_runs.add_arguments(adaptive.add_subparsers(required=True).add_parser("long"))
        case ["sensitivity"]:
            sensitivity.add_arguments(adaptive.add_subparsers(required=True).add_parser("sensitivity"))
        case _:
            grid_command.add_arguments(adaptive)

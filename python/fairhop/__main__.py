"""`python -m fairhop`: the commands of the program that need Python (`fairhop query`, `plot` and `study`)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from fairhop.sweeps import Dataset, MissingLibraryError


def _query(args: argparse.Namespace) -> None:
    frame = Dataset(args.folder).query(args.sql)
    match args.format:
        case "csv":
            sys.stdout.write(frame.write_csv())
        case "json":
            sys.stdout.write(frame.write_json() + "\n")
        case _:
            with pl.Config(
                tbl_rows=-1,
                tbl_cols=-1,
                tbl_hide_dataframe_shape=True,
                tbl_hide_column_data_types=True,
                tbl_formatting="NOTHING",
                tbl_width_chars=1000,
                fmt_str_lengths=200,
                float_precision=4,
            ):
                print(frame)


def _plot(args: argparse.Namespace) -> None:
    figure = Dataset(args.folder).plot(args.x, args.y, color=args.color)
    out = Path(args.out or f"{args.y}.svg")
    if out.exists():
        raise FileExistsError(f"{out} exists, and files are never overwritten\n  help: name another one with --out")
    # Without a date and with fixed identifiers, equal runs give equal files.
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "fairhop"}):
        figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)
    print(f"{out}")


def _reason(error: Exception) -> str:
    """What is wrong, in words."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error.args[0] if error.args else error)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command (that of the command line by default); returns the exit code of the program: 1 for wrong input."""
    parser = argparse.ArgumentParser(prog="fairhop")
    commands = parser.add_subparsers(required=True)
    query = commands.add_parser("query", help="ask a folder of kept runs in SQL")
    query.add_argument("folder", metavar="DIR", help="folder of kept runs")
    query.add_argument("sql", help="a query; tables are runs, plans, flows and the other kept ones")
    query.add_argument("--format", choices=("table", "csv", "json"), default="table")
    query.set_defaults(command=_query)
    plot = commands.add_parser("plot", help="draw a figure of kept runs over a key")
    plot.add_argument("folder", metavar="DIR", help="folder of kept runs")
    plot.add_argument("--x", required=True, help="key or column of the horizontal axis")
    plot.add_argument("--y", required=True, help="figure of the vertical axis")
    plot.add_argument("--color", help="key with a line for each of its values")
    plot.add_argument("--out", metavar="FILE", help="SVG, PNG or PDF [default: the figure's name with .svg]")
    plot.set_defaults(command=_plot)
    study = commands.add_parser("study", help="measure what the papers claim, and write a report")
    words = list(sys.argv[1:] if arguments is None else arguments)
    wrong_input: tuple[type[Exception], ...] = (OSError, KeyError, MissingLibraryError)
    if words[:1] == ["study"]:
        # The other commands start without the studies.
        from fairhop.studies import adaptive, command

        if words[1:2] == [adaptive.NAME]:
            from fairhop.studies.adaptive.command import add_arguments

            add_arguments(study, words[2:])
        else:
            command.add_arguments(study)
        wrong_input += (command.StudyError,)
    args = parser.parse_args(words)
    try:
        code: int | None = args.command(args)
    except wrong_input as error:
        print(f"error: {_reason(error)}", file=sys.stderr)
        return 1
    except Exception as error:  # DuckDB's, whose library may be missing
        if type(error).__module__.startswith(("duckdb", "_duckdb")):
            print(f"error: {error}", file=sys.stderr)
            return 1
        raise
    return code or 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Without the end of the interpreter, in which DuckDB 2.0 prints lists of its own leaks.
    os._exit(code)

"""Sweeps: declarative plans, whose runs are kept in a folder, and what was kept as tables and pictures."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fairhop import _native
from fairhop.scenario import toml_of

if TYPE_CHECKING:
    import duckdb
    from matplotlib.figure import Figure

Progress = Callable[[int, int, int, "float | None"], object]
"""Called with the runs that exist, all runs, those made by this sweep, and the seconds left."""


class MissingLibraryError(ImportError):
    """A library that only a part of the package needs is not installed."""

    def __init__(self, library: str) -> None:
        super().__init__(f"{library} is not installed\n  help: pip install 'fairhop[studies]'")


class Dataset:
    """A folder of kept runs."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Opens a folder that a sweep has made."""
        #: The folder.
        self.folder = Path(folder)
        #: What the search of the plan has found, as under `search` of `fairhop sweep --json`; none without a search.
        self.found: dict[str, Any] | None = None
        if not (self.folder / "runs").is_dir():
            raise FileNotFoundError(
                f"{self.folder} has no runs\n"
                "  help: give the folder of a sweep, as in `fairhop sweep plan.toml --into DIR`"
            )

    @property
    def plans(self) -> pl.DataFrame:
        """Which runs the plans consist of: a row for each run of a plan, with the values of its keys."""
        frames = [pl.read_parquet(path) for path in sorted((self.folder / "plans").glob("*.parquet"))]
        return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()

    @property
    def runs(self) -> pl.DataFrame:
        """The figures of the runs that exist, with the keys of their plans as columns."""
        runs = pl.read_parquet(self._files("runs"))
        return self.plans.drop("point_seed").join(runs, on="key", how="inner")

    def table(self, name: str) -> pl.DataFrame:
        """Another kept table, such as `flows`. It has the column `key` in common with the runs."""
        return pl.read_parquet(self._files(name))

    def _files(self, table: str) -> list[Path]:
        files = sorted((self.folder / table).glob("*.parquet"))
        if not files:
            kept = ", ".join(self.tables) or "none"
            raise FileNotFoundError(f"{self.folder} has no run with the table {table!r}; the tables are {kept}")
        return files

    @property
    def tables(self) -> list[str]:
        """The names of the kept tables."""
        folders = (path for path in sorted(self.folder.iterdir()) if not path.name.startswith("."))
        return [path.name for path in folders if path.name != "plans" and any(path.glob("*.parquet"))]

    def query(self, sql: str) -> pl.DataFrame:
        """Asks DuckDB. Tables: `runs` (with the keys of plans), `plans`, and the other kept ones."""
        # The relation is an Arrow stream, which Polars takes without a copy.
        return pl.DataFrame(self._database().sql(sql))

    def _database(self) -> duckdb.DuckDBPyConnection:
        try:
            import duckdb
        except ImportError:
            raise MissingLibraryError("DuckDB") from None
        database = duckdb.connect()

        def files(table: str) -> str:
            pattern = str(self.folder / table / "*.parquet").replace("'", "''")
            return f"read_parquet('{pattern}', union_by_name = true)"

        database.execute(f"create view plans as from {files('plans')}")
        for name in self.tables:
            if name == "runs":
                view = f"select * exclude (point_seed) from plans join {files('runs')} using (key)"
            else:
                view = f"from {files(name)}"
            database.execute(f'create view "{name}" as {view}')
        return database

    def figure(self, x: str, y: str, *, color: str | None = None) -> pl.DataFrame:
        """Means of a figure by a key, with the half-widths of their 95 % confidence intervals (Student's t)."""
        runs = self.runs
        for name in (x, y, color):
            if name is not None and name not in runs.columns:
                raise KeyError(f"there is no column {name!r}; the columns are {', '.join(runs.columns)}")
        groups = [x] if color is None else [color, x]
        grouped = (
            runs.unique([*groups, "key"])
            .drop_nulls(groups)
            .group_by(groups)
            .agg(pl.col(y).mean().alias("mean"), pl.col(y).std().alias("deviation"), pl.col(y).count().alias("runs"))
            .sort(groups)
        )
        quantiles = [_native.student_t_975(max(count - 1, 0)) for count in grouped["runs"]]
        width = pl.Series("ci95", quantiles) * grouped["deviation"] / grouped["runs"].cast(pl.Float64).sqrt()
        return grouped.drop("deviation").with_columns(width.alias("ci95"))

    def plot(self, x: str, y: str, *, color: str | None = None) -> Figure:
        """Draws means of a figure over a key with bands of 95 % confidence, a line for each value of `color`."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingLibraryError("matplotlib") from None
        table = self.figure(x, y, color=color)
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.subplots()
        # Colours of Okabe and Ito (2008), which colour-blind readers can tell apart.
        axes.set_prop_cycle(color=["#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#000000"])
        parts = (
            [("", table)]
            if color is None
            else [(str(key[0]), part) for key, part in table.group_by(color, maintain_order=True)]
        )
        for label, part in parts:
            mean, width = part["mean"].to_numpy(), part["ci95"].fill_nan(0.0).fill_null(0.0).to_numpy()
            places = part[x].to_numpy() if part[x].dtype.is_numeric() else np.array(part[x].cast(pl.String).to_list())
            (line,) = axes.plot(places, mean, marker="o", markersize=4, label=label)
            axes.fill_between(places, mean - width, mean + width, color=line.get_color(), alpha=0.2, linewidth=0)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(color="#E3E3E3")
        if color is not None:
            axes.legend(title=color, frameon=False)
        return figure

    def __repr__(self) -> str:
        count = len(list((self.folder / "runs").glob("*.parquet")))
        return f"<Dataset {str(self.folder)!r}: {count} runs, tables {', '.join(self.tables)}>"


def sweep(
    plan: str | os.PathLike[str] | Mapping[str, Any],
    *,
    into: str | os.PathLike[str] | None = None,
    name: str = "plan",
    threads: int | None = None,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Makes the runs of a plan that are not kept in the folder `into` yet, on all cores or on a Dask cluster.

    `plan` is a file, or a mapping of the same form (docs/guides/sweeps.md), whose name is `name`. Runs are kept in
    `NAME.runs` if `into` is left out. Ctrl-C and errors lose nothing but the runs in progress. `cluster` is the address
    of a Dask scheduler, such as `"tcp://10.0.0.1:8786"`, whose workers have the same version of this package.

    Raises:
        ValueError: Both `threads` and `cluster` are given.
        ConnectionError: The cluster does not answer, or cannot make the runs.
    """
    if threads is not None and cluster is not None:
        raise ValueError("threads are those of this machine: start the workers of a cluster with --nthreads")
    if isinstance(plan, Mapping):
        text = "".join(f"{key} = {toml_of(value)}\n" for key, value in plan.items())
        folder = Path()
        default = Path(f"{name}.runs")
    else:
        path = Path(plan)
        text, folder, name = path.read_text(encoding="utf-8"), path.parent, path.stem
        default = path.with_suffix(".runs")
    target = Path(into) if into is not None else default
    place = None if cluster is None else (cluster, sys.executable)
    *_, found = _native.sweep(name, text, folder, target, threads=threads, cluster=place, progress=progress)
    kept = Dataset(target)
    kept.found = None if found is None else json.loads(found)
    return kept

"""Run the notebooks of docs/notebooks, each in a directory of its own, and keep them with their outputs."""

from __future__ import annotations

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient

#: Longer than any cell takes, even with a debug build on a busy machine.
TIMEOUT_S = 300


def check(path: Path, notebook: nbformat.NotebookNode) -> None:
    """Notebooks are stored without outputs: these would differ with each version of a library.

    Raises:
        ValueError: A cell has an output or a number.
    """
    for cell in notebook.cells:
        if cell.cell_type == "code" and (cell.outputs or cell.execution_count is not None):
            raise ValueError(
                f"{path} has outputs\n  help: clear them (jupyter nbconvert --clear-output) and save it again"
            )


def run(path: Path, into: Path) -> float:
    """Runs a notebook; returns the wall time in seconds.

    Raises:
        CellExecutionError: A cell fails; the message has its traceback.
        ValueError: The notebook is stored with outputs.
    """
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    check(path, notebook)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook,
            timeout=TIMEOUT_S,
            resources={"metadata": {"path": folder}},
            extra_arguments=["--Application.log_level=ERROR"],
        ).execute()
    nbformat.write(notebook, into / path.name)  # type: ignore[no-untyped-call]
    return time.monotonic() - began


def run_all(folder: Path, into: Path) -> dict[str, float]:
    """Runs all notebooks of a folder, two at a time; returns their wall times by name."""
    into.mkdir(parents=True, exist_ok=True)
    # Kernels would write histories and connection files to the home directory.
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {
            "IPYTHONDIR": home,
            "JUPYTER_RUNTIME_DIR": home,
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        }
        paths = sorted(folder.glob("*.ipynb"))
        with ThreadPoolExecutor(2) as pool:
            return dict(zip((path.stem for path in paths), pool.map(lambda path: run(path, into), paths), strict=True))

"""Try the Python package as users get it: make a wheel, install it into an empty environment, check its types, run its
tests and the documents about Python, and build the site with the notebooks (site/build.py).

The wheel's dependencies are not installed again: the environment sees those of .venv, in which this runs.
"""

from __future__ import annotations

import argparse
import os
import site
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import wheel

ROOT = Path(__file__).resolve().parents[1]


def install(package: Path, folder: Path) -> Path:
    """Installs the wheel into a new environment; returns its Python."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", str(package)], check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    subprocess.run([*pip, "check"], check=True, stdout=subprocess.DEVNULL)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--library", type=Path, required=True, help="lib_native.so")
    parser.add_argument("--program", type=Path, required=True, help="the program fairhop")
    parser.add_argument("--site", type=Path, metavar="DIR", help="only build the site, in DIR")
    parser.add_argument("tests", nargs="*", help="options and files of pytest; all tests, types and documents if none")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package = wheel.build(args.library, args.program, folder, level=1)
        python = install(package, folder / "empty")
        environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
        pytest: list[str | Path] = [
            python,
            "-m",
            "pytest",
            "-c",
            ROOT / "python" / "pyproject.toml",
            "--rootdir",
            ROOT / "python",
        ]
        installed = python.with_name("fairhop")
        out = args.site.resolve() if args.site else folder / "site"
        build_site: list[str | Path] = [
            python,
            ROOT / "tools" / "site" / "build.py",
            "--program",
            installed,
            "--out",
            out,
        ]
        commands: list[list[str | Path]] = [[*pytest, *(args.tests or [ROOT / "python" / "tests"])]]
        if args.site:
            commands = [build_site]
        elif not args.tests:
            docs: list[str | Path] = [python, ROOT / "tools" / "docs.py", "--check", "--python", "--program", installed]
            stubs: list[str | Path] = [python, "-m", "mypy.stubtest", "fairhop._native", "--concise"]
            commands += [stubs, docs, build_site]
        # Not in a folder of the repository, where Python and mypy would find the package without its library.
        work = folder / "work"
        work.mkdir()
        running = [subprocess.Popen(command, cwd=work, env=environment) for command in commands]
        return max(process.wait() for process in running)


if __name__ == "__main__":
    sys.exit(main())

"""Make a wheel of the Python package from its files, the native library and the program, which must have been built.

A wheel is a ZIP file with a list of its files (https://packaging.python.org/specifications/binary-distribution-format).
It is made here and not by maturin, which compiles the library by itself: every dependency once more, with fewer
features than in the workspace, so that neither `make wheel` nor the tests could use what they have built already.

The library uses the stable ABI of Python 3.11 (abi3). The platform in the wheel's name is the oldest glibc that has
every symbol which the library and the program use (PEP 600).
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "fairhop"
VERSIONS = re.compile(rb"\0GLIBC_2\.(\d+)(?=\0|\.)")
#: ZIP files cannot represent earlier times.
TIME = (1980, 1, 1, 0, 0, 0)


class Wheel:
    """A wheel that is being written."""

    def __init__(self, path: Path, *, level: int) -> None:
        self.file = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level)
        self.record: list[str] = []

    def add(self, name: str, content: bytes, *, mode: int = 0o644) -> None:
        """Adds a file."""
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(content)}\n")
        info = zipfile.ZipInfo(name, TIME)
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.file.writestr(info, content)

    def close(self, information: str) -> None:
        """Adds the list of files."""
        self.file.writestr(
            zipfile.ZipInfo(f"{information}/RECORD", TIME), "".join([*self.record, f"{information}/RECORD,,\n"])
        )
        self.file.close()


def metadata(project: dict[str, object], version: str) -> str:
    """The core metadata."""
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version}"]
    lines.append(f"Summary: {project['description']}")
    lines.append(f"License-Expression: {project['license']}")
    lines.append(f"Requires-Python: {project['requires-python']}")
    dependencies = project["dependencies"]
    extras = project["optional-dependencies"]
    if not isinstance(dependencies, list) or not isinstance(extras, dict):
        raise TypeError("python/pyproject.toml: dependencies are lists")
    lines += [f"Requires-Dist: {dependency}" for dependency in dependencies]
    for extra, needed in extras.items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {dependency} ; extra == '{extra}'" for dependency in needed]
    return "\n".join(lines) + "\n"


def stripped(path: Path, folder: Path) -> bytes:
    """A binary without debug information, if binutils are there."""
    if shutil.which("strip"):
        copy = folder / path.name
        subprocess.run(["strip", "--strip-debug", "-o", copy, path], check=True)
        return copy.read_bytes()
    return path.read_bytes()


def platform_tag(*binaries: bytes) -> str:
    """The tag of the oldest glibc with all symbols."""
    newest = max(int(minor) for binary in binaries for minor in VERSIONS.findall(binary))
    return f"manylinux_2_{newest}_{platform.machine()}"


def build(library: Path, program: Path, out: Path, *, level: int = 9) -> Path:
    """Makes the wheel in the folder `out`, and returns it."""
    project = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
    with tempfile.TemporaryDirectory() as folder:
        native, script = stripped(library, Path(folder)), stripped(program, Path(folder))
    tag = f"cp311-abi3-{platform_tag(native, script)}"
    name = f"fairhop-{version}"
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}-{tag}.whl"
    wheel = Wheel(path, level=level)
    for file in sorted(PACKAGE.rglob("*")):
        if file.suffix in (".py", ".pyi", ".typed"):
            wheel.add(f"fairhop/{file.relative_to(PACKAGE).as_posix()}", file.read_bytes())
    wheel.add("fairhop/_native.abi3.so", native, mode=0o755)
    wheel.add(f"{name}.data/scripts/fairhop", script, mode=0o755)
    information = f"{name}.dist-info"
    wheel.add(f"{information}/METADATA", metadata(project, version).encode())
    wheel.add(
        f"{information}/WHEEL", f"Wheel-Version: 1.0\nGenerator: fairhop\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    )
    wheel.add(f"{information}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes())
    wheel.close(information)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--library", type=Path, required=True, help="lib_native.so")
    parser.add_argument("--program", type=Path, required=True, help="the program fairhop")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the wheel")
    args = parser.parse_args()
    path = build(args.library, args.program, args.out)
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Build the documentation site: docs/ as it is, the reference made from the program, and notebooks with outputs.

Runs where the package is installed (`make site`). Warnings of Sphinx are errors: a broken link, a page that no table of
contents has, a name without documentation.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

import notebooks
import reference
from nbclient.exceptions import CellExecutionError
from sphinx.cmd.build import main as sphinx

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: Pages outside docs/. The README is the first page.
PAGES = ("README.md", "CHANGELOG.md", "bench/peers/README.md")
#: A relative link to a file: a picture, a page, or a file of the repository, which is then part of the site.
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


def stage(source: Path) -> None:
    """Copies the pages in the layout of the repository, so that relative links hold, and the files that they name."""
    shutil.copytree(ROOT / "docs", source / "docs", ignore=shutil.ignore_patterns("*.ipynb"))
    for name in PAGES:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    for page in list(source.rglob("*.md")):
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            original = ROOT / target.relative_to(source)
            if not target.exists() and original.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(original, target)
    contents = (HERE / "contents.md").read_text(encoding="utf-8")
    readme = source / "README.md"
    (source / "index.md").write_text(readme.read_text(encoding="utf-8") + contents, encoding="utf-8")
    readme.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--program", type=Path, required=True, help="the program fairhop")
    parser.add_argument("--out", type=Path, required=True, help="folder of the site, which is replaced")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        source = Path(name).resolve() / "source"
        stage(source)
        try:
            reference.write(source / "docs" / "reference", args.program.resolve())
            times = notebooks.run_all(ROOT / "docs" / "notebooks", source / "docs" / "notebooks")
        except (ValueError, CellExecutionError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        print("notebooks run: " + ", ".join(f"{stem} in {seconds:.0f} s" for stem, seconds in times.items()))
        shutil.rmtree(args.out, ignore_errors=True)
        failed = sphinx(
            ["-W", "--keep-going", "-q", "-c", str(HERE), "-d", f"{name}/doctrees", str(source), str(args.out)]
        )
    if failed:
        print("the site has warnings, which are errors", file=sys.stderr)
        return 1
    print(f"the site: {args.out}/index.html, {sum(1 for _ in args.out.rglob('*.html'))} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())

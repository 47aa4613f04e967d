"""Studies: verdicts from data, a report in one file, and runs that are kept."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fairhop.__main__ import main
from fairhop.studies import STUDIES, pages, report
from fairhop.studies.command import StudyError, choose, measure, studies_named
from fairhop.studies.drawing import draw
from fairhop.studies.lab import Lab, ProgramError, Runner, find_program
from fairhop.studies.model import (
    DIFFERS,
    REPRODUCED,
    SHAPE,
    Between,
    Claim,
    Estimate,
    Figure,
    Line,
    Near,
    Panel,
    Row,
    Section,
    Table,
    joined,
    line,
    nearest,
    verdict,
)

#: Elements of HTML without an end.
EMPTY = {"meta", "img", "br"}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "claims.md"


@dataclass(frozen=True)
class Done:
    """The exit code of a command and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def study(folder: Path, *arguments: str) -> Done:
    """Runs `fairhop study` in a folder, in this process: matplotlib takes seconds to import."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["study", *arguments])
    return Done(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study of rows that run for a moment: one without a radio, one with, one with figures."""
    folder = tmp_path_factory.mktemp("made")
    done = study(folder, "all", "--only", "K-MOS-1", "X-LAN", "n-cbr")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^K-MOS-1 +reproduced$", done.stdout, re.MULTILINE)
    assert "report: out/study/all-quick.html" in done.stderr
    return folder


class Page(HTMLParser):
    """What a page consists of; it fails on elements that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in EMPTY:
            self.open.append(tag)
        for name, value in attrs:
            match name:
                case "id":
                    self.ids.append(value or "")
                case "href":
                    self.links.append(value or "")
                case "src":
                    self.sources.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_list_names_every_row(tmp_path: Path) -> None:
    done = study(tmp_path, "list")
    assert done.returncode == 0
    for name, of in STUDIES.items():
        assert f"{name}: " in done.stdout
        assert all(f"  {row} " in done.stdout for row in of.rows())
    assert not list(tmp_path.iterdir())


def test_every_row_is_measured_and_every_reason_is_of_a_row() -> None:
    for of in STUDIES.values():
        measured = {name for _, measurement in of.measurements() for name in measurement.rows}
        assert set(of.rows()) <= measured
        assert measured - set(of.rows()) <= {"K-OPEN"}
        for part in of.parts:
            assert {name for reason in part.reasons for name in reason.rows} <= set(of.rows())


def test_the_report_is_one_file_that_needs_nothing_else(made: Path) -> None:
    text = (made / "out/study/all-quick.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not re.search(r"https?:|//\w|@import|url\(", text)
    assert page.sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    for word in ("fairhop 0.", "preliminary", "seeds 1-2", "fairhop study kim2010 --only K-MOS-1 --quick", "viewport"):
        assert word in text
    # A verdict is a word, not a colour alone.
    assert "✓ reproduced" in text


def test_tables_are_csv_files(made: Path) -> None:
    with (made / "out/study/all-quick/claims.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["row"], row["capture_rule"]) for row in rows] == [
        ("K-MOS-1", ""), ("K-MOS-2", ""), ("N-CBR", ""), *(("X-LAN", rule) for rule in ("none", "first", "stronger")),
    ]  # fmt: skip
    assert {row["verdict"] for row in rows} <= {REPRODUCED, SHAPE, DIFFERS}
    assert rows[0]["fairhop"] == "3.591"
    with (made / "out/study/all-quick/N-CBR.csv").open(encoding="utf-8", newline="") as file:
        heads, *values = csv.reader(file)
    assert heads == ["offered, Mb/s", "transmitted by node 2", "received by node 0"]
    assert len(values) == 11
    assert all(len(row) == len(heads) for row in values)


def test_a_study_runs_nothing_twice(made: Path) -> None:
    kept = sorted((made / "out/study/runs").rglob("*.json.gz"))
    before = [path.stat().st_mtime_ns for path in kept]
    done = study(made, "xu2002", "--only", "X-LAN")
    assert "6 runs, 6 of them found" in done.stderr
    assert [path.stat().st_mtime_ns for path in kept] == before
    # A damaged file is no result.
    kept[0].write_bytes(kept[0].read_bytes()[:-9])
    runner = Runner(find_program(), made / "out/study/runs")
    measure(choose(list(STUDIES.values()), ["K-MOS-1", "X-LAN", "N-CBR"]), Lab(runner, range(1, 3), quick=True))
    assert sum(runner.made.values()) == 1
    assert sum(runner.found.values()) == len(kept) - 1


def test_an_interrupted_study_goes_on(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "fairhop", "study", "xu2002", "--only", "X-VIDEO", "--threads", "1"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    runs = tmp_path / "out/study/runs"
    patience = time.monotonic() + 120
    while len(list(runs.rglob("*.json.gz"))) < 2 and time.monotonic() < patience:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "runs were made and kept" in err
    kept = len(list(runs.rglob("*.json.gz")))
    assert 2 <= kept < 36
    assert not [path for path in runs.rglob("*") if path.is_file() and not path.name.endswith(".json.gz")]
    done = study(tmp_path, "xu2002", "--only", "X-VIDEO")
    assert f"36 runs, {kept} of them found" in done.stderr


def test_unknown_names_are_answered_with_the_known_ones(tmp_path: Path) -> None:
    done = study(tmp_path, "kim2011")
    assert done.returncode == 1
    assert "there is no study 'kim2011'" in done.stderr
    assert "kim2010, osipov2007" in done.stderr
    done = study(tmp_path, "xu2002", "--only", "K-MIX")
    assert done.returncode == 1
    assert "there is no row 'K-MIX' in xu2002" in done.stderr
    assert "X-LAN, X-MIX" in done.stderr
    assert not list(tmp_path.iterdir())
    assert [of.name for of in studies_named(["all"])] == list(STUDIES)


def test_a_run_that_fails_ends_the_study_with_its_message(tmp_path: Path) -> None:
    lab = Lab(Runner(find_program(), tmp_path), range(1, 3))
    with pytest.raises(ProgramError, match=r"run no-such-scenario --seed \d\n.*neither a file nor a ready-made"):
        lab.run("no-such-scenario", ())
    bad = tmp_path / "fairhop"
    bad.write_text("#!/bin/sh\necho 'out of order' >&2\nexit 1\n", encoding="utf-8")
    bad.chmod(0o755)
    with pytest.raises(StudyError, match=r"K-MOS-1, K-MOS-2: fairhop mos .*\nout of order"):
        measure(choose(studies_named(["kim2010"]), ["K-MOS-1"]), Lab(Runner(bad, tmp_path / "runs"), range(1, 3)))


def test_rows_without_their_program_are_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = find_program()
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    (section,) = measure(
        choose(studies_named(["nordstrom2005"]), ["N-JIT"]), Lab(Runner(program, tmp_path), range(1, 3))
    )
    (claim,) = section.claims
    assert (claim.verdicts, claim.found) == (["not measured"], ["tshark is not installed"])
    assert "? not measured" in report.badge("not measured")


def test_bounds_hold_at_their_ends() -> None:
    assert Near(1.35, 0.2).holds(1.35 * 1.1999)
    assert not Near(1.35, 0.2).holds(1.35 * 0.7999)
    assert Near(1.35, 0.2).text("Mb/s") == "1.35 Mb/s ± 20 %"
    assert Between(9.5, 12.5).holds(9.5)
    assert Between(9.5, 12.5).holds(12.5)
    assert not Between(9.5, 12.5).holds(12.5001)
    assert Between(low=0.9).holds(0.9)
    assert not Between(low=0.9).holds(0.8999)
    assert Between(high=5.5).holds(5.5)


def test_verdicts_and_the_nearest_rule() -> None:
    assert verdict(True, True) == verdict(True) == REPRODUCED
    assert verdict(False, True) == SHAPE
    assert verdict(False) == DIFFERS
    assert nearest([1.52, 1.87, 2.39], 1.35) == "`none`"
    assert nearest([0.5, 1.2, 1.21], 0.84) == "between `none` and `first`, `stronger`"
    assert nearest([1.0, 1.01, 3.0], 1.0) == "`none`, `first`"


def test_an_estimate_has_the_interval_of_student() -> None:
    two = Estimate.of([1.0, 3.0])
    assert two.mean == 2.0
    assert two.half == pytest.approx(12.706)
    assert Estimate.of([4.0]) == Estimate(4.0, 0.0)
    assert joined(["K-VAR-1", "K-VAR-2", "K-VAR-3"]) == "K-VAR-1, -2, -3"
    assert joined(["X-LAN", "X-IN"]) == "X-LAN, X-IN"


def test_text_is_escaped_and_figures_are_drawn() -> None:
    assert report.inline("MOS < 2 & `a<b` **c** [d](e.md)") == (
        "MOS &lt; 2 &amp; <code>a&lt;b</code> <strong>c</strong> d"
    )
    ours = line("ours <", (1, 2), [Estimate(1.0, 0.5), Estimate(2.0, 0.1)])
    paper = Line("paper", (1, 2), (1.5, 1.5), from_paper=True)
    figure = Figure("f", "Figure 1", "x", "y", [Panel("a", [ours, paper]), Panel("b", [ours])], ("one", "two", "three"))
    pictures = draw(figure)
    assert len(pictures) == 2
    assert pictures == draw(figure)
    row = Row("T-1", "setting", "<script>", "a < b")
    section = Section([Claim(row, "1-2", ["1 < 2"], [DIFFERS])], {"T & 1": Table(["a"], [["x | y"]])})
    part = STUDIES["cai2005"].parts[0]
    made = report.Made("p", "d", "1-2", True, "--quick", 1.0, 2.0, 3, 1)
    text = report.html("t <", made, [(STUDIES["cai2005"], [(part, part.measurements[0], section)])])
    Page(text)
    assert "<script>" not in text


@pytest.mark.skipif(not PAGE.exists(), reason="docs/claims.md is in the repository")
def test_the_page_has_the_bounds_settings_and_reasons_of_the_rows() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert pages.with_data(page, list(STUDIES.values())) == page, "fairhop study page --page docs/claims.md"


def test_a_row_measured_anew_replaces_its_line_on_the_page() -> None:
    row = Row("T-1", "setting", "paper", "bound")
    old = Section([Claim(row, "1-2", ["1"], [DIFFERS])], {"T-1": Table(["a"], [["1"]])})
    new = Section([Claim(row, "1-10", ["2"], [REPRODUCED])], {"T-1": Table(["a"], [["2"]])})
    part = STUDIES["cai2005"].parts[0]
    text = pages.measured(part, [old])
    assert pages.with_section(text, new).strip() == pages.measured(part, [new]).strip()
    page = "a\n<!-- t: begin -->\nold\n\n<!-- t: end -->\nb\n"
    assert pages.between(pages.replaced(page, "t", "new"), "t") == "new"
    with pytest.raises(ValueError, match="no row of T-2"):
        pages.with_section(text, Section([Claim(Row("T-2", "", "", ""), "1", ["1"], [DIFFERS])], {}))

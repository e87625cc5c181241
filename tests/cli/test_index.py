"""`audit index`: every audit of a folder in one page, with nothing asked from elsewhere and nothing left out in silence."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from audit.cli import index as commands
from audit.core.claims import Outcome
from audit.core.errors import ConfigError, DataError, OutputError
from audit.core.provenance import Engagement
from audit.core.results import AuditReport
from reports.figures.trends import Point, trend
from reports.formats.json import to_json
from tests.reports import sample


class Page(HTMLParser):
    """Rows as texts, every address, and how many drawings there are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.addresses: list[str] = []
        self.drawings = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "data", "action")]
        self.drawings += tag == "svg"
        if tag == "tr":
            self.rows.append([])
        elif tag == "td":
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def _put(folder: Path, report: AuditReport, *names: str) -> None:
    folder.mkdir(parents=True)
    (folder / "report.json").write_bytes(to_json(report))
    for name in names:
        (folder / name).write_bytes(b"")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two audits of one training, an audit of scores under a hostile name, and a broken report."""
    first = sample.run()
    context = Engagement(release_context="open weights")
    _put(tmp_path / "2026-02" / "run", replace(first, created="2026-02-15T12:00:00Z", engagement=context), "report.pdf")
    _put(tmp_path / "2026-01", replace(first, created="2026-01-15T12:00:00Z"), "report.html", "annex.pdf", "secret.txt")
    _put(tmp_path / "a b&<c>", replace(sample.scores(), title="<script>alert(1)</script>"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "report.json").write_text("{", encoding="utf-8")
    return tmp_path


def test_every_training_of_every_audit_has_a_row_and_a_course(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.index(runs) == 0
    assert "not read: broken/report.json" in (printed := capsys.readouterr().out) and "3 audits in" in printed
    text = (runs / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    rows = [row for row in page.rows if len(row) == 10]
    assert len(rows) == 2 + 2 + len(sample.scores().mechanisms)
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), reverse=True)
    newest = next(row for row in rows if row[0] == "2026-02-15" and row[2] == "dp_sgd")
    assert newest[3] == "8.00" and newest[6].endswith("not contradicted") and newest[7].endswith("Not met")
    assert newest[8] == "open weights" and newest[9].split() == ["report.pdf", "report.json"]
    assert page.drawings == 2 and "broken/report.json" in text


def test_the_page_asks_for_nothing_and_no_name_is_markup(runs: Path) -> None:
    commands.index(runs)
    text = (runs / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    assert "default-src 'none'" in text and "<script>alert" not in text and "secret.txt" not in text
    assert all(re.fullmatch(r"[\w.%/-]+", address) for address in page.addresses) and not any(
        address.startswith("http") for address in page.addresses
    )
    assert "a%20b%26%3Cc%3E/report.json" in page.addresses


def test_a_page_elsewhere_links_to_the_runs_and_speaks_the_language(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "pages").mkdir()
    target = runs / "pages" / "all.html"
    assert commands.index(runs, output=target, language="zh", as_json=True) == 0
    reported = json.loads(capsys.readouterr().out)
    assert (
        reported["page"] == str(target)
        and len(reported["audits"]) == 3
        and list(reported["unreadable"]) == ["broken/report.json"]
    )
    text = target.read_text(encoding="utf-8")
    assert '<html lang="zh">' in text and "未被反驳" in text and "../2026-01/report.html" in Page(text).addresses


def test_bad_folders_languages_and_targets_are_errors(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"no report\.json that can be read"):
        commands.index(tmp_path / "none")
    with pytest.raises(DataError, match="is not a folder"):
        commands.index(tmp_path / "absent")
    with pytest.raises(ConfigError, match="no 'fr'"):
        commands.index(runs, language="fr")
    with pytest.raises(OutputError, match="cannot write"):
        commands.index(runs, output=runs / "absent" / "page.html")


def test_a_link_is_not_followed(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(runs / "2026-01", target_is_directory=True)
    commands.index(runs)
    assert "linked/" not in (runs / "index.html").read_text(encoding="utf-8")


def test_a_link_in_the_place_of_the_page_is_not_written_through(runs: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.html"
    elsewhere.write_text("of somebody else")
    (runs / "index.html").symlink_to(elsewhere)
    commands.index(runs)
    assert elsewhere.read_text() == "of somebody else" and not (runs / "index.html").is_symlink()


def test_a_course_with_gaps_and_infinite_claims_is_drawn() -> None:
    points = [
        Point(date="2026-01-01", claimed=float("inf"), proven=None, ceiling=None),
        Point(date="2026-02-01", claimed=8.0, proven=0.0, ceiling=5.8),
        Point(date="2026-03-01", claimed=8.0, proven=1.5, ceiling=5.8),
    ]
    drawing = trend(points, "alt")
    assert drawing.count("<circle") == 6 and "2026-02-01" not in re.sub(r"<title>.*?</title>", "", drawing)
    assert trend([Point(date="2026", claimed=None, proven=None, ceiling=None)], "nothing").count("<circle") == 0


def test_void_bounds_are_called_void_and_dates_keep_to_a_line(tmp_path: Path) -> None:
    _put(tmp_path / "run", sample.run(Outcome.INVALID))
    commands.index(tmp_path)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    row = next(row for row in Page(text).rows if len(row) == 10 and row[2] == "dp_sgd")
    assert row[4].startswith("void: ") and "<time>" in text and "time{white-space:nowrap}" in text

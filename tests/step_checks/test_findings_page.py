"""docs/evidence/findings: each reproduction prints what the page says, if the library is installed in that version."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import findings  # noqa: E402 (benchmarks is a folder of commands, not a package)
import findings_tables  # noqa: E402

PAGE = """# L

Install: `library==1.0`

Promise: p

## 1. It counts twice

| asked by | class | source |
|---|---|---|
| replay | violated promise | `f.py`, `n + n` |

Mend: count it once.

One record is two.

```python
n = 1
print(n + n)
```

```text
2
```
"""
PAGES = sorted(findings.PAGES.glob("*-*.md"))


def test_each_finding_has_lines_that_show_it_and_their_output() -> None:
    assert len(PAGES) >= 13
    for path in PAGES:
        page = findings.read_page(path)
        assert [section.number for section in page.sections if section.number] == list(
            range(1, 1 + sum(1 for section in page.sections if section.number))
        ), path.name
        for section in page.sections:
            assert any(output for _, output in section.blocks), f"{path.name}: {section.title}"


def test_the_table_is_that_of_the_pages_and_answers() -> None:
    answers = json.loads(findings.ANSWERS.read_text(encoding="utf-8"))
    pages = [findings.read_page(path) for path in PAGES]
    records = findings_tables.read_records(findings.PAGES)
    assert (findings.PAGES / "findings.csv").read_text(encoding="utf-8") == findings_tables.render_rows(pages, answers, records)
    written = (findings.PAGES.parent / "findings.md").read_text(encoding="utf-8")
    assert written == findings_tables.render_table(pages, answers, records)


def test_each_finding_has_a_mend_and_two_readers_of_the_source_that_it_names() -> None:
    records = findings_tables.read_records(findings.PAGES)
    for page in map(findings.read_page, PAGES):
        for section in page.sections:
            where = f"{page.library} {section.number}: {section.title}"
            assert not section.number or (section.mend and records.is_read_twice(page, section)), where


def test_each_published_violation_is_found_or_has_a_reason() -> None:
    records = findings_tables.read_records(findings.PAGES)
    assert [row["number"] for row in records.published if row["number"]] == [str(number) for number in range(1, 14)]


def test_a_finding_whose_class_or_source_has_changed_is_to_be_read_again(tmp_path: Path) -> None:
    page = tmp_path / "library-1.0.md"
    page.write_text(PAGE, encoding="utf-8")
    (tmp_path / "readings.csv").write_text(
        "library,number,class,file,fragment,reader\nlibrary,1,violated promise,f.py,n + n,another\n", encoding="utf-8"
    )
    records = findings_tables.read_records(tmp_path)
    for text, expected in (
        (PAGE, True),
        (PAGE.replace("`n + n`", "`n`"), False),
        (PAGE.replace("violated promise", "promise unclear"), False),
    ):
        page.write_text(text, encoding="utf-8")
        read = findings.read_page(page)
        assert records.is_read_twice(read, read.sections[0]) is expected


@pytest.mark.parametrize(("same", "note"), [("library 7", "no such finding"), ("", "")])
def test_a_published_violation_without_a_finding_or_reason_is_refused(tmp_path: Path, same: str, note: str) -> None:
    page = tmp_path / "library-1.0.md"
    page.write_text(PAGE, encoding="utf-8")
    row = {"number": "1", "library": "l", "what": "w", "thread": "", "same": same, "note": note}
    with pytest.raises(ValueError, match="published"):
        findings_tables.render_table([findings.read_page(page)], {}, findings_tables.Records(published=(row,)))


def test_each_library_was_asked_within_its_cpu_seconds_and_says_again_what_its_page_says() -> None:
    answers = json.loads(findings.ANSWERS.read_text(encoding="utf-8"))
    for name, answer in answers.items():
        assert answer["seconds"] <= findings.CPU_SECONDS, name
        if "@" not in name:
            assert [row["title"] for row in answer["rows"] if row["state"] not in ("shown", "holds")] == [], name


def test_a_report_and_its_witnesses_follow_from_the_page(tmp_path: Path) -> None:
    page = tmp_path / "library-1.0.md"
    page.write_text(PAGE, encoding="utf-8")
    read = findings.read_page(page)
    rows = [{"number": 1, "title": "It counts twice", "state": "shown", "line": 7}]
    records = findings_tables.Records(published=({"thread": "owner/library#7", "same": "library 2; library 1"},))
    findings_tables.write_reports([read], {"library-1.0": {"rows": rows}}, records, tmp_path / "reports")
    report = (tmp_path / "reports" / "library.md").read_text(encoding="utf-8")
    assert "Violated promise. `f.py`, line 7: `n + n`\n\nOne record is two." in report
    assert report.endswith("A mend: count it once.\n\nKnown upstream: owner/library#7\n")
    witness = tmp_path / "reports" / "library_1.py"
    assert subprocess.run([sys.executable, witness], check=False).returncode == 1  # the finding is there
    witness.write_text(witness.read_text(encoding="utf-8").replace("n + n", "n"), encoding="utf-8")
    assert subprocess.run([sys.executable, witness], check=False).returncode == 0
    witness.write_text(witness.read_text(encoding="utf-8").replace("print(n)", "print(m)"), encoding="utf-8")
    assert subprocess.run([sys.executable, witness], capture_output=True, check=False).returncode == 2  # an error is no finding


def test_a_release_that_was_asked_is_a_column(tmp_path: Path) -> None:
    page = tmp_path / "library-1.10.md"
    page.write_text(PAGE, encoding="utf-8")
    read = findings.read_page(page)
    row = {"number": 1, "title": "It counts twice", "line": 7}
    answers = {
        "library-1.10": {"page": read.digest, "seconds": 1.0, "rows": [row | {"state": "shown"}]},
        "library@1.9": {"page": read.digest, "seconds": 1.0, "rows": [row | {"state": "prints '1'"}]},
    }
    written = findings_tables.render_table([read], answers, findings_tables.Records())
    assert "| finding | 1.9 | 1.10 |\n|---|---|---|\n| 1. It counts twice | prints | there |" in written


def test_an_environment_is_made_anew_if_its_packages_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed: list[list[str]] = []
    monkeypatch.setattr(findings.subprocess, "run", lambda command, **_: installed.append(command[5:]))
    for name in ("library-1.0", "library-0.9"):
        (tmp_path / name).mkdir()
    page = tmp_path / "library-1.0.md"
    install = PAGE.replace("library==1.0`", "library==1.0 other<2`\n\nEarlier: `other==1`")
    for text, release, expected in (
        (PAGE, None, [["library==1.0"]]),
        (PAGE, None, []),
        (install, None, [["library==1.0", "other<2"]]),
        (install, "0.9", [["library==0.9", "other<2", "other==1"]]),
    ):
        page.write_text(text, encoding="utf-8")
        installed.clear()
        findings.make_environment(findings.read_page(page), tmp_path, release)
        assert [packages for packages in installed if packages] == expected


def test_a_section_without_its_class_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "library-1.0.md"
    page.write_text(PAGE.replace("| violated promise |", "|"), encoding="utf-8")
    with pytest.raises(ValueError, match="a class"):
        findings.read_page(page)
    page.write_text(PAGE.replace("violated promise", "wrong"), encoding="utf-8")
    with pytest.raises(ValueError, match="a class of"):
        findings.read_page(page)


def test_an_answer_is_kept_while_prose_changes_and_not_while_code_does(tmp_path: Path) -> None:
    page = tmp_path / "library-1.0.md"
    digests = []
    for text in (
        PAGE,
        PAGE.replace("One record is two.", "A record counts twice."),
        PAGE.replace("print(n + n)", "print(2 * n)"),
    ):
        page.write_text(text, encoding="utf-8")
        digests.append(findings.read_page(page).digest)
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_prints_what_it_says(path: Path) -> None:
    page = findings.read_page(path)
    try:
        version = importlib.metadata.version(page.library)
    except importlib.metadata.PackageNotFoundError:
        version = ""
    if version != page.version:
        pytest.skip(f"needs {page.library} {page.version}")
    for row in findings.run_sections(page):
        assert row["state"] in ("shown", "holds"), row
        assert row["line"] or not row["number"], row

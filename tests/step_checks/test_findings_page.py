"""docs/evidence/findings: each reproduction prints what the page says, if the library is installed in that version."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import findings  # noqa: E402 (benchmarks is a folder of commands, not a package)

PAGES = sorted(findings.PAGES.glob("*-*.md"))


def test_each_finding_has_lines_that_show_it_and_their_output() -> None:
    assert len(PAGES) >= 9
    for path in PAGES:
        page = findings.read_page(path)
        assert [section.number for section in page.sections if section.number] == list(
            range(1, 1 + sum(1 for section in page.sections if section.number))
        ), path.name
        for section in page.sections:
            assert any(output for _, output in section.blocks), f"{path.name}: {section.title}"


def test_the_table_is_that_of_the_pages_and_answers() -> None:
    answers = json.loads(findings.ANSWERS.read_text(encoding="utf-8"))
    written = (findings.PAGES.parent / "findings.md").read_text(encoding="utf-8")
    assert written == findings.table([findings.read_page(path) for path in PAGES], answers)


def test_a_section_without_its_class_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "library-1.0.md"
    page.write_text("# L\n\nInstall: `l`\n\nPromise: p\n\n## 1. T\n\nInstrument: replay\nSource: `f`, `t`\n", encoding="utf-8")
    with pytest.raises(ValueError, match="Class"):
        findings.read_page(page)


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

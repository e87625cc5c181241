"""The documentation stays short, and its tables are those of the files beside them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
MOST = 60_000  # words of prose written by hand in docs/; lower it, never raise it
GENERATED = {  # pages that a command writes as a whole
    "evidence/accountants.md": "benchmarks/accountant_page.py",
    "evidence/zoo.md": "benchmarks/zoo_page.py",
    "evidence/calibration.md": "benchmarks/estimators.py",
    "evidence/reconstruction.md": "benchmarks/reconstruction.py",
    "evidence/findings.md": "benchmarks/findings.py --write",
}
MOST_OF_RESULTS = 1_500  # words beside the tables of both pages of results: conclusions, not laboratory notes


def count_words(page: Path) -> int:
    """Words of a page without its code blocks, tables, comments and pictures."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->|!\[.*?\]\(.*?\)", "", text, flags=re.DOTALL)
    return len(" ".join(line for line in text.splitlines() if not line.startswith("|")).split())


def load_tables() -> ModuleType:
    """The command that writes tables into pages."""
    spec = importlib.util.spec_from_file_location("evidence_tables", ROOT / "benchmarks" / "evidence_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLES = load_tables()
MARKED = [page for page in sorted(DOCS.rglob("*.md")) if "<!-- table:" in page.read_text(encoding="utf-8")]


def test_pages_written_by_hand_have_at_most_sixty_thousand_words() -> None:
    pages = {page.relative_to(DOCS).as_posix(): page for page in DOCS.rglob("*.md")}
    assert set(GENERATED) <= set(pages)
    assert sum(count_words(page) for name, page in pages.items() if name not in GENERATED) <= MOST


def test_pages_of_results_have_conclusions_beside_their_tables() -> None:
    assert sum(count_words(DOCS / "evidence" / name) for name in ("results.md", "real-data.md")) <= MOST_OF_RESULTS


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_a_generated_page_names_its_command(name: str) -> None:
    assert GENERATED[name] in (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.stem)
def test_tables_of_a_page_are_those_of_their_files(page: Path) -> None:
    assert TABLES.fill(page) == page.read_text(encoding="utf-8"), "run python benchmarks/evidence_tables.py"


def test_every_file_of_tables_is_shown_or_linked() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in MARKED)
    files = sorted((DOCS / "evidence" / "tables").glob("*.csv"))
    assert len(files) > 30
    assert [file.name for file in files if f"tables/{file.name}" not in text] == []


def test_a_printed_table_survives_being_stored(tmp_path: Path) -> None:
    printed = "seed 0\n\n| data | AUC |\n|---|---|\n| digits, two | 0.71 |\n| letters | - |\n"
    rows = TABLES.read_markdown(printed)
    assert rows == [["data", "AUC"], ["digits, two", "0.71"], ["letters", "-"]]
    (tmp_path / "figures.csv").write_text(TABLES.write_csv(rows), encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table: figures.csv data=letters -->\nold\n<!-- end of table -->\nafter\n", encoding="utf-8")
    assert TABLES.fill(page) == (
        "before\n<!-- table: figures.csv data=letters -->\n| AUC |\n|---|\n| - |\n<!-- end of table -->\nafter\n"
    )


@pytest.mark.parametrize("printed", ["no table", "| a | b |\n|---|---|\n| 1 |\n"])
def test_what_is_no_table_is_refused(printed: str) -> None:
    with pytest.raises(SystemExit, match=r"no Markdown table|a row of 1 cells"):
        TABLES.read_markdown(printed)

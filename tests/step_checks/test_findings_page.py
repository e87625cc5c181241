"""docs/evidence/findings: each reproduction prints what the page says, if the library is installed in that version."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import re
import warnings
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "evidence" / "findings").glob("*.md"))
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


def installed(page: Path) -> bool:
    """Return whether the library that the page is about is there, in the version of its name."""
    library, _, version = page.stem.rpartition("-")
    try:
        return importlib.metadata.version(library) == version
    except importlib.metadata.PackageNotFoundError:
        return False


def test_there_are_pages_and_each_finding_has_an_output() -> None:
    assert PAGES
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        outputs = [output for _, output in BLOCK.findall(text) if output]
        assert len(outputs) == len(re.findall(r"^## \d", text, re.MULTILINE)), page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_prints_what_it_says(page: Path) -> None:
    if not installed(page):
        pytest.skip(f"needs {page.stem.replace('-', ' ')}")
    names: dict[str, object] = {}
    for code, output in BLOCK.findall(page.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(code, page.name, "exec"), names)
        assert printed.getvalue() == output

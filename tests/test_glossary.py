"""The glossary page holds the terms of reports word for word, every outcome and assumption, and only names that exist."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from audit.core.claims import Outcome
from audit.core.game import Assumption
from reports.words import named
from reports.words.language import say

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "use" / "glossary.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (?P<term>[^|]+) \| (?P<meaning>[^|]+) \| `(?P<place>[\w.:]+)` \|$", re.MULTILINE)
OF_REPORTS, OF_CODE = (ROW.findall(part) for part in PAGE.split("\n## ")[1:])


def at(place: str) -> Any:
    """What `module:Name` or `module:Class.field` represents; a field is found among the fields of its class."""
    module, _, path = place.partition(":")
    value: Any = importlib.import_module(module)
    for name in path.split(".") if path else ():
        fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
        value = name if name in fields else getattr(value, name)
    return value


def _glossary() -> list[tuple[str, str]]:
    return [(say(f"term.{key}"), say(f"meaning.{key}")) for key in named.TERMS]


def test_the_report_and_the_page_have_the_same_terms() -> None:
    assert [(term, meaning) for term, meaning, _ in OF_REPORTS] == _glossary()


def test_every_row_is_read_and_the_rows_are_in_order() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| Term")]
    assert len(rows) == len(OF_REPORTS) + len(OF_CODE)
    terms = [term.lower() for term, _, _ in OF_CODE]
    assert terms == sorted(terms)
    assert len({*terms, *(term.lower() for term, _ in _glossary())}) == len(rows)


@pytest.mark.parametrize(("term", "place"), [(term, place) for term, _, place in (*OF_REPORTS, *OF_CODE)])
def test_each_term_is_in_the_code(term: str, place: str) -> None:
    assert at(place) is not None, term


def test_outcomes_and_assumptions_are_explained() -> None:
    meanings = " ".join(f"{term} {meaning}".lower() for term, meaning, _ in (*OF_REPORTS, *OF_CODE))
    for word in (*Outcome, *Assumption):
        assert word.value.replace("_", " ") in meanings, word

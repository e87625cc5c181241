"""Examples in docstrings give what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted(
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for package in ("audit", "attacks", "reports")
    for file in (ROOT / package).rglob("*.py")
    if ">>> " in file.read_text()
)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_show(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert not failed

"""Marks of parameters, for tests whose dear cases belong into the slow suite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow(cases: Iterable[Any], names: Iterable[Any]) -> list[Any]:
    """The cases as parameters, in order, those called `names` marked slow; each of them must be a case."""
    listed, chosen = list(cases), list(names)
    unknown = [name for name in chosen if name not in listed]
    if unknown:
        raise ValueError(f"no such case: {unknown}; the cases are {listed}")
    return [pytest.param(case, marks=pytest.mark.slow) if case in chosen else case for case in listed]

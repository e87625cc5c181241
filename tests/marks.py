"""Marks of parameters, for tests with dear cases that belong into the slow suite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow(cases: Iterable[Any], names: Iterable[Any]) -> list[Any]:
    """The cases as parameters, in order, those called `names` marked slow; each of them must be a case."""
    return _marked([(case,) for case in cases], [(name,) for name in names])


def slow_rows(rows: Iterable[tuple[Any, ...]], names: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return rows of several parameters each, in order, those in `names` marked slow; each of them must be a row."""
    return _marked(list(rows), list(names))


def sample(rows: Iterable[tuple[Any, ...]], every: int) -> list[Any]:
    """Return rows of which each `every`-th is in the slow suite, and the others in the calibration suite.

    Of a product of cases, take a number that shares no divisor with the length of the last factors: then all of them come.
    """
    return [
        pytest.param(*row, marks=pytest.mark.calibration if place % every else pytest.mark.slow)
        for place, row in enumerate(rows)
    ]


def _marked(rows: list[tuple[Any, ...]], chosen: list[tuple[Any, ...]]) -> list[Any]:
    unknown = [row for row in chosen if row not in rows]
    if unknown:
        raise ValueError(f"no such case: {unknown}; the cases are {rows}")
    return [pytest.param(*row, marks=pytest.mark.slow if row in chosen else ()) for row in rows]

"""Types of the keys that readers take: each check raises `ConfigError` with the key, what it is, and what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.core.errors import ConfigError


def _expect(key: str, value: Any, fits: bool, expectation: str) -> None:
    if not fits:
        raise ConfigError(f"data.{key} is {value!r}; expected {expectation}")


def _count(value: Any, smallest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= smallest


def text(**values: Any) -> None:
    """Raise if a value is no text."""
    for key, value in values.items():
        _expect(key, value, isinstance(value, str), "text")


def optional_text(**values: Any) -> None:
    """Raise if a value is neither text nor None."""
    for key, value in values.items():
        _expect(key, value, value is None or isinstance(value, str), "text")


def columns(**values: Any) -> None:
    """Raise if a value is no list."""
    for key, value in values.items():
        _expect(key, value, isinstance(value, list | tuple), "a list of column names")


def lines(**values: Any) -> None:
    """Raise if a value is no count."""
    for key, value in values.items():
        _expect(key, value, _count(value, 0), "a number of lines of at least 0")


def mapping(**values: Any) -> None:
    """Raise if a value is no mapping."""
    for key, value in values.items():
        _expect(key, value, isinstance(value, Mapping), "a mapping of columns to [low, high]")


def label_list(value: Any) -> None:
    """Raise if `classes` is neither a list nor None."""
    _expect("classes", value, value is None or isinstance(value, list | tuple), "a list of labels, or null for those found")


def flag(**values: Any) -> None:
    """Raise `ConfigError` for a value that is neither true nor false."""
    for key, value in values.items():
        _expect(key, value, isinstance(value, bool), "true or false")


def class_count(value: Any) -> None:
    """Raise if `classes` is neither a number of at least 2 nor None."""
    expectation = "a number of at least 2, or null for the largest label plus one"
    _expect("classes", value, value is None or _count(value, 2), expectation)


def records(key: str, value: Any) -> int | None:
    """Return a number of records, or None for the rest."""
    expectation = "a number of records of at least 0, or null for the rest"
    _expect(key, value, value is None or _count(value, 0), expectation)
    return None if value is None else int(value)

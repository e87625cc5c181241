"""Types of the keys that readers take: each check raises `ConfigError` with the key, what it is, and what was expected."""

from collections.abc import Callable, Mapping
from typing import Any

from audit.core.errors import ConfigError


def _expect(key: str, value: Any, fits: bool, expectation: str) -> None:
    if not fits:
        raise ConfigError(f"data.{key} is {value!r}; expected {expectation}")


def _count(value: Any, smallest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= smallest


def _check(expectation: str, fits: Callable[[Any], bool]) -> Callable[..., None]:
    """Return a check of keys by name, which raises `ConfigError` for the first value that does not fit."""

    def check(**values: Any) -> None:
        for key, value in values.items():
            _expect(key, value, fits(value), expectation)

    return check


text = _check("text", lambda value: isinstance(value, str))
optional_text = _check("text", lambda value: value is None or isinstance(value, str))
columns = _check("a list of column names", lambda value: isinstance(value, list | tuple))
lines = _check("a number of lines of at least 0", lambda value: _count(value, 0))
mapping = _check("a mapping of columns to [low, high]", lambda value: isinstance(value, Mapping))
flag = _check("true or false", lambda value: isinstance(value, bool))


def whole_numbers(low: int, high: int, **values: Any) -> None:
    """Raise for the first value that is no whole number from `low` to `high`."""
    _check(f"a whole number from {low} to {high}", lambda value: _count(value, low) and value <= high)(**values)


def label_list(value: Any) -> None:
    _expect("classes", value, value is None or isinstance(value, list | tuple), "a list of labels, or null for those found")


def class_count(value: Any) -> None:
    expectation = "a number of at least 2, or null for the largest label plus one"
    _expect("classes", value, value is None or _count(value, 2), expectation)


def records(key: str, value: Any) -> int | None:
    expectation = "a number of records of at least 0, or null for the rest"
    _expect(key, value, value is None or _count(value, 0), expectation)
    return None if value is None else int(value)

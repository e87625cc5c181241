"""Checks on values that come from outside; each names the offending argument.

>>> probability(0.5, "delta")
0.5
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core.errors import ConfigError, DataError


def _require(holds: bool, value: float, name: str, words: str) -> float:
    if not holds:
        raise ConfigError(f"{name} is {value}; expected {words}")
    return value


def finite(value: float, name: str) -> float:
    """`value` itself, or `ConfigError` if it is NaN or infinite."""
    return _require(math.isfinite(value), value, name, "a finite number")


def positive(value: float, name: str) -> float:
    """`value` itself, or `ConfigError` unless it is finite and above zero."""
    return _require(math.isfinite(value) and value > 0, value, name, "a finite number above 0")


def nonnegative(value: float, name: str) -> float:
    """`value` itself, or `ConfigError` unless it is finite and at least zero."""
    return _require(math.isfinite(value) and value >= 0, value, name, "a finite number of at least 0")


def noise(value: float, name: str) -> float:
    """`value` itself, or `ConfigError` unless it is 0 or a number above it with powers that can still be computed.

    >>> noise(0.0, "noise_multiplier")
    0.0
    """
    is_in_range = nonnegative(value, name) == 0 or 1e-100 <= float(value) <= 1e100
    return _require(is_in_range, value, name, "0, or a number from 1e-100 to 1e100")


def single(value: float, name: str) -> float:
    """`value` itself, or `ConfigError` unless it is 0 or a number above it that float32 can compute with."""
    is_in_range = nonnegative(value, name) == 0 or 1e-30 <= float(value) <= 1e30
    return _require(is_in_range, value, name, "a number from 1e-30 to 1e30, which float32 can compute with")


def clipped_noise(clip_norm: float, noise_multiplier: float | None) -> None:
    """Raise `ConfigError` unless float32 can compute with the clip norm, and with the noise if that is given."""
    single(positive(clip_norm, "clip_norm"), "clip_norm")
    if noise_multiplier is not None:
        single(noise(noise_multiplier, "noise_multiplier") * clip_norm, "noise_multiplier times clip_norm")


def confidence(value: float) -> float:
    """`value` itself, or `ConfigError` unless it is in (0, 1) and is not an error rate by its looks.

    >>> confidence(0.95)
    0.95
    """
    open_probability(value, "confidence")
    if value < 0.5:
        raise ConfigError(
            f"confidence is {value:g}, so bounds would be wrong in up to {1 - value:.0%} of audits; if {value:g} is the error "
            f"rate that you accept, give confidence {1 - value:g}"
        )
    return value


def probability(value: float, name: str) -> float:
    """`value` itself, or `ConfigError` unless it is in [0, 1]."""
    return _require(0 <= value <= 1, value, name, "a number in [0, 1]")


def open_probability(value: float, name: str) -> float:
    """`value` itself, or `ConfigError` unless it is strictly between 0 and 1."""
    return _require(0 < value < 1, value, name, "a number strictly between 0 and 1")


def count(value: float, name: str, *, minimum: int = 0) -> float:
    """`value` itself, or `ConfigError` unless it is a whole number of at least `minimum`, of whatever type.

    >>> count(1000.0, "steps")
    1000.0
    """
    is_count = value >= minimum and math.isfinite(value) and value == int(value)
    return _require(is_count, value, name, f"a whole number of at least {minimum}")


def choice(value: object, name: str, choices: Collection[str]) -> str:
    """`value` itself, or `ConfigError` that lists what is allowed.

    >>> choice("gdp", "family", ("any", "gdp"))
    'gdp'
    """
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}; expected one of {', '.join(choices)}")
    return str(value)


def frozen(array: Any, dtype: Any = None) -> NDArray[Any]:
    """A read-only view of `array` (a copy only where the type has to change)."""
    view = np.asarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


def without_nan(array: NDArray[Any], name: str) -> NDArray[Any]:
    """`array` itself, or `DataError` naming the first NaN (infinities are allowed)."""
    bad = np.isnan(array)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise DataError(f"{name} has {int(bad.sum())} NaN, the first at index {index}; remove or repair those values")
    return array


def both_sides(included: NDArray[Any], user: str) -> None:
    """Raise `DataError` unless there is at least one member and one nonmember."""
    members = int(np.count_nonzero(included))
    if members in (0, len(included)):
        raise DataError(
            f"{user} got {members} member scores and {len(included) - members} nonmember scores; it needs at least one of "
            "each: check the coins, or plant more canaries"
        )


def distinct(data: Any, neighbour: Any, name: str) -> None:
    """Raise `ConfigError` if a pair that a caller gives is one data set twice: nothing can leak between equal data sets."""
    content = _bytes(data)
    if data is neighbour or (content is not None and content == _bytes(neighbour)):
        raise ConfigError(
            f"{name} holds one data set twice; give the neighbour a record more, less or another one. Change it in a copy: "
            "after neighbour = data, or a view of it, a change shows in both"
        )


def _bytes(data: Any) -> bytes | None:
    try:
        return pickle.dumps(np.asarray(data) if hasattr(data, "__array__") else data)
    except (pickle.PicklingError, TypeError, ValueError, AttributeError, RuntimeError):  # then only identity tells
        return None

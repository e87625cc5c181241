"""Scores as they come from outside: numbers that keep their order, or an error that says why not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.core import checks
from audit.core.data import Array
from audit.core.errors import DataError

FEWEST_COINS = 10  # fewer zeros and ones may be scores by chance
EXACT = 2**53  # whole numbers beyond are not all distinguished as float64


def read(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return `values` as `(n,)` numbers, float64 or whole, infinities allowed; `DataError` for other types, shapes and NaN."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise DataError(f"{name} has {int(np.ma.count_masked(values))} masked values; give .compressed() scores, or fill them")
    array = np.asarray(values)
    if array.dtype.kind == "b":
        raise DataError(
            f"{name} are true or false, as memberships are and scores are not: give scores of members and of nonmembers, "
            "scores[included] and scores[~included]; of answers yes or no, give 1.0 and 0.0"
        )
    if array.dtype.kind not in "iuf":
        raise DataError(f"{name} has the type {array.dtype}; expected one number per record")
    if array.ndim != 1:
        raise DataError(f"{name} has shape {array.shape}; expected one dimension, one score for each canary")
    if array.dtype.kind == "f":
        return checks.without_nan(array.astype(np.float64), name)
    return array


def refuse_memberships(members: NDArray[Any], nonmembers: NDArray[Any]) -> None:
    """Raise `DataError` if one side has zeros and ones alone and the other others, as scores and memberships of records have.

    With as many memberships as scores one other score is enough; else all have to be others.
    """
    if min(len(members), len(nonmembers)) < FEWEST_COINS:
        return
    for coins, scores, name in ((members, nonmembers, "member scores"), (nonmembers, members, "nonmember scores")):
        alike = np.isin(scores, [0, 1])
        if np.array_equal(np.unique(coins), [0, 1]) and not (alike.all() if len(coins) == len(scores) else alike.any()):
            raise DataError(
                f"{name} are {len(coins)} zeros and ones beside other numbers on the other side, as memberships are: give "
                "scores of members and of nonmembers, scores[included] and scores[~included]"
            )


def on_common_scale(arrays: list[NDArray[Any]]) -> NDArray[np.float64]:
    """Return all arrays of `read` joined as float64 in the same order; whole numbers too large for that become their ranks.

    Raises:
        DataError: numbers too large for float64 beside fractions.

    >>> on_common_scale([np.array([2**60, 2**60 + 1]), np.array([5])]).tolist()
    [1.0, 2.0, 0.0]
    """
    large = any(
        array.dtype.kind in "iu" and len(array) and max(int(array.max()), -int(array.min())) > EXACT for array in arrays
    )
    if not large:
        return np.concatenate([array.astype(np.float64) for array in arrays])
    if any(array.dtype.kind == "f" for array in arrays):
        raise DataError("whole numbers beyond 2^53 beside fractions lose digits; give scores of one type")
    full = np.array([int(value) for array in arrays for value in array.tolist()], dtype=object)
    return np.asarray(np.unique(full, return_inverse=True)[1], dtype=np.float64)


# rows are refused if an order that is independent of the scores would look as theirs does with a lower chance than this
SURPRISE = 1e-6


def check_order(values: Array, side: str, test: str) -> Array:
    """Return the scores `(n,)` of one side; `DataError` if they rise or fall from row to row, on whose order a test relies."""
    is_sorted = bool((values[1:] >= values[:-1]).all() or (values[1:] <= values[:-1]).all())
    if is_sorted and _log_sorted_chance(values) < math.log(SURPRISE):
        raise DataError(
            f"the {len(values)} scores of {side} are sorted; {test} needs rows in an order that does not depend on the scores. "
            "Give them in the order of records or trials, or use rank_exact or both_ends, for which the order does not count"
        )
    return values


def _log_sorted_chance(values: Array) -> float:
    """The logarithm of the chance that exchangeable rows with these values rise throughout or fall throughout."""
    repeats = np.unique(values, return_counts=True)[1].tolist()
    return math.log(2) + sum(math.lgamma(count + 1) for count in repeats) - math.lgamma(len(values) + 1)

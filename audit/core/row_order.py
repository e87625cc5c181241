"""Whether a test may use the order in which rows were given: not if it comes from the scores."""

import math

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError

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

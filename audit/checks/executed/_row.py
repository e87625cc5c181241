"""Rows of the assumptions table, and the tolerances that checks share."""

import math

import numpy as np

from audit.core.data import Array
from audit.core.phrases import join_clauses, phrase
from audit.core.results import Check, Status
from audit.engine.trial.clip_check import RECOMPUTATION_LIMIT

Z_LIMIT = 5.0  # standard errors beyond which an executed quantity counts as different: false alarm below 1e-6


def row(code: str, item: str, value: str, holds: bool) -> Check:
    """Return a check that holds or has failed."""
    return Check(code=code, item=item, value=value, status=Status.CHECKED if holds else Status.FAILED)


def count_recomputed(differences: Array) -> int:
    """Return how many gradients were computed again; -1 is one that was not."""
    return int((differences >= 0).sum())


def recomputation_row(differences: Array, names: tuple[str, str, str], unit: str) -> tuple[Check, ...]:
    """Return the check of gradients that were computed again by other means; of differences `(N,)` -1 says that one was not.

    `names` are code, item, and what was recomputed.
    """
    measurements = differences[differences >= 0]
    if not len(measurements):
        return ()
    code, item, description = names
    largest = float(np.max(measurements))
    return (row(code, item, join_clauses((description, _difference(largest, unit))), largest <= RECOMPUTATION_LIMIT),)


def _difference(value: float, unit: str) -> str:
    """Name the next power of ten, at least 1e-6: the last digits of rounding errors are not the same on every machine."""
    if not 0 < value < math.inf:
        return phrase("largest difference {difference} of {unit}", difference=f"{value:g}", unit=unit)
    limit = f"{10.0 ** max(-6, math.floor(math.log10(value)) + 1):.0e}"
    return phrase("largest difference below {difference} of {unit}", difference=limit, unit=unit)

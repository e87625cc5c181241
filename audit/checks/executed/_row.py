"""Rows of the assumptions table, and the tolerances that checks share."""

import math

import numpy as np

from audit.core.data import Array
from audit.core.results import Check, Status
from audit.engine.trial.clip_check import RECOMPUTATION_LIMIT

Z_LIMIT = 5.0  # standard errors beyond which an executed quantity counts as different: false alarm below 1e-6


def row(code: str, item: str, value: str, holds: bool) -> Check:
    """Return a check that holds or has failed."""
    return Check(code=code, item=item, value=value, status=Status.CHECKED if holds else Status.FAILED)


def recomputation_row(differences: Array, names: tuple[str, str, str], unit: str) -> tuple[Check, ...]:
    """Return the check of gradients that were computed again by other means; none if nothing was.

    Args:
        differences: `(N,)`, -1 if nothing was recomputed.
        names: code, item, and what was recomputed.
        unit: of the differences.
    """
    measurements = differences[differences >= 0]
    if not len(measurements):
        return ()
    code, item, description = names
    largest = float(np.max(measurements))
    value = f"{description.format(count=len(measurements))}; largest difference {_decade(largest)} of {unit}"
    return (row(code, item, value, largest <= RECOMPUTATION_LIMIT),)


def _decade(value: float) -> str:
    """Return the next power of ten, at least 1e-6: the last digits of rounding errors are not the same on every machine."""
    return f"below {10.0 ** max(-6, math.floor(math.log10(value)) + 1):.0e}" if 0 < value < math.inf else f"{value:g}"

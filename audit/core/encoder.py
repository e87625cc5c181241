"""How far one record moves what DP-FTRL encodes."""

import math

import numpy as np

from audit.core.deployed_events import MatrixFactorization
from audit.core.errors import UnsupportedMechanism


def encoder_sensitivity(event: MatrixFactorization) -> float:
    """Return how far one record of clip norm 1 moves `C x`: the worst of the batches that it may be part of.

    For one participation it is the longest column. If columns of different participations do not meet (fewer bands than the
    separation) their squares add up. If coefficients are neither negative nor rising, the earliest batches and equal
    contributions are worst (Kalinin, Lampert 2024, Theorem 2).

    Raises:
        UnsupportedMechanism: no such theorem holds for the coefficients.
    """
    column = np.zeros(event.steps)
    bands = min(len(event.coefficients), event.steps)
    column[:bands] = event.coefficients[:bands]
    starts = range(0, event.steps, event.separation)[: event.participations]
    if len(starts) <= 1:
        return float(np.linalg.norm(column))
    if bands <= event.separation:
        return math.sqrt(sum(float(column[: event.steps - start] @ column[: event.steps - start]) for start in starts))
    if (np.diff(column) > 0).any() or (column < 0).any():
        raise UnsupportedMechanism(
            f"several participations {event.separation} batches apart, and {bands} bands that rise or are below 0: "
            "no sensitivity is proved here; use at most as many bands as the separation"
        )
    total = np.zeros(event.steps)
    for start in starts:
        total[start:] += column[: event.steps - start]
    return float(np.linalg.norm(total))

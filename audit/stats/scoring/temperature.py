"""The temperature at which ratios of probabilities tell members best, chosen on reference models alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.stats.scoring import membership
from audit.stats.scoring.strength import strength
from audit.stats.spread import evenly

Array = NDArray[Any]

DEFAULT = 2.0
"""Where references show nothing of it: what the attack's authors and other implementations take."""

GRID = (2.0, 1.0, 4.0, 0.5)
"""Temperatures that are tried; among equals the first is taken."""
_TARGETS = 16  # references that are attacked at most
_SIDE = 10  # records on the smaller side, below which a model's ROC says nothing


def fit(losses_at: Callable[[float], Array], included: Array, *, online: bool, offline_weight: float) -> float:
    """The temperature at which the log ratio of RMIA is strongest on references, each attacked with all the others.

    Args:
        losses_at: of a temperature, the references' losses `(k, m)` with logits divided by it.
        included: `(k, m)` bool.

    Returns:
        The default where fewer than two references, or none with records on both sides, are there.
    """
    balance = np.minimum(included.sum(axis=1), (~included).sum(axis=1))
    rows = np.flatnonzero(balance >= max(1, min(_SIDE, included.shape[1] // 4)))
    if len(included) < 2 or not len(rows):
        return DEFAULT
    rows = rows[evenly(len(rows), _TARGETS)]
    coins = list(included[rows])

    def power(temperature: float) -> tuple[float, float]:
        ratios = membership.log_ratio_of_references(
            -losses_at(temperature), included, online=online, offline_weight=offline_weight
        )
        return strength(list(ratios[rows]), coins)

    return max(GRID, key=power)

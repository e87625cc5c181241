"""How clearly ranks tell two groups apart, or two lists of numbers alike, in standard errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata


def separation(values: NDArray[np.float64], groups: NDArray[np.bool_]) -> float:
    """By how many standard errors values of a group lie below the rest of their row, by Wilcoxon's ranks over all rows.

    Args:
        values: `(k, n)`; `groups` `(k, n)`, which of them belong to the group. Rows without both sides count nothing.

    >>> round(separation(np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([[True, True, False, False]])), 3)
    1.549
    """
    total = variance = 0.0
    for row, group in zip(values, groups, strict=True):
        inside, outside = int(group.sum()), int((~group).sum())
        total += inside * (len(row) + 1) / 2 - float(rankdata(row)[group].sum())
        variance += inside * outside * (len(row) + 1) / 12
    return float(total / variance**0.5) if variance else 0.0


def likeness(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """By how many standard errors two lists `(n,)` rank the same things alike (Spearman); 0 where one is constant.

    >>> likeness(np.arange(5.0), np.arange(5.0) ** 3)
    2.0
    """
    ranks = np.stack([rankdata(first), rankdata(second)])
    ranks -= ranks.mean(axis=1, keepdims=True)
    scale = float(np.sqrt((ranks**2).sum(axis=1).prod()))
    return float(ranks.prod(axis=0).sum()) / scale * (len(first) - 1) ** 0.5 if scale else 0.0

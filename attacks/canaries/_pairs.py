"""Pairs of tokens of a public pool: the simplest model of its texts."""

from __future__ import annotations

import numpy as np

from audit.core.data import Array

_LAPLACE = 0.01  # added to every count, so that no pair of tokens is impossible


def followers(rows: Array, temperature: float) -> tuple[Array, Array]:
    """Return the tokens that occur `(k,)`, and of each the cumulative chances of its followers `(k, k)`."""
    tokens = np.unique(rows[rows >= 0])
    if len(tokens) > 4096:
        common = np.bincount(rows[rows >= 0]).argsort()[::-1][:4096]
        tokens = np.sort(common)
    counts = np.full((len(tokens), len(tokens)), _LAPLACE)
    first, second = rows[:, :-1].ravel(), rows[:, 1:].ravel()
    is_pair = np.isin(first, tokens) & np.isin(second, tokens)
    np.add.at(counts, (np.searchsorted(tokens, first[is_pair]), np.searchsorted(tokens, second[is_pair])), 1.0)
    weights = counts ** (1 / temperature)
    return tokens, np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)

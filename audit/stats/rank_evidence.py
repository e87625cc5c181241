"""How clearly pairs of neighbouring rows distinguish two groups, or two lists of numbers alike, by tests of signs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

_FEWEST = 30  # records that are in some references and out of others


def neighbour_pairs(labels: NDArray[np.generic]) -> NDArray[np.int64]:
    """Disjoint pairs of rows with the same label, each the next such row after the other, `(pairs, 2)`.

    What two lists share because both drift along the rows, or because both know the label, differs little within a pair.

    Args:
        labels: `(n,)`.

    >>> neighbour_pairs(np.array([0, 1, 0, 1, 1, 1])).tolist()
    [[0, 2], [1, 3], [4, 5]]
    """
    pairs = []
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        pairs.append(rows[: len(rows) // 2 * 2].reshape(-1, 2))
    return np.concatenate(pairs) if pairs else np.zeros((0, 2), np.int64)


def separation(values: NDArray[np.float64], groups: NDArray[np.bool_], pairs: NDArray[np.int64]) -> float:
    """Return how clearly values of a group are below those outside it, within pairs, each pair counted once over all rows.

    Guarantee: at or above x with probability at most `exp(-x**2 / 2)` if the two of a pair are exchangeable, however the
        rows depend on each other.

    Args:
        values: `(k, n)`; `groups` `(k, n)`, which of them belong to the group; `pairs` `(p, 2)`.

    >>> values = np.array([[1.0, 2.0, 1.0, 2.0]])
    >>> round(separation(values, values == 1, np.array([[0, 1], [2, 3]])), 3)
    1.414
    """
    first, second = pairs.T
    sides = groups[:, first].astype(np.int64) - groups[:, second]
    return _signs((sides * np.sign(values[:, second] - values[:, first])).sum(axis=0))


def likeness(target: NDArray[np.float64], reference: NDArray[np.float64], pairs: NDArray[np.int64]) -> float:
    """Return how clearly two lists `(n,)` rank the two of a pair alike, by differences of ranks.

    Guarantee: at or above x with probability at most `exp(-x**2 / 2)` if the two of a pair are exchangeable in one of the
        lists, whatever the second list is.

    >>> rows = np.arange(4.0)
    >>> round(likeness(rows, rows**3, np.array([[0, 1], [2, 3]])), 3)
    1.414
    """
    differences = [ranks[pairs[:, 1]] - ranks[pairs[:, 0]] for ranks in (rankdata(target), rankdata(reference))]
    return _signs(np.prod(differences, axis=0))


def membership_evidence(losses: NDArray[np.float64], included: NDArray[np.bool_]) -> float | None:
    """Return how clearly losses of records are lower in models that were trained on them, in standard errors.

    Args:
        losses: `(k, n)`; `included` `(k, n)` bool.

    Returns: None if fewer than 30 records are in only some of the models.
    """
    inside = included.sum(axis=0)
    is_mixed = (inside > 0) & (inside < len(included))
    if is_mixed.sum() < _FEWEST:
        return None
    ranks = np.stack([rankdata(row) for row in losses])[:, is_mixed]
    coins, inside = included[:, is_mixed], inside[is_mixed]
    ranks = ranks - ranks.mean(axis=1, keepdims=True)
    excess = (ranks * ~coins).sum(axis=0) / (len(coins) - inside) - (ranks * coins).sum(axis=0) / inside
    scale = float(np.sqrt((excess**2).sum()))
    return float(excess.sum()) / scale if scale else 0.0


def find_model_evidence(losses: NDArray[np.float64], included: NDArray[np.bool_]) -> float:
    """Return how clearly losses of the first model are lower on its members, alone or beside the mean of the others.

    Beside the mean of the others hard records do not matter, whatever those were trained on.

    Args:
        losses: `(1 + k, n)`; `included` `(n,)` bool, of the first model.
    """
    ranks = np.stack([rankdata(row) for row in losses])
    return max(rank_sum(losses[0], included), rank_sum(ranks[0] - ranks[1:].mean(axis=0), included))


def find_row_evidence(losses: NDArray[np.float64], included: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return how clearly losses of each model are lower on the members of each row, `(k, k)`: `find_model_evidence` of all.

    The smaller of alone and beside the mean of the other models, so that no model is judged by what others learned.

    Args:
        losses: `(k, n)`; `included` `(k, n)` bool, two models or more.
    """
    ranks = np.stack([rankdata(row) for row in losses])
    rival_means = (ranks.sum(axis=0) - ranks) / (len(ranks) - 1)
    count, inside = included.shape[1], included.sum(axis=1)
    parts = []
    for values in (ranks, np.stack([rankdata(row) for row in ranks - rival_means])):
        spreads = np.sqrt(np.outer(values.var(axis=1), inside * (count - inside) / count))
        excess = np.outer(values.mean(axis=1), inside) - values @ included.T.astype(np.float64)
        parts.append(np.divide(excess, spreads, out=np.zeros_like(excess), where=spreads > 0))
    return np.asarray(np.where(np.abs(parts[0]) < np.abs(parts[1]), *parts))


def rank_sum(losses: NDArray[np.float64], included: NDArray[np.bool_]) -> float:
    """Return how clearly losses `(n,)` of one model are lower on its members, by the sum of ranks, in standard errors."""
    count, inside = len(included), int(included.sum())
    if inside in (0, count):
        return 0.0
    ranks = rankdata(losses)
    spread = float(np.sqrt(inside * (count - inside) / count * ranks.var()))
    return float(inside * ranks.mean() - ranks[included].sum()) / spread if spread else 0.0


def _signs(values: NDArray[np.float64]) -> float:
    """Their sum in units of the root of the sum of their squares: as large as x by chance rarely, if signs are random.

    References: Hoeffding 1963, "Probability inequalities for sums of bounded random variables" (for given absolute values).
    """
    scale = float(np.sqrt((np.asarray(values, np.float64) ** 2).sum()))
    return float(np.sum(values)) / scale if scale else 0.0

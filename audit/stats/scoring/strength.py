"""How well scores distinguish members from nonmembers if false alarms are rare: what a choice between attacks looks at."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from audit.stats.bounds import roc

Array = NDArray[Any]

FPR = 0.01


class TailPower(NamedTuple):
    """Mean TPR at 1 % FPR (never interpolated) and mean AUC over models: the larger pair is the stronger attack."""

    tpr: float
    auc: float


def tpr_at(members: Array, nonmembers: Array, fpr: float) -> float:
    """TPR of the lowest threshold with a false positive rate of at most `fpr`; never interpolated.

    If there are fewer nonmembers than `1 / fpr`, no false positive is allowed.

    >>> tpr_at(np.array([3.0, 1.0]), np.array([2.0, 0.0]), 0.5)
    1.0
    """
    allowed = int(fpr * len(nonmembers) * (1 + 1e-12))  # 0.29 * 100 is 28.999999999999996: 29 are allowed
    if allowed >= len(nonmembers):
        return 1.0
    bar = np.partition(nonmembers, len(nonmembers) - 1 - allowed)[len(nonmembers) - 1 - allowed]
    return float(np.mean(members > bar))


def partial_auc(members: Array, nonmembers: Array, fpr: float) -> float:
    """Mean TPR over false positive rates up to `fpr`, with equal scores in random order: its mean over all such orders.

    The highest `fpr` of the nonmembers take part, one at least. If they are tied with others, a member with the same score
    has the chance of a random order, not a half: a constant score gets what scores that know nothing get on average,
    `(r + 1) / (2 (n + 1))` for the highest `r` of `n` nonmembers. Less noisy than the TPR at one rate.

    >>> partial_auc(np.array([4.0, 2.0]), np.array([3.0, 1.0, 0.0, -1.0]), 0.25)
    0.5
    >>> partial_auc(np.zeros(5), np.zeros(99), 0.05)
    0.025
    """
    count = max(1, int(fpr * len(nonmembers) * (1 + 1e-12)))
    bar = np.partition(nonmembers, len(nonmembers) - count)[len(nonmembers) - count]
    higher, ties = nonmembers[nonmembers > bar], int(np.sum(nonmembers == bar))
    places = count - len(higher)  # of the tied nonmembers, that are among the highest in a random order
    wins = roc.auc(members, higher) * len(higher) if len(higher) else 0.0
    wins += float(np.mean(members > bar)) * places
    wins += float(np.mean(members == bar)) * places * (places + 1) / (2 * (ties + 1))
    return wins / count


def strength(rows: Sequence[Array], included: Sequence[Array]) -> TailPower:
    """The strength of an attack that scored several models: `(m,)` scores and coins of each, both sides in each.

    >>> strength([np.array([3.0, 2.0, 1.0, 0.0])], [np.array([True, False, True, False])])
    TailPower(tpr=0.5, auc=0.75)
    """
    aucs = [roc.auc(values[coins], values[~coins]) for values, coins in zip(rows, included, strict=True)]
    return TailPower(tpr=mean_tpr(rows, included), auc=float(np.mean(aucs)))


def mean_tpr(rows: Sequence[Array], included: Sequence[Array]) -> float:
    """Mean TPR at 1 % FPR of an attack that scored several models, as `strength` takes them."""
    return float(np.mean([tpr_at(values[coins], values[~coins], FPR) for values, coins in zip(rows, included, strict=True)]))

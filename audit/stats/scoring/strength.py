"""How well scores tell members from nonmembers where false alarms are rare: what a choice between attacks looks at."""

from __future__ import annotations

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
    """TPR of the lowest threshold whose false positive rate is at most `fpr`; never interpolated.

    Where there are fewer nonmembers than `1 / fpr`, no false positive is allowed.

    >>> tpr_at(np.array([3.0, 1.0]), np.array([2.0, 0.0]), 0.5)
    1.0
    """
    allowed = int(fpr * len(nonmembers) * (1 + 1e-12))  # 0.29 * 100 is 28.999999999999996: 29 are allowed
    if allowed >= len(nonmembers):
        return 1.0
    bar = np.partition(nonmembers, len(nonmembers) - 1 - allowed)[len(nonmembers) - 1 - allowed]
    return float(np.mean(members > bar))


def partial_auc(members: Array, nonmembers: Array, fpr: float) -> float:
    """Mean TPR over false positive rates up to `fpr`: the share of pairs of a member and one of the highest nonmembers won.

    The highest `fpr` of the nonmembers take part, one at least; ties count half. Less noisy than the TPR at one rate.

    >>> partial_auc(np.array([4.0, 2.0]), np.array([3.0, 1.0, 0.0, -1.0]), 0.25)
    0.5
    """
    count = max(1, int(fpr * len(nonmembers) * (1 + 1e-12)))
    highest = np.partition(nonmembers, len(nonmembers) - count)[len(nonmembers) - count :]
    return roc.auc(members, highest)


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

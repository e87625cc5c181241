"""How well scores distinguish members from nonmembers if false alarms are rare: what a choice between attacks looks at."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logit
from scipy.stats import rankdata

from audit.stats.arrays import AnyArray
from audit.stats.bounds import roc
from audit.stats.scoring import membership
from audit.stats.spread import evenly

FPR = 0.01


class TailPower(NamedTuple):
    """Mean TPR at 1 % FPR (never interpolated) and mean AUC over models: the larger pair is the stronger attack."""

    tpr: float
    auc: float


def tpr_at(members: AnyArray, nonmembers: AnyArray, fpr: float) -> float:
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


def partial_auc(members: AnyArray, nonmembers: AnyArray, fpr: float) -> float:
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


def strength(rows: Sequence[AnyArray], included: Sequence[AnyArray]) -> TailPower:
    """The strength of an attack that scored several models: `(m,)` scores and coins of each, both sides in each.

    >>> strength([np.array([3.0, 2.0, 1.0, 0.0])], [np.array([True, False, True, False])])
    TailPower(tpr=0.5, auc=0.75)
    """
    aucs = [roc.auc(values[coins], values[~coins]) for values, coins in zip(rows, included, strict=True)]
    return TailPower(tpr=mean_tpr(rows, included), auc=float(np.mean(aucs)))


def mean_tpr(rows: Sequence[AnyArray], included: Sequence[AnyArray]) -> float:
    """Mean TPR at 1 % FPR of an attack that scored several models, as `strength` takes them."""
    return float(np.mean([tpr_at(values[coins], values[~coins], FPR) for values, coins in zip(rows, included, strict=True)]))


_EQUAL_AT = 600  # pairs of a reference and a record at which both count alike (docs/evidence/results.md)
ALONE_FROM = 60_000  # pairs at which the formula's weight falls to 1 %: from there on the learned score ranks alone


def mixed(learned: AnyArray, formula: AnyArray, pairs: int) -> AnyArray:
    """Weighted sum of the log odds of ranks under both scores, `(m,)` each; equal scores share their rank.

    The weight of the formula is `600 / (600 + pairs)`: fitted on few (reference, record) pairs a score errs, and apart from a
    formula, so that both together inform more than either.

    >>> mixed(np.array([5.0, 1.0, 3.0]), np.array([0.1, 0.3, 0.2]), 600).round(3).tolist()
    [0.0, 0.0, 0.0]
    """
    weight = _EQUAL_AT / (_EQUAL_AT + pairs) if pairs < ALONE_FROM else 0.0
    return np.asarray((1 - weight) * rank_log_odds(learned) + weight * rank_log_odds(formula))


def rank_log_odds(scores: AnyArray) -> AnyArray:
    """Log odds of each score's rank among them, `(m,)`; equal scores share their rank.

    >>> rank_log_odds(np.array([5.0, 1.0, 3.0])).round(3).tolist()
    [1.099, -1.099, 0.0]
    """
    return np.asarray(logit(rankdata(scores) / (len(scores) + 1)))


DEFAULT = 2.0  # where references show nothing of it: what the attack's authors and other implementations take

GRID = (2.0, 1.0, 4.0, 0.5)  # temperatures that are tried; among equals the first is taken
_TARGETS = 16  # references that are attacked at most
_SIDE = 10  # records on the smaller side, below which a model's ROC says nothing


def fit(log_p_at: Callable[[float], AnyArray], included: AnyArray, *, online: bool, offline_weight: float) -> float:
    """The temperature at which the log ratio of RMIA is strongest on references, each attacked with all the others.

    Args:
        log_p_at: of a temperature, the references' log probabilities of the label `(k, m)` with logits divided by it.
        included: `(k, m)` bool.

    Returns: The default if fewer than two references, or none with records on both sides, are there.
    """
    balance = np.minimum(included.sum(axis=1), (~included).sum(axis=1))
    rows = np.flatnonzero(balance >= max(1, min(_SIDE, included.shape[1] // 4)))
    if len(included) < 2 or not len(rows):
        return DEFAULT
    rows = rows[evenly(len(rows), _TARGETS)]
    coins = list(included[rows])

    def ratios(temperature: float) -> list[AnyArray]:
        log_p = log_p_at(temperature)
        log_ratios = membership.reference_log_ratio(log_p, included, online=online, offline_weight=offline_weight)
        return list(log_ratios[rows])

    scores = {temperature: ratios(temperature) for temperature in GRID}
    tprs = {temperature: mean_tpr(values, coins) for temperature, values in scores.items()}
    strongest = [temperature for temperature in GRID if tprs[temperature] == max(tprs.values())]
    if len(strongest) == 1:  # the AUC decides ties alone
        return strongest[0]
    return max(strongest, key=lambda temperature: strength(scores[temperature], coins))

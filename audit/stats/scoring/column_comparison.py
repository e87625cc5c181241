"""Membership from several scores of any meaning, learned on references that saw each record or did not."""

import math

import numpy as np

from audit.stats.arrays import AnyArray
from audit.stats.bounds import roc
from audit.stats.scoring import logistic, membership, reference_fit

RIDGE = 0.05  # that few references are drawn to nothing with
LARGEST = 30.0  # of a feature; beyond it says no more
DEVIATIONS = 3.0  # above chance, from where on references are said to know members


def compare_columns(target: AnyArray, references: AnyArray, included: AnyArray) -> AnyArray:
    """Log odds of membership of each record `(m,)`, higher for members, from scores `(m, c)` and `(k, m, c)` of references.

    Two features a column: the score above the mean of references without the record, and the log-likelihood ratio of both
    sides. A logistic regression weighs them, fitted to the references, each compared with all others; nothing of the target
    takes part.

    Args:
        included: `(k, m)` bool, `k` at least 4.
    """
    columns = [_features(target[:, at], references[..., at], included) for at in range(target.shape[1])]
    training = np.concatenate([rows for rows, _ in columns], axis=2).reshape(included.size, -1)
    queries = np.concatenate([row for _, row in columns], axis=1)
    labels = included.ravel()
    if labels.all() or not labels.any():
        return np.asarray(queries[:, 1::2].sum(axis=1))
    return np.asarray(logistic.fit(training, labels, ridge=RIDGE).log_odds(queries))


def know_members(references: AnyArray, included: AnyArray) -> bool:
    """Return whether references tell each other's members by their scores, so that `compare_columns` learns from them.

    Each reference in turn is compared with all others; the mean AUC has to be `DEVIATIONS` standard deviations above a half.
    References that all score a canary alike know nothing. None with both sides cannot be judged, and pass.
    """
    if not np.ptp(references, axis=0).any():
        return False
    rivals = ~np.eye(len(references), dtype=bool)
    areas, variances = [], []
    for row, coins, rest in zip(references, included, rivals, strict=True):
        if coins.any() and not coins.all():
            odds = compare_columns(row, references[rest], included[rest])
            areas.append(roc.auc(odds[coins], odds[~coins]))
            variances.append((1 / coins.sum() + 1 / (~coins).sum()) / 12)
    return not areas or float(np.mean(areas)) > 0.5 + DEVIATIONS * math.sqrt(sum(variances)) / len(areas)


def _features(target: AnyArray, references: AnyArray, included: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return the features of references `(k, m, 2)` and of the target `(m, 2)` in one column."""
    sides = reference_fit.sides(references, included)
    left_out_sides = reference_fit.leave_one_out(references, included, everyone=sides)
    scale = max(sides[1].fixed_std, 1e-12)
    return _pair(references, left_out_sides, scale), _pair(target, sides, scale)


def _pair(values: AnyArray, sides: tuple[reference_fit.Side, reference_fit.Side], scale: float) -> AnyArray:
    member, nonmember = sides
    ratio = membership.log_density(values, member, "shrunk") - membership.log_density(values, nonmember, "shrunk")
    return np.asarray(np.clip(np.stack([(values - nonmember.mean) / scale, ratio], axis=-1), -LARGEST, LARGEST))

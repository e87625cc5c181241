"""Whether values of a group are lower than chance allows: the rank sum of a group that was drawn at random."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.stats import rankdata

_STEPS = 100
_FARTHEST = 30.0
_MOST_COUNTED = 4e7  # values, of the group and of its sum, multiplied: at most a tenth of a second


def lower_tail(values: NDArray[np.float64], included: NDArray[np.bool_]) -> float:
    """Return the chance of a rank sum of the group as low as this one, or lower, if the group is a random draw of its size.

    Given the group's size, the rank sum is one of draws without replacement. Its tail is counted for some hundred values, or a
    small group, and else computed by the double saddlepoint of Skovgaard, as for independent coins given their number; outside
    of the saddlepoint's reach by the bound of Chernoff.

    Args:
        values: `(n,)`, ties at their mean rank; `included` `(n,)`, the group, neither empty nor everything.

    References:
        Robinson 1982, "Saddlepoint approximations for permutation tests and confidence intervals".
        Skovgaard 1987, "Saddlepoint expansions for conditional distributions".

    >>> values, included = np.arange(6.0), np.arange(6) < 3
    >>> round(lower_tail(values, included), 6), lower_tail(values, ~included) > 0.9
    (0.05, True)
    """
    ranks = rankdata(values)
    spread = ranks.std()
    if spread == 0:
        return 1.0
    if 2 * included.sum() > len(ranks):  # the others are as high as the group is low
        ranks, included = len(ranks) + 1 - ranks, ~included
    if len(ranks) * included.sum() * ranks[included].sum() <= _MOST_COUNTED:
        return _counted_tail(np.rint(2 * ranks).astype(np.int64), included)
    scores = -(ranks - ranks.mean()) / spread  # high for low values, so that the tail is an upper one
    gap = float(np.diff(np.unique(scores)).min())
    # half a step down, as for other sums of whole numbers: the tail includes the sum that was seen
    total, size, count = float(scores[included].sum()) - gap / 2, int(included.sum()), len(scores)
    if total <= 0:
        return 1.0 if total < 0 else 0.5
    share = size / count
    tilt = _find_tilt(scores, share, total, size)
    exponent = _exponent(scores, share, total, size, tilt)
    chance_of_size = special.gammaln(count + 1) - special.gammaln(size + 1) - special.gammaln(count - size + 1)
    chance_of_size += size * math.log(share) + (count - size) * math.log1p(-share)
    bound = math.exp(min(exponent - chance_of_size, 0.0))
    weights = special.expit(special.logit(share) + tilt[0] + tilt[1] * scores)
    curvature = _curvature(scores, weights)
    determinant = float(np.linalg.det(curvature)) / (count * share * (1 - share))
    root = math.sqrt(max(-2 * exponent, 0.0))
    # near the middle `1 / lead - 1 / root` cancels, and the tail is about a half; far out no saddle is found, and only the
    # bound of Chernoff is known
    if abs(tilt[1]) >= _FARTHEST or determinant <= 1e-9 or root < 1e-3:
        return min(bound, 0.5) if root >= 1e-3 else 0.5
    lead = tilt[1] * math.sqrt(determinant)
    density = math.exp(-(root**2) / 2) / math.sqrt(2 * math.pi)
    tail = float(special.ndtr(-root)) + density * (1 / lead - 1 / root)
    return float(min(max(tail, 0.0), bound, 1.0))


def _counted_tail(scores: NDArray[np.int64], included: NDArray[np.bool_]) -> float:
    """Return the share of all groups of this size with a sum of scores as low as this group's, or lower."""
    size, total = int(included.sum()), int(scores[included].sum())
    groups = np.zeros((size + 1, total + 1))  # by size and sum, of the scores so far
    groups[0, 0] = 1
    for score in scores[scores <= total].tolist():
        groups[1:, score:] += groups[:-1, : total + 1 - score].copy()
    return float(groups[size].sum() / special.comb(len(scores), size))


def _exponent(scores: NDArray[np.float64], share: float, total: float, size: int, tilt: NDArray[np.float64]) -> float:
    """Return the logarithm of Chernoff's bound at a tilt, of coins of chance `share` that choose `size` scores."""
    growth = np.logaddexp(math.log1p(-share), math.log(share) + tilt[0] + tilt[1] * scores).sum()
    return float(growth - tilt[0] * size - tilt[1] * total)


def _find_tilt(scores: NDArray[np.float64], share: float, total: float, size: int) -> NDArray[np.float64]:
    """Return the tilt at which coins choose as many scores, of the same sum, in the mean: Newton's method, steps halved."""
    tilt = np.zeros(2)
    aim = np.array([size, total])
    value = _exponent(scores, share, total, size, tilt)
    for _ in range(_STEPS):
        weights = special.expit(special.logit(share) + tilt[0] + tilt[1] * scores)
        gradient = np.array([weights.sum(), weights @ scores]) - aim
        step = np.linalg.lstsq(_curvature(scores, weights) + 1e-12 * np.eye(2), gradient, rcond=None)[0]
        length = 1.0
        while length > 1e-6:
            trial = tilt - length * step
            next_value = _exponent(scores, share, total, size, trial)
            if next_value <= value and abs(trial[1]) <= _FARTHEST:
                break
            length /= 2
        else:
            return tilt
        if value - next_value < 1e-12:
            return np.asarray(trial)
        tilt, value = trial, next_value
    return tilt


def _curvature(scores: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    variances = weights * (1 - weights)
    cross_term = float(variances @ scores)
    return np.array([[float(variances.sum()), cross_term], [cross_term, float(variances @ scores**2)]])

"""What one event proves about epsilon: in at least k of n equal releases the output is beyond a threshold."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

Array = NDArray[np.float64]
_COUNTS = 60


def log_normal_tail(x: Array) -> Array:
    """Return the logarithm of the chance that a standard normal exceeds each `x`."""
    return np.asarray(log_ndtr(-x), dtype=np.float64)


def counted_epsilon(member: Array, nonmember: Array, count: int, delta: float) -> float:
    """The best `log((P - delta) / Q)` over thresholds and counts, Q's binomial tail being bounded by Chernoff."""
    from scipy.stats import binom  # here, because it takes a second that most accountants' tests do not need

    if count == 0:
        return 0.0
    chance = np.exp(member)[:, None]
    spread = np.sqrt(count * chance * (1 - chance)) + 1
    steps = np.linspace(-8, 12, _COUNTS)
    fewest = np.clip(np.round(count * chance + steps * spread), 1, count)
    margins = binom.sf(fewest - 1, count, chance) - delta
    share = fewest / count
    with np.errstate(divide="ignore", invalid="ignore"):
        remainder = np.where(
            share < 1, (1 - share) * (np.log1p(-np.minimum(share, 1.0)) - np.log1p(-np.exp(nonmember))[:, None]), 0.0
        )
        rarity = count * (share * (np.log(share) - nonmember[:, None]) + remainder)
        epsilons = np.log(margins) + rarity
    valid = (margins > 0) & (share > np.exp(nonmember)[:, None]) & np.isfinite(epsilons)
    return max(0.0, float(np.max(epsilons, where=valid, initial=0.0)))

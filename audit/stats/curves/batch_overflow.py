"""Chance that a Poisson batch is larger than its limit."""

from scipy.special import betainc

_ALLOWANCE = 1e-9  # relative, for the rounding of the incomplete beta function


def overflow_chance(population: int, sample_rate: float, batch_limit: int) -> float:
    """Return, from above, the chance that more than `batch_limit` of `population` records are drawn.

    >>> round(overflow_chance(3, 0.5, 2), 6)
    0.125
    >>> overflow_chance(3, 0.5, 3)
    0.0
    """
    if batch_limit >= population or sample_rate == 0:
        return 0.0
    return min(1.0, float(betainc(batch_limit + 1, population - batch_limit, sample_rate)) * (1 + _ALLOWANCE))

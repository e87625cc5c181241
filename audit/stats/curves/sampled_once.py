"""The exact epsilon of one Poisson-sampled Gaussian release, in closed form up to one inversion."""

from __future__ import annotations

import math

from scipy.optimize import brentq

from audit.stats.curves import tradeoff


def sampled_once_epsilon(mu: float, rate: float, delta: float) -> float:
    """Return epsilon at `delta` of a mu-GDP release that sees a record with chance `rate`; adding or removing, the worse.

    What both hypotheses share is taken out of either, which leaves the release itself at another delta or epsilon.

    Args:
        mu: above 0.
        rate: strictly between 0 and 1.
        delta: strictly between 0 and 1.

    References:
        Balle, Barthe, Gaboardi 2018, arXiv 1807.01647 (advanced joint convexity).

    >>> round(sampled_once_epsilon(2.0, 1e-7, 1e-12), 7)
    0.0021941
    """
    return max(_sampled_remove(mu, rate, delta), _sampled_add(mu, rate, delta))


def _sampled_remove(mu: float, rate: float, delta: float) -> float:
    """Return where `rate * delta_gdp(log(1 + (exp(epsilon) - 1) / rate))` is `delta`."""
    if delta >= rate:
        return 0.0
    full = tradeoff.gdp_epsilon(mu, delta / rate)
    return full + math.log(rate) if full > 700 else math.log1p(rate * math.expm1(full))


def _sampled_add(mu: float, rate: float, delta: float) -> float:
    """Return where `kept * delta_gdp(epsilon + log(rate / kept))` is `delta`, `kept` being `1 - exp(epsilon) (1 - rate)`."""

    def excess(epsilon: float) -> float:
        retention = -math.expm1(epsilon + math.log1p(-rate))
        return (
            retention * tradeoff.gdp_delta(mu, max(0.0, epsilon + math.log(rate / retention))) if retention > 0 else 0.0
        ) - delta

    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, -math.log1p(-rate), xtol=1e-300, rtol=1e-13))

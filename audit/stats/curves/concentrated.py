"""How much epsilon a rho-zCDP mechanism can cost, from below: a mechanism that almost uses the conversion up.

The improved conversion bounds epsilon from above. Here is a mechanism with two outcomes, one of them rare and revealing. Its
Renyi divergences stay below `rho * order` at every order, in both directions; its epsilon is close to that bound, which
a Gaussian mechanism of the same rho is not.

References: Bun, Steinke 2016, arXiv 1605.02065. Canonne, Kamath, Steinke 2020, arXiv 2004.00010.
"""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from audit.stats.arrays import Array
from audit.stats.curves import tradeoff

_ORDERS = 4000
_LOSSES = 120
_HALVINGS = 40
_LEAST_LOG_MASS = -700.0  # no float holds the inverse of much less


def zcdp_epsilon_floor(rho: float, delta: float) -> float:
    """An epsilon that some rho-zCDP mechanism exceeds at `delta`; 0 if no such mechanism of two outcomes is found.

    Guarantee: `largest_rho` of the mechanism found is at most `rho`.

    >>> 4.7 < zcdp_epsilon_floor(0.5, 1e-5) < 4.7284
    True
    """
    spread = math.sqrt(2 * rho)
    centre = rho + 2 * math.sqrt(rho * math.log(1 / delta))  # where a rare outcome of P-mass delta may be
    best = 0.0
    for loss in np.linspace(max(centre - 2 * spread, spread / 50), centre + spread, _LOSSES):
        log_rare = _rarest(float(loss), rho)
        share = delta * math.exp(-log_rare)
        if share < 1:
            best = max(best, float(loss) + math.log1p(-share))
    return best


def _rarest(loss: float, rho: float) -> float:
    """Logarithm of the largest P-mass of an outcome of that loss that keeps the mechanism rho-zCDP, from below.

    Minus infinity if even the least mass that is looked at is too much.
    """
    low, high = max(-(max(loss, rho) ** 2) / rho - 50.0, _LEAST_LOG_MASS), -1e-9
    if low == _LEAST_LOG_MASS and largest_rho(loss, math.exp(low)) > rho:
        return -math.inf
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if largest_rho(loss, math.exp(middle)) <= rho else (low, middle)
    return low


def largest_rho(loss: float, mass: float) -> float:
    """An upper bound on the zCDP parameter of the pair with losses `loss` (P-mass `mass`) and one that completes Q.

    Between two orders the divergence, which does not decrease, is replaced by that at the larger one.
    """
    complement_loss = math.log1p(-mass) - math.log1p(-mass * math.exp(-loss))  # Q adds up to 1
    scale = 1 + 1 / max(loss, 1e-3)
    orders = np.concatenate([[0.0], np.geomspace(1e-4, 1e3, _ORDERS) * scale])  # order minus one
    forward = np.logaddexp(math.log(mass) + orders * loss, math.log1p(-mass) + orders * complement_loss)
    reverse = np.logaddexp(math.log(mass) - (1 + orders) * loss, math.log1p(-mass) - (1 + orders) * complement_loss)
    worst = 0.0
    for cumulants, largest in ((forward, loss), (reverse, -complement_loss)):
        divergences: Array = cumulants[1:] / orders[1:]
        worst = max(worst, float(np.max(divergences / (1 + orders[:-1]))), largest / (1 + orders[-1]))
    return worst


# The exact epsilon of one Poisson-sampled Gaussian release, in closed form up to one inversion.
def sampled_once_epsilon(mu: float, rate: float, delta: float) -> float:
    """Return epsilon at `delta` of a mu-GDP release that sees a record with chance `rate`; adding or removing, the worse.

    What both hypotheses share is taken out of either, which leaves the release itself at another delta or epsilon.

    References: Balle, Barthe, Gaboardi 2018, arXiv 1807.01647 (advanced joint convexity).

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

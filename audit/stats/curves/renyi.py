"""Renyi divergences of mechanisms, twice over, and their conversions to (epsilon, delta).

Each divergence has a fast float64 form and, if it is not a one-line formula, an arbitrary-precision form that shares
no code with it: the oracle is held to account by their agreement.

References: Mironov 2017, arXiv 1702.07476. Mironov, Talwar, Zhang 2019, arXiv 1908.10530.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.special import gammaln, logsumexp

from audit.stats.arrays import Array
from audit.stats.curves.loss_pairs import sampled_loss
from audit.stats.curves.tilting import log_sum_exp

_FINE = {1 + x / 100 for x in range(1, 100, 3)} | {x / 10 for x in range(20, 100, 2)} | {float(x) for x in range(10, 65)}
ORDERS = (*sorted(_FINE), 80.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 768.0, 1024.0, 2048.0, 4096.0)
_ROWS = 64  # orders of about one size whose sums are made together
WHOLE_ORDERS = tuple(order for order in ORDERS if order.is_integer() and order >= 2)


def gaussian(order: float, noise: float) -> float:
    """Divergence of the Gaussian mechanism of that noise multiplier.

    >>> gaussian(2.0, 1.0)
    1.0
    """
    return order / (2 * noise * noise)


def laplace(order: float, scale: float) -> float:
    """Divergence of the Laplace mechanism of that scale over sensitivity.

    References: Mironov 2017, Proposition 6.
    """
    shift = 1 / scale
    return shift + math.log1p((order - 1) * math.expm1((1 - 2 * order) * shift) / (2 * order - 1)) / (order - 1)


def randomised_response(order: float, noise_parameter: float, buckets: int) -> float:
    """Divergence of k-ary randomised response when a record changes its category."""
    if noise_parameter == 0:
        return math.inf
    low = noise_parameter / buckets
    high = 1 - noise_parameter + low
    if buckets == 1:
        return 0.0
    growth = order * math.log(high) + (1 - order) * math.log(low)
    if growth > 600:
        return growth / (order - 1)
    gain = (math.exp(growth) - high) + (math.exp(order * math.log(low) + (1 - order) * math.log(high)) - low)
    return math.log1p(gain) / (order - 1)


def subsampled_gaussian(order: float, noise: float, rate: float) -> float:
    """Divergence of one Poisson-subsampled Gaussian release from the release without the record, in float64; `ValueError` as
    `sampled_curve`.

    >>> round(subsampled_gaussian(2.0, 1.0, 0.01) * 1e4, 6)
    1.718134
    """
    return float(sampled_curve((order,), noise, rate)[0])


def sampled_curve(orders: Sequence[float], noise: float, rate: float) -> Array:
    """Divergence of one Poisson-subsampled Gaussian release at each order; `ValueError` for a fractional order with a
    quadrature that would need more than 400,000 panels.

    Whole orders by the binomial sum, all others together by quadrature of `E_Q[expm1(a L) - a expm1(L)]`, which loses
    nothing at small rates (the second term has mean zero).
    """
    values = np.array(orders, dtype=np.float64)
    if rate in (0, 1):
        return np.zeros(len(values)) if rate == 0 else values / (2 * noise * noise)
    full = (values == np.floor(values)) & (values <= 4096)
    excess = np.empty(len(values))
    excess[full] = _whole_excess(values[full], noise, rate)
    if not full.all():
        excess[~full] = _log_excess(values[~full], noise, rate)
    return np.asarray(np.logaddexp(0.0, excess) / (values - 1), dtype=np.float64)


def _whole_excess(orders: Array, noise: float, rate: float) -> Array:
    """Logarithm of `E_Q[(P/Q)^order] - 1` at each whole order by the binomial sum."""
    rows = [orders[start : start + _ROWS] for start in range(0, len(orders), _ROWS)]
    return np.concatenate([_binomial_sums(row, noise, rate) for row in rows]) if rows else np.empty(0)


def _binomial_sums(orders: Array, noise: float, rate: float) -> Array:
    k = np.arange(2, float(orders.max()) + 1)
    growth = k * (k - 1) / (2 * noise * noise)  # log(exp(growth) - 1) by the stable branch of each size
    with np.errstate(over="ignore"):
        log_growth = np.where(growth > 1, growth + np.log1p(-np.exp(-growth)), np.log(np.expm1(np.minimum(growth, 1.0))))
    rest_order = orders[:, None] - k
    choose = gammaln(orders + 1)[:, None] - gammaln(k + 1) - gammaln(np.maximum(rest_order, 0) + 1)
    terms = np.where(rest_order >= 0, choose + rest_order * math.log1p(-rate) + k * math.log(rate) + log_growth, -math.inf)
    return np.asarray(logsumexp(terms, axis=-1) if np.isinf(terms[rest_order >= 0]).any() else log_sum_exp(terms))


def _log_excess(orders: Array, noise: float, rate: float) -> Array:
    """Logarithm of `E_Q[(P/Q)^order] - 1` at each order by Gauss-Legendre panels."""
    # (P/Q)^order Q has its mass near 0 and near every shift up to the largest order
    first, right = -14 * noise, float(orders.max()) + 14 * noise
    panels = math.ceil((right - first) / noise)
    if panels > 400_000:
        raise ValueError(f"order {orders.max():g} at noise {noise:g} needs {panels} quadrature panels; use a whole order")
    nodes, weights = np.polynomial.legendre.leggauss(16)
    cuts = np.linspace(first, right, panels + 1)
    half = (cuts[1] - cuts[0]) / 2
    x = ((cuts[:-1] + half)[:, None] + half * nodes).ravel()
    loss = sampled_loss((2 * x - 1) / (2 * noise * noise), rate)
    log_mass = -x * x / (2 * noise * noise) - math.log(noise * math.sqrt(2 * math.pi)) + np.log(half * np.tile(weights, panels))
    mean = np.expm1(np.minimum(loss, 600))
    return np.array([_log_moment(order, loss, mean, log_mass) for order in orders.tolist()])


def _log_moment(order: float, loss: Array, mean: Array, log_mass: Array) -> float:
    power = order * loss
    small = np.abs(power) < 30
    modest = np.expm1(np.where(small, power, 0.0)) - order * np.where(small, mean, 0.0)
    tiny = np.abs(power) < 0.01
    if tiny.any():  # no cancellation there
        losses = loss[tiny]
        series = np.zeros(len(losses))
        for k in range(6, 1, -1):
            series = (series + (order**k - order) / math.factorial(k)) * losses
        modest[tiny] = series * losses
    with np.errstate(divide="ignore"):
        log_terms = np.where(small, np.log(np.maximum(modest, 0.0)), -math.inf)
    large = ~small & (loss > 0)
    log_terms[large] = power[large]
    log_terms += log_mass
    top = float(log_terms.max())
    positive = top + math.log(float(np.exp(log_terms - top).sum())) if top > -math.inf else top
    rest = ~small  # expm1(a L) is about -1 where the loss is negative
    if not rest.any():
        return positive
    correction = float(np.sum((-1.0 - order * mean[rest]) * np.exp(log_mass[rest])))
    return positive + math.log1p(correction * math.exp(-positive)) if correction else positive


def subsampled_laplace(order: float, scale: float, rate: float, *, direction: Literal["remove", "add"] = "remove") -> float:
    """Divergence of one Poisson-subsampled Laplace release against that without the record (or, "add", the other way).

    The constant pieces in closed form, the piece between by quadrature.
    """
    nodes, weights = np.polynomial.legendre.leggauss(64)
    panels = max(4, math.ceil(8 / scale))
    cuts = np.linspace(0, 1, panels + 1)
    half = 0.5 / panels
    x = ((cuts[:-1] + half)[:, None] + half * nodes).ravel()
    power = order if direction == "remove" else 1 - order
    loss = sampled_loss((2 * x - 1) / scale, rate)
    ends = sampled_loss(np.array([-1 / scale, 1 / scale]), rate)
    log_terms = np.concatenate(
        [
            power * loss - x / scale - math.log(2 * scale) + np.log(half * np.tile(weights, panels)),
            power * ends + np.array([math.log(0.5), math.log(0.5) - 1 / scale]),
        ]
    )
    return float(logsumexp(log_terms)) / (order - 1)


def epsilon_classic(orders: Sequence[float], divergences: Sequence[float], delta: float) -> tuple[float, float]:
    """Least `R + ln(1/delta) / (order - 1)` and its order.

    >>> epsilon_classic([2.0, 3.0], [1.0, 1.5], math.exp(-4))
    (3.5, 3.0)
    """
    orders_, divergence = np.asarray(orders, dtype=np.float64), np.asarray(divergences, dtype=np.float64)
    epsilons = divergence - math.log(delta) / (orders_ - 1)
    best = int(np.argmin(epsilons))
    return max(0.0, float(epsilons[best])), float(orders_[best])


def epsilon_improved(orders: Sequence[float], divergences: Sequence[float], delta: float) -> tuple[float, float]:
    """Least epsilon of the improved conversion, and its order; never above the classic one for orders of at least 2.

    References: Canonne, Kamath, Steinke 2020, arXiv 2004.00010, Proposition 12; Balle et al. 2020, arXiv 1905.09982.
    """
    orders_, divergence = np.asarray(orders, dtype=np.float64), np.asarray(divergences, dtype=np.float64)
    epsilons = divergence + np.log1p(-1 / orders_) - (math.log(delta) + np.log(orders_)) / (orders_ - 1)
    best = int(np.argmin(epsilons))
    return max(0.0, float(epsilons[best])), float(orders_[best])


def zcdp_epsilon(rho: float, delta: float) -> float:
    """An epsilon that every rho-zCDP mechanism satisfies at `delta`: the improved conversion at the best order.

    References: Bun, Steinke 2016, arXiv 1605.02065; Canonne, Kamath, Steinke 2020, arXiv 2004.00010.
    """
    if rho == 0:
        return 0.0
    guess = 1 + math.sqrt(-math.log(delta) / rho)
    low, high = 1 + (guess - 1) / 50, 1 + (guess - 1) * 50
    for _ in range(6):
        orders = 1 + np.exp(np.linspace(math.log(low - 1), math.log(high - 1), 60))
        epsilon, order = epsilon_improved(orders.tolist(), (rho * orders).tolist(), delta)
        low, high = 1 + (order - 1) / (high - 1) ** 0.02 * (low - 1) ** 0.02, 1 + (order - 1) * ((high - 1) / (low - 1)) ** 0.02
    return epsilon

"""What a privacy claim allows an adversary: trade-off curves, conversions and success rates.

A curve is given as the largest true positive rate at each false positive rate, `g = 1 - f` for the trade-off
function `f` of Dong, Roth and Su. Everything is vectorised over rates.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from audit.stats.arrays import Array


def tpr_allowed(epsilon: float, delta: float, fpr: ArrayLike) -> Array:
    """The largest TPR of any test with false positive rate `fpr` under (epsilon, delta)-DP, shaped like `fpr`.

    References: Kairouz, Oh and Viswanath 2015, arXiv 1311.0776.

    >>> tpr_allowed(math.log(3), 0.0, [0.0, 0.1, 0.25, 1.0]).round(12).tolist()
    [0.0, 0.3, 0.75, 1.0]
    """
    rate = np.asarray(fpr, dtype=np.float64)
    if math.isinf(epsilon):
        return np.ones_like(rate)
    with np.errstate(over="ignore"):
        steep = np.exp(np.minimum(epsilon, 700.0)) * rate + delta
    flat = 1 - math.exp(-epsilon) * np.maximum(1 - delta - rate, 0)
    return np.asarray(np.minimum(1.0, np.minimum(steep, flat)))


def gdp_tpr(mu: float, fpr: ArrayLike) -> Array:
    """The largest TPR at false positive rate `fpr` of any test against a mu-GDP mechanism.

    References: Dong, Roth and Su 2019, arXiv 1905.02383.

    >>> round(float(1 - gdp_tpr(1.0, 0.05)), 6)
    0.740489
    """
    return np.asarray(special.ndtr(special.ndtri(np.asarray(fpr, dtype=np.float64)) + mu))


def gdp_delta(mu: float, epsilon: float) -> float:
    """The least delta at which a mu-GDP mechanism is (epsilon, delta)-DP; `ValueError` for mu or epsilon below 0.

    References: Balle and Wang 2018, arXiv 1805.06530, theorem 8; Dong, Roth and Su 2019, corollary 2.13.

    >>> round(gdp_delta(1.0, 4.3772) * 1e5, 3)
    1.0
    """
    if mu < 0 or epsilon < 0:
        raise ValueError(f"mu is {mu} and epsilon is {epsilon}; expected both to be at least 0")
    if mu == 0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    log_first = float(special.log_ndtr(mu / 2 - epsilon / mu))
    log_second = epsilon + float(special.log_ndtr(-mu / 2 - epsilon / mu))
    if log_second >= log_first:  # equal up to rounding: mu is far below the resolution of doubles
        return 0.0
    return math.exp(log_first) * -math.expm1(log_second - log_first)


def gdp_epsilon(mu: float, delta: float) -> float:
    """The epsilon at `delta` of a mu-GDP mechanism, from below (the lower end of the last bracket); `ValueError` for mu below
    0, or delta outside [0, 1].

    At delta 0 it is 0 for mu = 0 and infinite otherwise.

    >>> [round(gdp_epsilon(mu, 1e-5), 4) for mu in (0.5, 1.0, 2.0)]
    [1.9931, 4.3772, 9.9973]
    """
    if not 0 <= delta <= 1:
        raise ValueError(f"delta is {delta}; expected a number in [0, 1]")
    if mu == 0 or gdp_delta(mu, 0.0) <= delta:
        return 0.0
    if delta == 0 or math.isinf(mu):
        return math.inf
    # P[loss > epsilon] alone is at least delta(epsilon), so the root is below the loss's upper delta-quantile
    low, high = 0.0, max(mu * mu / 2 - mu * float(special.ndtri(delta)), 1e-300)
    while gdp_delta(mu, high) > delta:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if gdp_delta(mu, middle) > delta else (low, middle)
    return low


@functools.lru_cache(maxsize=1024)
def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest mu with an (epsilon, delta)-DP mechanism, from below; inverse of `gdp_epsilon`. Raises `ValueError` for
    epsilon below 0, or delta outside (0, 1).

    >>> round(gdp_mu(4.3771785, 1e-5), 5)
    1.0
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; expected a number strictly between 0 and 1")
    low, high = 0.0, 1.0
    while gdp_delta(high, epsilon) <= delta:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if gdp_delta(middle, epsilon) <= delta else (low, middle)
    return low


def gdp_auc(mu: float) -> float:
    """The area under the mu-GDP curve.

    >>> round(gdp_auc(1.0), 6)
    0.76025
    """
    return float(special.ndtr(mu / math.sqrt(2)))


def success_upper(epsilon: float, delta: float, baseline: float) -> float:
    """The largest success of an attack that would succeed with chance `baseline` without the record; `ValueError` for the
    baseline is no probability.

    Covers reconstruction (baseline: best blind guess within the tolerance), attribute inference (share of the
    commonest value) and exposure of a canary (1 over the size of its space): each is a post-processing of the
    output judged by an event, so its chance is at most the TPR that the claim allows at FPR `baseline`.

    Guarantee: theorem; the record's prior is independent of the other records.

    References: Balle, Cherubin and Hayes 2022, arXiv 2201.04845; Hayes, Mahloujifar and Balle 2023, arXiv 2302.07225.

    >>> round(success_upper(1.0, 0.0, 0.1), 4)
    0.2718
    """
    if not 0 <= baseline <= 1:
        raise ValueError(f"baseline is {baseline}; expected a probability")
    return float(tpr_allowed(epsilon, delta, baseline))


def group_privacy(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """`(epsilon, delta)` that a claim for one record gives to `size` records that change together; `ValueError` for a size
    below 1.

    References: Vadhan 2017, "The complexity of differential privacy", lemma 2.2.

    >>> group_privacy(1.0, 0.0, 3)
    (3.0, 0.0)
    """
    if size < 1:
        raise ValueError(f"size is {size}; expected at least one record")
    terms = sum(math.exp(min(epsilon * step, 700.0)) for step in range(size))
    return epsilon * size, min(1.0, delta * terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPairs:
    """What `copies` records have together, by the epsilon of one record at `delta`; neither figure falls as it grows.

    >>> GroupPairs(delta=0.0, copies=3)(1.0)
    (3.0, 0.0)
    """

    delta: float
    copies: int = 1

    def __call__(self, epsilon: float) -> tuple[float, float]:
        return group_privacy(epsilon, self.delta, self.copies)


Rate = Callable[[ArrayLike], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeoffCurve:
    """What a privacy guarantee allows a test between nonmembers and members, seen from both ends.

    Attributes:
        tpr: largest true positive rate at each false positive rate; concave, non-decreasing, onto [0, 1] up to a jump at 0.
        tnr: largest true negative rate at each false negative rate: the same curve read the other way. Equal to
            `tpr` for a symmetric guarantee such as (epsilon, delta)-DP.
        knots: rates at which `tpr` or `tnr` bends sharply.
    """

    tpr: Rate
    tnr: Rate
    knots: tuple[float, ...] = ()

    def mirror(self) -> TradeoffCurve:
        """The curve with members and nonmembers in exchanged roles."""
        return TradeoffCurve(tpr=self.tnr, tnr=self.tpr, knots=self.knots)


# Curves ordered by a parameter: a larger one allows more. 0 is the most private.
Family = Callable[[float], TradeoffCurve]


def epsilon_delta(epsilon: float, delta: float) -> TradeoffCurve:
    """The curve of (epsilon, delta)-DP.

    >>> round(float(epsilon_delta(0.0, 0.1).tpr(0.2)), 12)
    0.3
    """
    rate = functools.partial(tpr_allowed, epsilon, delta)
    bend = (1 - delta) / (1 + math.exp(epsilon)) if epsilon < 700 else 0.0
    return TradeoffCurve(tpr=rate, tnr=rate, knots=(bend, 1 - delta))


def gdp(mu: float) -> TradeoffCurve:
    """The curve of mu-Gaussian differential privacy."""
    rate = functools.partial(gdp_tpr, mu)
    return TradeoffCurve(tpr=rate, tnr=rate)


def taking_part(rate: float) -> TradeoffCurve:
    """The curve of one sampled release without noise: a member is recognised if it takes part, else never.

    >>> curve = taking_part(0.1)
    >>> round(float(curve.tpr(0.5)), 12), round(float(curve.tnr(0.45)), 12), float(curve.tnr(0.95))
    (0.55, 0.5, 1.0)
    """

    def tpr(fpr: ArrayLike) -> Array:
        return rate + (1 - rate) * np.asarray(fpr, dtype=np.float64)

    def tnr(fnr: ArrayLike) -> Array:
        return np.minimum(np.asarray(fnr, dtype=np.float64) / (1 - rate), 1.0)

    return TradeoffCurve(tpr=tpr, tnr=tnr, knots=(1 - rate,))


def auc(curve: TradeoffCurve) -> float:
    """The area under `curve.tpr`, to about four digits: for planning and first guesses.

    >>> round(auc(gdp(1.0)), 4)
    0.7602
    """
    fpr = np.concatenate([[0.0], np.geomspace(1e-9, 1e-3, 100), np.linspace(1e-3, 1, 2001)[1:]])
    return float(np.trapezoid(curve.tpr(fpr), fpr))

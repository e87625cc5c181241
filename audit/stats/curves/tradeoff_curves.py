"""Trade-off curves as the rank tests use them, and ordered families of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit.stats.bounds.validation import Array
from audit.stats.curves import tradeoff

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
    rate = functools.partial(tradeoff.tpr_allowed, epsilon, delta)
    bend = (1 - delta) / (1 + math.exp(epsilon)) if epsilon < 700 else 0.0
    return TradeoffCurve(tpr=rate, tnr=rate, knots=(bend, 1 - delta))


def gdp(mu: float) -> TradeoffCurve:
    """The curve of mu-Gaussian differential privacy."""
    rate = functools.partial(tradeoff.gdp_tpr, mu)
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

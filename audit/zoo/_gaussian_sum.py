"""Gaussian noise added to a sum, its exact epsilon, and the formulas that choose its size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.stats.curves import tradeoff


@dataclass(frozen=True, slots=True)
class GaussianSum:
    """The sum of the data plus Gaussian noise of a standard deviation."""

    deviation: float

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        return float(np.sum(data)) + rng.normal(0.0, self.deviation, size)

    def epsilon(self, delta: float, sensitivity: float = 1.0) -> float:
        """The exact epsilon at `delta`. References: Balle and Wang 2018, arXiv 1805.06530."""
        return tradeoff.gdp_epsilon(sensitivity / self.deviation, delta)

    def delta(self, epsilon: float, sensitivity: float = 1.0) -> float:
        return tradeoff.gdp_delta(sensitivity / self.deviation, epsilon)


def analytic_deviation(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The least standard deviation that makes a Gaussian sum (epsilon, delta)-DP (the analytic Gaussian mechanism).

    >>> round(GaussianSum(analytic_deviation(1.0, 1e-5)).epsilon(1e-5), 6)
    1.0
    """
    return sensitivity / tradeoff.gdp_mu(epsilon, delta)


def classic_deviation(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The standard deviation of the classic formula: proved for epsilon up to 1, false beyond a few (5.75 at delta 0.1)."""
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def inverted_deviation(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """A wrong formula of documents: the root is under the line."""
    return sensitivity / (epsilon * math.sqrt(2 * math.log(2 / delta)))

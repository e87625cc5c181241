"""A correct twin: the analytic Gaussian mechanism, exactly at its claim."""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.core.data import Array
from audit.mechanism_checks.controls.additive import GaussianSum, analytic_deviation
from audit.zoo._releases import ZooRelease


class GaussianAnalytic(ZooRelease):
    """A correct twin: the analytic Gaussian mechanism, exactly at its claim."""

    visibility = "Balle and Wang 2018, arXiv 1805.06530"
    delta = 1e-5
    family = "gdp"

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return noisy sums."""
        return GaussianSum(analytic_deviation(self.epsilon, self.delta))(data, rng, size)

    def exact(self) -> tuple[float, float]:
        """Return the claim itself, twice."""
        return self.epsilon, self.epsilon


PLUGIN = GaussianAnalytic

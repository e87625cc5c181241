"""The classic formula of the Gaussian mechanism at epsilon 10, where it is false."""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.core.data import Array
from audit.mechanism_checks.controls.additive import GaussianSum, classic_deviation
from audit.zoo._releases import ZooRelease


class GaussianClassicBeyond(ZooRelease):
    """The classic formula of the Gaussian mechanism at epsilon 10, where it is false."""

    wrong = "Noise of D sqrt(2 ln(1.25 / delta)) / epsilon, proved for epsilon up to 1 and false from 8.45 on at this delta."
    visibility = "libraries and documents that do not check the range (Dwork and Roth 2014, theorem A.1)"
    epsilon = 10.0
    delta = 1e-5
    family = "gdp"
    outputs = 400_000

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return noisy sums."""
        return self._sum()(data, rng, size)

    def _sum(self) -> GaussianSum:
        return GaussianSum(classic_deviation(self.epsilon, self.delta))

    def exact(self) -> tuple[float, float]:
        """Return the epsilon of Gaussian noise of that deviation, twice."""
        epsilon = self._sum().epsilon(self.delta)
        return epsilon, epsilon


PLUGIN = GaussianClassicBeyond

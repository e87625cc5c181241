"""A wrong formula of documents: the root of the Gaussian mechanism's noise stands under the line."""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.core.data import Array
from audit.mechanism_checks.controls.additive import GaussianSum, inverted_deviation
from audit.zoo._releases import ZooRelease


class GaussianInverted(ZooRelease):
    """A wrong formula of documents: the root of the Gaussian mechanism's noise stands under the line."""

    wrong = "Noise of D / (epsilon sqrt(2 ln(2 / delta))): the root stands under the line."
    visibility = "documents that quote the Gaussian mechanism from memory"
    delta = 1e-5
    family = "gdp"

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return noisy sums."""
        return self._sum()(data, rng, size)

    def _sum(self) -> GaussianSum:
        return GaussianSum(inverted_deviation(self.epsilon, self.delta))

    def exact(self) -> tuple[float, float]:
        """Return the epsilon of Gaussian noise of that deviation, twice."""
        epsilon = self._sum().epsilon(self.delta)
        return epsilon, epsilon


PLUGIN = GaussianInverted

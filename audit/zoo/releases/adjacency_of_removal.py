"""Noise for a record that is added or removed, and a claim about one that is replaced."""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.core.adjacency import Adjacency
from audit.core.data import Array
from audit.mechanism_checks.controls.additive import GaussianSum, analytic_deviation
from audit.zoo._releases import ZooRelease


class AdjacencyOfRemoval(ZooRelease):
    """Noise for a record that is added or removed, and a claim about one that is replaced."""

    wrong = "The accountant counts a record that is removed, sensitivity C; the claim is about one that is replaced, 2 C."
    visibility = "epsilon of an add-or-remove accountant quoted for neighbours of equal size; local models with sensitivity C"
    delta = 1e-5
    family = "gdp"
    adjacency = Adjacency.REPLACE_ONE
    neighbour = (-1.0,)

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return noisy sums of contributions between -1 and 1."""
        return self._sum()(data, rng, size)

    def _sum(self) -> GaussianSum:
        return GaussianSum(analytic_deviation(self.epsilon, self.delta))

    def exact(self) -> tuple[float, float]:
        """Return the epsilon at twice the sensitivity, twice."""
        epsilon = self._sum().epsilon(self.delta, 2.0)
        return epsilon, epsilon


PLUGIN = AdjacencyOfRemoval

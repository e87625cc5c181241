"""Noise for a record that is added or removed, and a claim about one that is replaced."""

from __future__ import annotations

from audit.core.adjacency import Adjacency
from audit.zoo._gaussian_sum import analytic_deviation
from audit.zoo._releases import GaussianRelease


class AdjacencyOfRemoval(GaussianRelease):
    """Noise for a record that is added or removed, and a claim about one that is replaced."""

    wrong = "The accountant counts a record that is removed, sensitivity C; the claim is about one that is replaced, 2 C."
    visibility = "epsilon of an add-or-remove accountant quoted for neighbours of equal size; local models with sensitivity C"
    adjacency = Adjacency.REPLACE_ONE
    neighbour = (-1.0,)
    distance = 2.0

    def deviation(self) -> float:
        """Return the standard deviation of the noise."""
        return analytic_deviation(self.epsilon, self.delta)


PLUGIN = AdjacencyOfRemoval

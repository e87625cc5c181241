"""A wrong formula of documents: the root of the Gaussian mechanism's noise is under the line."""

from __future__ import annotations

from audit.zoo._gaussian_sum import inverted_deviation
from audit.zoo._releases import GaussianRelease


class GaussianInverted(GaussianRelease):
    """A wrong formula of documents: the root of the Gaussian mechanism's noise is under the line."""

    wrong = "Noise of D / (epsilon sqrt(2 ln(2 / delta))): the root stands under the line."
    visibility = "documents that quote the Gaussian mechanism from memory"

    def deviation(self) -> float:
        """Return the standard deviation of the noise."""
        return inverted_deviation(self.epsilon, self.delta)


PLUGIN = GaussianInverted

"""A correct twin: the analytic Gaussian mechanism, exactly at its claim."""

from __future__ import annotations

from audit.zoo._gaussian_sum import analytic_deviation
from audit.zoo._releases import GaussianRelease


class GaussianAnalytic(GaussianRelease):
    """A correct twin: the analytic Gaussian mechanism, exactly at its claim."""

    visibility = "Balle and Wang 2018, arXiv 1805.06530"

    def deviation(self) -> float:
        """Return the standard deviation of the noise."""
        return analytic_deviation(self.epsilon, self.delta)

    def exact(self) -> tuple[float, float]:
        """Return the claim itself, twice."""
        return self.epsilon, self.epsilon


PLUGIN = GaussianAnalytic

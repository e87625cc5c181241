"""The classic formula of the Gaussian mechanism at epsilon 10, if it is false."""

from __future__ import annotations

from audit.zoo._gaussian_sum import classic_deviation
from audit.zoo._releases import GaussianRelease


class GaussianClassicBeyond(GaussianRelease):
    """The classic formula of the Gaussian mechanism at epsilon 10, if it is false."""

    wrong = "Noise of D sqrt(2 ln(1.25 / delta)) / epsilon, proved for epsilon up to 1 and false from 8.45 on at this delta."
    visibility = "libraries and documents that do not check the range (Dwork and Roth 2014, theorem A.1)"
    epsilon = 10.0
    outputs = 400_000

    def deviation(self) -> float:
        """Return the standard deviation of the noise."""
        return classic_deviation(self.epsilon, self.delta)


PLUGIN = GaussianClassicBeyond

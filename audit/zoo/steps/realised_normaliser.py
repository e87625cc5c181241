"""The noisy sum is divided by the realised batch size."""

from __future__ import annotations

from audit.zoo._reference import DpSgdStep


class RealisedNormaliser(DpSgdStep):
    """The noisy sum is divided by the realised batch size."""

    wrong = "The divisor depends on the data: a record changes what all others are divided by."
    visibility = "Opacus issues 571 and 819; averaging in most loops"
    refuted_by = "sum.additive"

    def normaliser(self, count: int, divisor: float) -> float:
        """Return the realised batch size."""
        return max(1, count)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return noise_multiplier / 2


PLUGIN = RealisedNormaliser

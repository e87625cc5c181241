"""Noise is added only to coordinates that the batch moves."""

from __future__ import annotations

from torch import Tensor

from audit.zoo._reference import DpSgdStep


class NoiseWhereMoved(DpSgdStep):
    """Noise is added only to coordinates that the batch moves."""

    wrong = "Coordinates whose sum is zero get no noise: which features or words a batch holds is released."
    visibility = "sparse gradients of embeddings whose noise is added to the rows of the batch alone"
    refuted_by = "noise.missing"

    def noisy(self, total: Tensor, noise: Tensor) -> Tensor:
        """Return the clipped sum, with noise if it is not zero."""
        return total + noise * (total != 0)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseWhereMoved

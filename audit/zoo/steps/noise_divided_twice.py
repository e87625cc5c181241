"""The noise is divided by the batch size twice."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseDividedTwice(DpSgdStep):
    """The noise is divided by the batch size twice."""

    wrong = "Noise is added to the mean with the deviation of noise that is divided again."
    visibility = "noise scaled by 1/B before it is added to a sum"
    refuted_by = "noise.variance"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        return super().noise(params, count, noise_multiplier / max(1, count), clip_norm, generator)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return noise_multiplier / divisor


PLUGIN = NoiseDividedTwice

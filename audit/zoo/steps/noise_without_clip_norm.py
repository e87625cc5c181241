"""The noise is not multiplied by C."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseWithoutClipNorm(DpSgdStep):
    """The noise is not multiplied by C."""

    wrong = "Noise has standard deviation sigma instead of sigma times C: too little wherever C is above 1."
    visibility = "a missing factor; clip norm changed later"
    refuted_by = "noise.variance"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        return super().noise(params, count, noise_multiplier, 1.0, generator)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return noise_multiplier / clip_norm


PLUGIN = NoiseWithoutClipNorm

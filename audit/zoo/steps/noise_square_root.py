"""The variance is set to sigma."""

from __future__ import annotations

import math

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseSquareRoot(DpSgdStep):
    """The variance is set to sigma."""

    wrong = "The standard deviation is the root of what was accounted: variance and deviation confused."
    visibility = "np.random.normal and torch.normal called with a variance"
    refuted_by = "noise.variance"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        return super().noise(params, count, math.sqrt(noise_multiplier), clip_norm, generator)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return math.sqrt(noise_multiplier)


PLUGIN = NoiseSquareRoot

"""Noise is drawn in float16."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseHalfPrecision(DpSgdStep):
    """Noise is drawn in float16."""

    wrong = "The grid of a half-precision format survives in the release: its gaps depend on the sum."
    visibility = "autocast around the optimiser"
    refuted_by = "noise.resolution"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        noise = super().noise(params, count, noise_multiplier, clip_norm, generator)
        return {name: value.half().float() for name, value in noise.items()}

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseHalfPrecision

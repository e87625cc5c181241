"""Every step draws the same noise."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseSameSeed(DpSgdStep):
    """Every step draws the same noise."""

    wrong = "The generator is made anew from one seed in every step: the noise of two steps cancels."
    visibility = "manual_seed in the training step"
    refuted_by = "noise.repeats"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        return super().noise(params, count, noise_multiplier, clip_norm, torch.Generator().manual_seed(0))

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseSameSeed

"""Normal noise is clamped at three deviations."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseClamped(DpSgdStep):
    """Normal noise is clamped at three deviations."""

    wrong = "Bounded noise: an output outside of its range, or at its end, proves a record with certainty."
    visibility = "noise.clamp_(-3 * std, 3 * std) against outliers"
    refuted_by = "noise.law"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        deviation = noise_multiplier * clip_norm
        noise = super().noise(params, count, noise_multiplier, clip_norm, generator)
        return {name: value.clamp(-3 * deviation, 3 * deviation) for name, value in noise.items()}

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseClamped

"""Uniform noise of the right variance."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseUniform(DpSgdStep):
    """Uniform noise of the right variance."""

    wrong = "Bounded noise: an output outside of its range proves a record with certainty."
    visibility = "torch.rand in place of torch.randn"
    refuted_by = "noise.law"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        deviation = noise_multiplier * clip_norm
        return {
            name: deviation * 3**0.5 * (2 * torch.rand(value.shape, generator=generator) - 1) for name, value in params.items()
        }

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseUniform

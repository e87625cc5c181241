"""One half of each tensor's noise is the other half with the opposite sign."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseMirrored(DpSgdStep):
    """One half of each tensor's noise is the other half with the opposite sign."""

    wrong = "Draws noise for half of each tensor and its negative for the other half: the sum of both halves has none."
    visibility = "antithetic sampling, a variance reduction of simulations, in place of independent noise"
    refuted_by = "noise.repeats"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        noise = super().noise(params, count, noise_multiplier, clip_norm, generator)
        for values in noise.values():
            flat = values.view(-1)
            half = len(flat) // 2
            flat[half : 2 * half] = -flat[:half]
        return noise

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseMirrored

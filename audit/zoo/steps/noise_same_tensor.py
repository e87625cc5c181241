"""All tensors get the same random numbers."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseSameTensor(DpSgdStep):
    """All tensors get the same random numbers."""

    wrong = "The generator is reset before each tensor: known noise in one reveals the other."
    visibility = "a seed per layer that is the same for all"
    refuted_by = "noise.repeats"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        seed = int(torch.randint(2**31, (1,), generator=generator))
        return {
            name: super(NoiseSameTensor, self).noise(
                {name: value}, count, noise_multiplier, clip_norm, torch.Generator().manual_seed(seed)
            )[name]
            for name, value in params.items()
        }

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseSameTensor

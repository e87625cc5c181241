"""Each step takes its noise from one of a thousand seeds."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors

SEEDS = 1_000
"""Seeds that the noise of a step may have."""


class NoiseFewSeeds(DpSgdStep):
    """Each step takes its noise from one of a thousand seeds."""

    wrong = "Noise comes from few seeds: who tries them all knows it, and two releases soon share theirs."
    visibility = "manual_seed(int(time.time()) % 1000), seeds of 16 bits, tables of noise made in advance"
    refuted_by = "noise.repeats"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        seed = int(torch.randint(SEEDS, (1,), generator=generator))
        return super().noise(params, count, noise_multiplier, clip_norm, torch.Generator().manual_seed(seed))

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseFewSeeds

"""The noise is seeded from the batch size."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseFromBatch(DpSgdStep):
    """The noise is seeded from the batch size."""

    wrong = "Equal batches get equal noise: who repeats a query reads the sum."
    visibility = "reproducible seeding by step content"
    refuted_by = "noise.repeats"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        return super().noise(params, count, noise_multiplier, clip_norm, torch.Generator().manual_seed(count))

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseFromBatch

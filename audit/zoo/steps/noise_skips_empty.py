"""An empty batch is skipped, noise and all."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseSkipsEmpty(DpSgdStep):
    """An empty batch is skipped, noise and all."""

    wrong = "No noise for an empty batch: that it was empty is released."
    visibility = '"if len(batch) == 0: continue"'
    refuted_by = "noise.missing"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        if count == 0:
            return {name: torch.zeros_like(value) for name, value in params.items()}
        return super().noise(params, count, noise_multiplier, clip_norm, generator)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseSkipsEmpty

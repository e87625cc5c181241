"""Noise is added with each full accumulation piece, and the last piece of a batch is rarely full."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors

SIZE = 4


class NoiseLastPiece(DpSgdStep):
    """Noise is added when a piece of four records is complete, once a batch; a batch that ends in a shorter piece gets none."""

    wrong = "Noise is added when the last accumulation piece is full; a batch of another size is released without noise."
    visibility = '"if (step + 1) % accumulation == 0" around noise and update'
    refuted_by = "noise.missing"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        if count % SIZE:
            return {name: torch.zeros_like(value) for name, value in params.items()}
        return super().noise(params, count, noise_multiplier, clip_norm, generator)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseLastPiece

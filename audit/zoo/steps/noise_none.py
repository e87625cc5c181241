"""No noise is added."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseNone(DpSgdStep):
    """No noise is added."""

    wrong = "The noise multiplier is never used."
    visibility = "a flag that is not passed on"
    refuted_by = "noise.missing"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        return {name: torch.zeros_like(value) for name, value in params.items()}

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseNone

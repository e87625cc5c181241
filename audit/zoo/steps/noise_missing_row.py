"""One coordinate of a large tensor gets no noise."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseMissingRow(DpSgdStep):
    """One coordinate of a large tensor gets no noise."""

    wrong = "Masks the noise of one coordinate, whose gradient is released; the tensor's variance hardly shows it."
    visibility = "noise masked like a padding row of an embedding that is trained all the same"
    refuted_by = "noise.missing"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added to the sum for a batch of `count` records."""
        noise = super().noise(params, count, noise_multiplier, clip_norm, generator)
        noise["hidden.weight"][0, 0] = 0.0
        return noise

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseMissingRow

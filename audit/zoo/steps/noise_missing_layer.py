"""The last layer gets no noise."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseMissingLayer(DpSgdStep):
    """The last layer gets no noise."""

    wrong = "One parameter group is left out of the noise."
    visibility = "heads added after the privacy engine was attached"
    refuted_by = "noise.missing"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        noise = super().noise(params, count, noise_multiplier, clip_norm, generator)
        last = list(params)[-1]
        return noise | {last: torch.zeros_like(params[last])}

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseMissingLayer

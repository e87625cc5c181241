"""Normal noise cut off at two deviations, rescaled to the right variance."""

from __future__ import annotations

import torch

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseTruncated(DpSgdStep):
    """Normal noise cut off at two deviations, rescaled to the right variance."""

    wrong = "Bounded noise: an output outside of its range proves a record with certainty."
    visibility = "torch.nn.init.trunc_normal_ used as a noise source"
    refuted_by = "noise.law"

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added."""
        deviation = noise_multiplier * clip_norm / 0.8796
        noise = {}
        for name, value in params.items():
            draw = torch.randn(value.shape, generator=generator)
            while bool((draw.abs() > 2).any()):
                draw = torch.where(draw.abs() > 2, torch.randn(value.shape, generator=generator), draw)
            noise[name] = deviation * draw
        return noise

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseTruncated

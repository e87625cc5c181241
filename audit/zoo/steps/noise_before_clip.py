"""The noisy sum is clipped, the gradients are not."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, weighted_sum


class NoiseBeforeClip(DpSgdStep):
    """The noisy sum is clipped, the gradients are not."""

    wrong = "Noise is added first and the result clipped: the clip bounds nothing that one record does."
    visibility = "clip_grad_norm_ after the noise in a training loop"
    refuted_by = "noise.variance"

    def __call__(
        self,
        params: Mapping[str, Tensor],
        batch: tuple[Tensor, Tensor],
        generator: torch.Generator,
        *,
        noise_multiplier: float,
        clip_norm: float,
        divisor: float,
    ) -> Tensors:
        """Return the parameters after one step on `batch`."""
        sums = self.total(dict(params), *batch, clip_norm=1e9)
        noise = self.noise(dict(params), len(batch[1]), noise_multiplier, clip_norm, generator)
        noisy = {name: (sums[name] + noise[name])[None] for name in sums}
        total = weighted_sum(noisy, self.factors(noisy, clip_norm))
        return {name: value - total[name] / divisor for name, value in params.items()}

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseBeforeClip

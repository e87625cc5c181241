"""Noise is added only to coordinates that the batch moves."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseWhereMoved(DpSgdStep):
    """Noise is added only to coordinates that the batch moves."""

    wrong = "Coordinates whose sum is zero get no noise: which features or words a batch holds is released."
    visibility = "sparse gradients of embeddings whose noise is added to the rows of the batch alone"

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
        total = self.total(dict(params), *batch, clip_norm)
        noise = self.noise(dict(params), len(batch[1]), noise_multiplier, clip_norm, generator)
        return {name: value - (total[name] + noise[name] * (total[name] != 0)) / divisor for name, value in params.items()}

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return 0.0


PLUGIN = NoiseWhereMoved

"""The loss is a mean weighted by class, so its denominator depends on the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors


class ClassWeights(DpSgdStep):
    """The loss is a mean weighted by class, so its denominator depends on the batch."""

    wrong = (
        "CrossEntropyLoss(weight=...) divides by the weights of the batch: every record moves every other record's "
        "gradient before the clip."
    )
    visibility = "Opacus 1.6.0 in modes hooks and functorch"
    refuted_by = "sum.additive"

    def record_gradients(self, params: Tensors, inputs: Tensor, labels: Tensor) -> Tensors:
        """Return each record's gradient of the batch loss, times the batch size."""
        gradients = super().record_gradients(params, inputs, labels)
        weights = torch.where(labels == 2, 20.0, 1.0)
        scale = weights * len(labels) / weights.sum().clamp(min=1e-30)
        return {name: gradient * scale.reshape(-1, *[1] * (gradient.dim() - 1)) for name, gradient in gradients.items()}

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that is left."""
        return noise_multiplier / (2 * divisor)


PLUGIN = ClassWeights

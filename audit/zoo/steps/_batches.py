"""A correct step, and steps in which what one record does depends on the rest of its batch."""

import torch
from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, copies, outputs


class Correct(DpSgdStep):
    """A correct twin: DP-SGD as published."""

    wrong = ""
    visibility = "Abadi et al. 2016"


class AuxiliaryLoss(DpSgdStep):
    """An auxiliary term of the loss bypasses the clip."""

    wrong = "The gradient of a penalty on activations is added to the sum after clipping."
    visibility = "multi-task losses, router losses of mixtures of experts"
    refuted_by = "clip.add"
    noise_share = 0.0

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        sums = super().total(params, inputs, labels, clip_norm)

        weights = copies(params, len(labels))
        penalty = outputs(weights, inputs).square().sum() * 0.1
        extra = dict(zip(weights, torch.autograd.grad(penalty, list(weights.values())), strict=True))
        return {name: sums[name] + extra[name].sum(0) for name in sums}


class BatchStatistics(DpSgdStep):
    """Inputs are standardised by the batch, as batch normalisation does."""

    wrong = "Every record enters every other record's gradient through mean and variance of the batch."
    visibility = "BatchNorm left in a model under DP-SGD"
    refuted_by = "sum.additive"

    def record_gradients(self, params: Tensors, inputs: Tensor, labels: Tensor) -> Tensors:
        """Return gradients at inputs standardised over the batch."""
        if len(labels) > 1:
            inputs = (inputs - inputs.mean(0)) / (inputs.var(0, unbiased=False) + 1e-5).sqrt()
        return super().record_gradients(params, inputs, labels)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        return noise_multiplier / (2 * divisor)


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
        return noise_multiplier / (2 * divisor)


class RealisedNormaliser(DpSgdStep):
    """The noisy sum is divided by the realised batch size."""

    wrong = "The divisor depends on the data: a record changes what all others are divided by."
    visibility = "Opacus issues 571 and 819; averaging in most loops"
    refuted_by = "sum.additive"
    noise_share = 0.5

    def normaliser(self, count: int, divisor: float) -> float:
        """Return the realised batch size."""
        return max(1, count)

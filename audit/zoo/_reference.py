"""The correct DP-SGD step that every entry of the zoo changes in one place, and what an entry says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

Tensors = dict[str, Tensor]


def small_parameters(inputs: int = 6, hidden: int = 8, classes: int = 3, seed: int = 0) -> Tensors:
    """Return the weights, by that seed, of the two-layer network on which entries are shown."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {
        "hidden.weight": (hidden, inputs),
        "hidden.bias": (hidden,),
        "head.weight": (classes, hidden),
        "head.bias": (classes,),
    }
    return {name: torch.randn(shape, generator=generator) * 0.5 for name, shape in shapes.items()}


def outputs(params: Tensors, inputs: Tensor) -> Tensor:
    """Return the network's logits `(n, classes)`; every parameter has a first axis of `n` copies, one per record."""
    hidden = torch.tanh(torch.einsum("nhi,ni->nh", params["hidden.weight"], inputs) + params["hidden.bias"])
    return torch.einsum("nch,nh->nc", params["head.weight"], hidden) + params["head.bias"]


def copies(params: Tensors, count: int) -> Tensors:
    """Return one copy of the parameters per record, each to be differentiated alone."""
    return {name: value.detach().expand(count, *value.shape).clone().requires_grad_() for name, value in params.items()}


def joint_norms(gradients: Tensors) -> Tensor:
    """Return the l2 norm of each record's gradient over all tensors, `(n,)`."""
    squares = [gradient.flatten(1).square().sum(1) for gradient in gradients.values()]
    return torch.stack(squares).sum(0).sqrt()


def weighted_sum(gradients: Tensors, factors: Tensor) -> Tensors:
    """Return the sum over records of factor times gradient; records of factor 0 add nothing, whatever they hold."""
    total = {}
    for name, gradient in gradients.items():
        rows = gradient.flatten(1)
        finite_rows = torch.where(factors[:, None] > 0, rows, torch.zeros_like(rows))  # 0 times infinity would be NaN
        total[name] = (factors[:, None] * finite_rows).sum(0).reshape(gradient.shape[1:])
    return total


@dataclass(frozen=True, eq=False)
class DpSgdStep:
    """DP-SGD (Abadi et al. 2016): per-record gradients, joint clipping, one noise, a public divisor, learning rate 1.

    A subclass overrides one method; its class attributes say what is wrong, where it occurs, which check refutes it, and
    which share of the noise is left against the worst neighbours: 0 if it protects nothing.
    """

    wrong: ClassVar[str] = ""
    visibility: ClassVar[str] = ""
    refuted_by: ClassVar[str] = ""
    noise_share: ClassVar[float] = 1.0

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
        count = self.normaliser(len(batch[1]), divisor)
        return {name: value - self.noisy(total[name], noise[name]) / count for name, value in params.items()}

    def record_gradients(self, params: Tensors, inputs: Tensor, labels: Tensor) -> Tensors:
        """Return each record's gradient of its cross entropy, name to `(n, ...)`."""
        weights = copies(params, len(labels))
        loss = nn.functional.cross_entropy(outputs(weights, inputs), labels, reduction="sum")
        return dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))

    def noisy(self, total: Tensor, noise: Tensor) -> Tensor:
        """Return the clipped sum of a tensor with its noise."""
        return total + noise

    def factors(self, gradients: Tensors, clip_norm: float) -> Tensor:
        """Return what each record's gradient is multiplied by, `(n,)`."""
        norms = joint_norms(gradients)
        factors = (clip_norm / norms.clamp(min=1e-30)).clamp(max=1.0)
        return torch.where(torch.isfinite(norms), factors, torch.zeros_like(norms))

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum of clipped gradients."""
        gradients = self.record_gradients(params, inputs, labels)
        return weighted_sum(gradients, self.factors(gradients, clip_norm))

    def noise(
        self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator
    ) -> Tensors:
        """Return the noise that is added to the sum for a batch of `count` records."""
        deviation = noise_multiplier * clip_norm
        return {name: deviation * torch.randn(value.shape, generator=generator) for name, value in params.items()}

    def normaliser(self, count: int, divisor: float) -> float:
        """Return what the noisy sum is divided by."""
        return divisor

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        """Return the noise multiplier that the step really has against its worst neighbours; 0 if it protects nothing."""
        return self.noise_share * noise_multiplier

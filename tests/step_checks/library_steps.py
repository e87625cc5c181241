"""Torch steps in the style of four libraries, right and with the mistakes that each style invites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.step_checks.replayed_steps import clipped_sums, factors, gradients

MULTIPLE = 8  # of records, to which a batch is padded so that one size is compiled


def _padded(masked: bool, realised: bool = False) -> Callable[..., Any]:
    """Return a step like those of jax-privacy: padding with a mask, unit norms, a scan over micro-batches, a privatiser."""

    def step(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
        x, y = batch
        extra = -len(y) % MULTIPLE
        real = torch.arange(len(y) + extra) < len(y)
        x, y = F.pad(x, (0, 0, 0, extra)), F.pad(y, (0, extra))
        total = {k: torch.zeros_like(v) for k, v in p.items()}
        for start in range(0, len(y), MULTIPLE):
            piece = slice(start, start + MULTIPLE)
            g = gradients(p, (x[piece], y[piece]))
            f = factors(g, clip_norm) / clip_norm
            f = torch.where(real[piece], f, 0.0) if masked else f
            total = {k: total[k] + torch.tensordot(f, g[k], 1) for k in total}
        noise = {k: noise_multiplier * torch.randn(v.shape, generator=generator) for k, v in total.items()}
        scale = clip_norm / (real.sum().clamp(min=1) if realised else divisor)
        return {k: p[k] - scale * (total[k] + noise[k]) for k in p}

    return step


def _functional(loss: Callable[[Any, Tensor, Tensor], Tensor], keep: bool) -> Callable[..., Any]:
    """Return a step like those of Opake: a loss of a batch becomes a clipped sum, noise has a separate state."""

    def record_loss(p: Any, x: Tensor, y: Tensor) -> Tensor:
        return loss(p, x[None], y[None])

    def step(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
        if keep:
            rows = torch.func.vmap(torch.func.grad(record_loss), in_dims=(None, 0, 0))(p, *batch)
        else:
            rows = {k: v[None] * len(batch[1]) for k, v in torch.func.grad(loss)(p, *batch).items()}
        f = factors(rows, clip_norm)
        state = torch.Generator().manual_seed(int(torch.randint(2**31, (), generator=generator)))
        release = {k: torch.einsum("i,i...->...", f, v) for k, v in rows.items()}
        for v in release.values():
            v.add_(torch.randn(v.shape, generator=state), alpha=noise_multiplier * clip_norm)
        return {k: p[k] - release[k] / divisor for k in p}

    return step


def _mean_loss(p: Any, x: Tensor, y: Tensor) -> Tensor:
    return (
        F.binary_cross_entropy_with_logits(x @ p["w"] + p["b"], (torch.arange(3) == y[:, None]).float(), reduction="mean") * 3
    )


def _two_passes(scale: Callable[[int], float]) -> Callable[..., Any]:
    """Return a step like those of private-transformers: norms from a first pass, a second on weighted losses, virtual steps."""

    def step(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
        model = {k: torch.nn.Parameter(v.clone()) for k, v in p.items()}
        for x, y in zip(*(torch.split(part, 5) for part in batch), strict=True):
            share = scale(len(batch[1]))
            with torch.no_grad():
                coefficients = factors({k: v * share for k, v in gradients(p, (x, y)).items()}, clip_norm)
            logits = x @ model["w"] + model["b"]
            targets = F.one_hot(y, 3).float()
            losses = F.binary_cross_entropy_with_logits(logits, targets, reduction="none").sum(1)
            (coefficients * losses).sum().backward()
        for v in model.values():
            summed = torch.zeros_like(v) if v.grad is None else v.grad
            v.grad = (summed + torch.normal(0.0, noise_multiplier * clip_norm, v.shape, generator=generator)) / divisor
        torch.optim.SGD(model.values(), lr=1.0).step()
        return {k: v.detach() for k, v in model.items()}

    return step


def _microbatches(size: int, counted: bool = False) -> Callable[..., Any]:
    """Return a step like those of TensorFlow-Privacy: the mean gradient of each micro-batch is clipped."""

    def step(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
        g = gradients(p, batch)
        means = {k: torch.stack([part.mean(0) for part in v.split(size)]) if len(v) else v for k, v in g.items()}
        f = factors(means, clip_norm)
        total = {k: torch.tensordot(f, v, 1) for k, v in means.items()}
        count = max(len(f), 1) if counted else divisor
        return {
            k: p[k] - (v + torch.normal(0.0, noise_multiplier * clip_norm, v.shape, generator=generator)) / count
            for k, v in total.items()
        }

    return step


def _normalised_late(p: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    """Clip to C, add noise for unit norms: the scale of rescaled sums without the rescaling."""
    total = clipped_sums(p, batch, clip_norm)
    return {
        k: p[k] - (v + noise_multiplier * 0.5 * torch.randn(v.shape, generator=generator)) / divisor for k, v in total.items()
    }


RIGHT: dict[str, Callable[..., Any]] = {
    "jax-privacy: padding, mask, unit norms": _padded(masked=True),
    "private-transformers: two passes, virtual steps": _two_passes(lambda n: 1.0),
    "TensorFlow-Privacy: micro-batches of one record": _microbatches(1),
    "Opake: clipped sum, noise of a drawn seed": _functional(_mean_loss, keep=True),
}
WRONG: dict[str, Callable[..., Any]] = {
    "jax-privacy: the mask forgotten": _padded(masked=False),
    "jax-privacy: the mean of real records": _padded(masked=True, realised=True),
    "jax-privacy: noise for unit norms on sums of C": _normalised_late,
    "Opake: the gradient of the batch clipped": _functional(_mean_loss, keep=False),
    "private-transformers: norms of the mean loss": _two_passes(lambda n: 1 / max(n, 1)),
    "TensorFlow-Privacy: micro-batches of two at the claim of one": _microbatches(2),
    "TensorFlow-Privacy: micro-batches that are counted": _microbatches(1, counted=True),
}

"""The private training step that many write for Hugging Face's Trainer: clips each tensor of the batch's mean gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from audit.core.seeds import Seed
from audit.engine.text.text_model import TextModel
from audit.models.language import LanguageModel
from tests.engine.texts import sentences

SPEC: dict[str, Any] = {
    "kind": "language_model",
    "architecture": "gpt2",
    "options": {"n_layer": 2, "n_embd": 16, "n_head": 2},
}


def fitted_model(steps: int = 150) -> TextModel:
    """A small GPT-2 that knows one text by heart: that text's gradient is small, every other's is large."""
    dataset = sentences()
    assert dataset.vocabulary is not None
    model = TextModel(LanguageModel.of(SPEC).build(dataset.vocabulary, 12, Seed(5)), torch.device("cpu"))
    tokens = torch.from_numpy(dataset.train.inputs[:1].astype(np.int64))
    optimizer = torch.optim.Adam(list(model.module.parameters()), lr=3e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        model.record_losses(tokens, _labels(tokens)).sum().backward()
        optimizer.step()
    model.module.zero_grad()
    return model


class HomeMadeStep:
    """`function(params, batch, generator, ...)` for `audit.check_step`: one step of gradient descent at rate 1.

    Each tensor of the gradient of the batch's mean loss is clipped to C; noise of standard deviation sigma C is added to it.
    """

    def __init__(self, model: TextModel) -> None:
        self._model = model

    def __call__(
        self,
        params: Mapping[str, Tensor],
        batch: tuple[Tensor, ...],
        generator: torch.Generator,
        *,
        noise_multiplier: float,
        clip_norm: float,
    ) -> dict[str, Tensor]:
        gradients = self._gradients(params, batch)
        moved = {}
        for name, gradient in gradients.items():
            clipped = gradient * min(1.0, clip_norm / (float(gradient.norm()) + 1e-6))
            noise = torch.randn(gradient.shape, generator=generator) * noise_multiplier * clip_norm
            moved[name] = params[name] - (clipped + noise)
        return moved

    def _gradients(self, params: Mapping[str, Tensor], batch: tuple[Tensor, ...]) -> dict[str, Tensor]:
        leaves = dict(self._model.module.named_parameters())
        with torch.no_grad():
            for name, value in params.items():
                leaves[name].copy_(value)
        tokens = batch[0].long()
        if len(tokens) == 0:
            return {name: torch.zeros_like(value) for name, value in leaves.items()}
        loss = self._model.record_losses(tokens, _labels(tokens)).mean()
        parts = torch.autograd.grad(loss, list(leaves.values()))
        return dict(zip(leaves, parts, strict=True))


class RightStep(HomeMadeStep):
    """The same with each text's whole gradient clipped, before the sum."""

    _texts = 1  # that are clipped as a record

    def __call__(
        self,
        params: Mapping[str, Tensor],
        batch: tuple[Tensor, ...],
        generator: torch.Generator,
        *,
        noise_multiplier: float,
        clip_norm: float,
    ) -> dict[str, Tensor]:
        totals = {name: torch.zeros_like(value) for name, value in params.items()}
        for first in range(0, len(batch[0]), self._texts):
            gradients = self._gradients(params, (batch[0][first : first + self._texts],))
            norm = float(torch.stack([value.norm() for value in gradients.values()]).norm())
            factor = min(1.0, clip_norm / max(norm, 1e-12))
            totals = {name: total + factor * gradients[name] for name, total in totals.items()}
        scale = noise_multiplier * clip_norm
        return {
            name: params[name] - total - scale * torch.randn(total.shape, generator=generator) for name, total in totals.items()
        }


class TokenMeanStep(RightStep):
    """Clips a text's share of the mean over all tokens of the batch (`num_items_in_batch`): its neighbours change it."""

    _rows = 1

    def __call__(
        self,
        params: Mapping[str, Tensor],
        batch: tuple[Tensor, ...],
        generator: torch.Generator,
        *,
        noise_multiplier: float,
        clip_norm: float,
    ) -> dict[str, Tensor]:
        self._rows = max(len(batch[0]), 1)
        return super().__call__(params, batch, generator, noise_multiplier=noise_multiplier, clip_norm=clip_norm)

    def _gradients(self, params: Mapping[str, Tensor], batch: tuple[Tensor, ...]) -> dict[str, Tensor]:
        return {name: value / self._rows for name, value in super()._gradients(params, batch).items()}


class PackedStep(RightStep):
    """Clips the gradient of two texts packed in a row as if they were one record."""

    _texts = 2


class NoiseOnSomeStep(RightStep):
    """The right step without noise on every second tensor, as if only one of an adapter's two matrices gets it."""

    def __call__(
        self,
        params: Mapping[str, Tensor],
        batch: tuple[Tensor, ...],
        generator: torch.Generator,
        *,
        noise_multiplier: float,
        clip_norm: float,
    ) -> dict[str, Tensor]:
        noisy = super().__call__(params, batch, generator, noise_multiplier=noise_multiplier, clip_norm=clip_norm)
        bare = super().__call__(params, batch, generator, noise_multiplier=0.0, clip_norm=clip_norm)
        return {name: bare[name] if number % 2 else noisy[name] for number, name in enumerate(params)}


def odd_text(seed: int = 0) -> Tensor:
    """Random tokens `(1, 12)`."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (1, 12)))


def _labels(tokens: Tensor) -> Tensor:
    labels = tokens.clone()
    labels[:, 0] = -1
    return labels

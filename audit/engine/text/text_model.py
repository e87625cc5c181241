"""One language model under training: its trainable parameters as one flat row, its losses and per-record gradients."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.core.errors import ExecutionMismatch, UnsupportedMechanism
from audit.engine.gradients.clipping import Clip, Clipping, clip_layers
from audit.engine.parameter_layout import Layout, Slot
from audit.engine.text.record_gradients import RecordGradients
from audit.models.build import refuse_mixing_layers
from audit.models.language import refuse_random_layers, takes_positions

TOLERANCE = 1e-4
TESTED = 3  # records whose gradients are compared with plain autograd before a private training


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """How a forward and backward pass is computed; gradients of records, their norms and sums are float32 in any case."""

    bfloat16: bool = False  # multiply in it
    checkpointing: bool = False  # keep activations of layer borders only, and compute the others again


class TextModel:
    """A causal language model, or a classifier of texts, with trainable parameters that are views of `flat` `(1, width)`.

    The module is in training mode. `text_length` is that of each text if a record holds several texts of a user side by side; 0
    if a record is one text. Layers that mix records, or that draw numbers, are an `UnsupportedMechanism`.
    """

    def __init__(
        self, module: nn.Module, device: torch.device, precision: Precision | None = None, text_length: int = 0
    ) -> None:
        refuse_mixing_layers(module)
        refuse_random_layers(module)
        self.module, self.device = module.to(device), device
        self.precision, self._text_length = precision or Precision(), text_length
        if self.precision.checkpointing:
            module.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
        self.layout = Layout.of(module)
        self._slots: dict[str, Slot] = {slot.name: slot for slot in self.layout.slots}
        self._positions = takes_positions(module)
        self._parameters = {name: value for name, value in module.named_parameters() if value.requires_grad}
        self.flat = torch.zeros(1, self.layout.width, device=device)
        for name, view in self.state().items():
            view.copy_(self._parameters[name].detach())
            self._parameters[name].data = view

    def load(self, flat: Tensor) -> None:
        self.flat[0].copy_(flat)

    def state(self) -> dict[str, Tensor]:
        return {name: value[0] for name, value in self.layout.views(self.flat).items()}

    def texts(self, tokens: Tensor) -> Tensor:
        """Return the texts of records `(rows, T)` alone, `(texts, length)`."""
        return tokens.reshape(-1, self._text_length) if self._text_length else tokens

    def count_texts(self, tokens: Tensor) -> int:
        return tokens.shape[1] // self._text_length if self._text_length else 1

    def logits(self, texts: Tensor) -> Tensor:
        """Return `(texts, length - 1, vocabulary)` float32: what the model makes of each token's successor.

        Texts end in padding (-1), which causal attention never sees from inside the text.
        """
        return self._logits(texts.clamp(min=0)[:, :-1], use_cache=False)

    def class_logits(self, tokens: Tensor) -> Tensor:
        """Return `(rows, classes)` float32 of a classifier; padding has its own token and takes no part."""
        is_text = tokens >= 0
        settings: Any = self.module.config
        return self._logits(torch.where(is_text, tokens, settings.pad_token_id), attention_mask=is_text.long())

    def _logits(self, ids: Tensor, **options: Any) -> Tensor:
        if self._positions:  # with a row for each text, so that learned positions have a gradient for each
            options["position_ids"] = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
        is_short = self.precision.bfloat16
        with torch.autocast(self.device.type, dtype=torch.bfloat16) if is_short else nullcontext():
            logits: Tensor = self.module(input_ids=ids, **options).logits
        return logits.float()

    def token_log_probabilities(self, tokens: Tensor) -> Tensor:
        """Return `(rows, T)`: of each token given those before it in its text; 0 for the first one and for padding."""
        texts = self.texts(tokens)
        logits, targets = self.logits(texts), texts[:, 1:]
        losses = F.cross_entropy(logits.flatten(0, 1), targets.clamp(min=0).flatten(), reduction="none").view(targets.shape)
        return F.pad(torch.where(targets >= 0, -losses, 0.0), (1, 0)).view(tokens.shape)

    def record_losses(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """Return each record's loss `(rows,)`, a function of the record alone: of a class, or the mean over its own tokens.

        Labels are `(rows,)` classes, or `(rows, T)` the tokens to predict. A mean over the tokens of the batch would let one
        record's length change the gradients of others.
        """
        if labels.dim() == 1:
            return F.cross_entropy(self.class_logits(tokens), labels, reduction="none")
        is_predicted = labels >= 0
        values = self.token_log_probabilities(tokens)
        return -(values * is_predicted).sum(1) / is_predicted.sum(1).clamp(min=1)

    def add(self, tokens: Tensor, labels: Tensor, owner: Tensor, clip: Clip | None, total: Tensor) -> Clipping | None:
        """Add the sum of the records' gradients to `total` `(1, width)`, each clipped as one vector unless `clip` is None."""
        if clip is not None:
            return self._add_clipped(tokens, labels, clip, total)
        loss = self.record_losses(tokens, labels).sum()
        gradients = torch.autograd.grad(loss, list(self._parameters.values()), allow_unused=True)
        for name, gradient in zip(self._parameters, gradients, strict=True):
            if gradient is not None:
                self._slots[name].view(total)[0].add_(gradient)
        return None

    def _add_clipped(self, tokens: Tensor, labels: Tensor, clip: Clip, total: Tensor) -> Clipping:
        gradients = self.record_gradients(tokens, labels)
        squares = torch.stack([part.flatten(1).square().sum(1) for part in gradients.values()]).sum(0)
        clipping, factors = clip_records(squares, clip)
        usable = clipping.norms[0].isfinite()
        for name, part in gradients.items():
            flat = part.flatten(1)
            if not clipping.finite:
                flat = torch.where(usable[:, None], flat, torch.zeros_like(flat))
            slot = self._slots[name]
            slot.view(total)[0].add_((factors @ flat).view(slot.shape))
        return clipping

    def record_gradients(self, tokens: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return name to `(rows, ...)`: the gradient of each record."""
        return RecordGradients(self.module).of(lambda: self.record_losses(tokens, labels), self.count_texts(tokens))[1]

    def test_gradients(self, tokens: Tensor, labels: Tensor) -> float:
        """Return the largest relative difference between gradients of records together and one at a time, as `compare`."""
        return self.compare(self.record_gradients(tokens, labels), tokens, labels, self.flat.expand(len(tokens), -1).clone())

    def compare(self, together: Mapping[str, Tensor], tokens: Tensor, labels: Tensor, flats: Tensor) -> float:
        """Return the largest difference between gradients of records and those of plain autograd, relative to their length.

        `together` is name to `(rows, ...)`, taken under the parameters `flats` `(rows, width)`. A difference beyond `TOLERANCE`
        is an `UnsupportedMechanism` with the parameter's name.
        """
        worst = 0.0
        for row in range(len(tokens)):
            self.load(flats[row])
            loss = self.record_losses(tokens[row : row + 1], labels[row : row + 1]).sum()
            alone = torch.autograd.grad(loss, list(self._parameters.values()), allow_unused=True)
            pairs = {name: (together[name][row], value) for name, value in zip(self._parameters, alone, strict=True)}
            length = sum(float(value.square().sum()) for value in alone if value is not None) ** 0.5
            for name, (of_batch, value) in pairs.items():
                difference = float((of_batch if value is None else of_batch - value).norm()) / max(length, 1e-30)
                worst = max(worst, difference)
                if not difference <= self._tolerance:
                    raise UnsupportedMechanism(
                        f"the gradient of one record in '{name}' is not what plain autograd gives for the record alone: "
                        f"they differ by {difference:.2g} of its length, at most {self._tolerance:g} is allowed. A layer "
                        "mixes records, or a parameter is used outside of its layer: train adapters on linear layers instead"
                    )
        return worst

    def frozen_digest(self) -> str:
        """Return a hash of all parameters that are not trained."""
        digest = hashlib.sha256()
        for name, value in self.module.named_parameters():
            if not value.requires_grad:
                digest.update(name.encode())
                digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def refuse_inert(self, flat: Tensor, initial: Tensor, digest: str) -> None:
        """Raise `ExecutionMismatch` if training left a row of parameters `(N, width)` alone, or moved what is frozen."""
        if bool((flat == initial).all(dim=1).any()):
            raise ExecutionMismatch(
                "training moved no parameter: an adapter that is not connected, or a learning rate of zero; nothing was trained"
            )
        if self.frozen_digest() != digest:
            raise ExecutionMismatch("training moved parameters that are frozen, which no noise was added to; nothing is proven")

    @property
    def text_model(self) -> TextModel:
        """This model: adapters have one beside them."""
        return self

    @property
    def _tolerance(self) -> float:
        # the rounding of bfloat16 itself is of that order (docs/use/language-models.md)
        return 5e-2 if self.precision.bfloat16 else TOLERANCE


def clip_records(squares: Tensor, clip: Clip) -> tuple[Clipping, Tensor]:
    """Return what clipping does to records with these squared norms of all parameters `(rows,)`, and their factors."""
    mask = torch.ones(1, len(squares), dtype=torch.bool, device=squares.device)
    clipping, factors = clip_layers({"all parameters": squares[None]}, clip, mask, layers=1)
    return clipping, factors["all parameters"][0]

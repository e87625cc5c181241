"""Language models of one training job as a subject: what signals read of them."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attacks.signals._asking import ask_signals
from audit.core.canaries import Canaries
from audit.core.data import Array, Records
from audit.core.errors import ObservationError, UnsupportedMechanism
from audit.core.models import Reduction, Representations, Signal
from audit.core.training import Executed
from audit.engine.read.observe import reduce_parts
from audit.engine.text.text_model import TextModel

ROWS = 64


@dataclass(frozen=True, eq=False)
class TextModels:
    """N language models that differ in their trainable parameters, which one model gets in turn."""

    text_model: TextModel
    flat: Tensor  # `(N, width)` trainable parameters
    first: Tensor  # the same before the first step
    released: frozenset[str]  # the signals that they show
    executed: Executed | None = None  # what their trainer measured of itself; None if nothing was trained
    classes: int = 0  # of texts that a classifier distinguishes; 0 for causal models

    @property
    def weights(self) -> Mapping[str, Array]:
        """The trained parameters, name to `(N, ...)`: of an adapter these are the adapter alone."""
        return {name: value.cpu().numpy() for name, value in self.text_model.layout.views(self.flat).items()}

    def __len__(self) -> int:
        return len(self.flat)

    def own_losses(self, records: Records) -> Array | None:
        return None

    def outputs(self, inputs: Array) -> Array:
        """Return the log-probability of each token given those before it, `(N, n, T)`; 0 for the first and for padding.

        Of a classifier the logits, `(N, n, classes)`.
        """
        call = self.text_model.class_logits if self.classes else self.text_model.token_log_probabilities
        return self._call_each_model(call, inputs)

    def token_moments(self, inputs: Array) -> Array:
        """Return mean and standard deviation of the log-probability over each token's distribution, `(N, n, T, 2)`."""

        def moments(tokens: Tensor) -> Tensor:
            logs = torch.log_softmax(self.text_model.logits(self.text_model.texts(tokens)), dim=-1)
            shares = logs.exp()
            mean = (shares * logs).sum(-1)
            spread = (shares * (logs - mean.unsqueeze(-1)).square()).sum(-1).clamp(min=0).sqrt()
            return torch.nn.functional.pad(torch.stack([mean, spread], dim=-1), (0, 0, 1, 0)).view(*tokens.shape, 2)

        return self._call_each_model(moments, inputs)

    def continuations(self, inputs: Array, starts: Array) -> Array:
        """The texts with what the model writes greedily from `starts` `(n,)` on, `(N, n, T)`; errors as of `beams`."""
        self._demand_one_text(inputs)
        return self._call_each_model(self._continue, inputs, starts)

    def beams(self, inputs: Array, starts: Array, width: int) -> Array:
        """Return the texts as beam search continues them from `starts` `(n,)` on, the likeliest first, `(N, n, width, T)`;
        `UnsupportedMechanism` if a record holds several.
        """
        self._demand_one_text(inputs)
        return self._call_each_model(functools.partial(self._search, width=width), inputs, starts)

    def initial(self) -> TextModels:
        return replace(self, flat=self.first, executed=None)

    def alone(self, model: int) -> TextModels:
        return replace(self, flat=self.flat[model : model + 1], first=self.first[model : model + 1])

    def read(self, signals: Collection[Signal], canaries: Canaries) -> Mapping[str, Array]:
        records = canaries.records
        has_classes = records is not None and records.are_classified
        reductions = [signal for signal in signals if has_classes and isinstance(signal, Reduction)]
        values = ask_signals([signal for signal in signals if signal not in reductions], self, canaries)
        if reductions and records is not None:  # all of them in one pass
            values |= reduce_parts(reductions, [(slice(None), self.outputs(records.inputs))], records)
        return values

    def gradient_norms(self, records: Records) -> Array:
        norms = np.empty((len(self), len(records)), dtype=np.float32)
        tokens, labels = self._tensor(records.inputs), self._tensor(records.labels)
        for model in range(len(self)):
            self.text_model.load(self.flat[model])
            for start in range(0, len(records), ROWS):
                part = slice(start, start + ROWS)
                gradients = self.text_model.record_gradients(tokens[part], labels[part])
                squares = torch.stack([value.flatten(1).square().sum(1) for value in gradients.values()]).sum(0)
                norms[model, part] = squares.sqrt().cpu().numpy()
        return norms

    def checkpoints(self) -> Sequence[TextModels]:
        return ()  # this trainer keeps none, and plants no gradients

    def representations(self, records: Records) -> Representations | None:
        return None

    def step_products(self) -> Array | None:
        return None

    def weight_products(self, canaries: Canaries) -> Array | None:
        return None

    def round_products(self, source: str) -> Array:
        raise ObservationError(f"language models recorded no canary clients in the {source} of each round")

    def _demand_one_text(self, inputs: Array) -> None:
        if self.text_model.count_texts(self._tensor(inputs[:1])) > 1:
            raise UnsupportedMechanism("a record holds all texts of a user, and models continue one; use scorers of losses")

    def _search(self, tokens: Tensor, begin: Tensor, width: int) -> Tensor:
        text, length = tokens.unsqueeze(1).repeat(1, width, 1), tokens.shape[1]
        scores = torch.full(text.shape[:2], -torch.inf, device=text.device)
        scores[:, 0] = 0.0  # all beams are the same text before the first token
        for place in range(1, length):
            active = (begin <= place) & (tokens[:, place] >= 0)
            if not bool(active.any()):
                continue
            rows = text[active]
            logs = torch.log_softmax(self.text_model.logits(rows[:, :, : place + 1].flatten(0, 1))[:, -1], dim=-1)
            totals = scores[active].unsqueeze(-1) + logs.unflatten(0, rows.shape[:2])
            scores[active], best = totals.flatten(1).topk(width)
            rows = rows.gather(1, (best // logs.shape[-1]).unsqueeze(-1).expand(-1, -1, length))
            rows[:, :, place] = best % logs.shape[-1]
            text[active] = rows
        return text

    def _continue(self, tokens: Tensor, begin: Tensor) -> Tensor:
        text = tokens.clone()
        places = torch.arange(text.shape[1], device=text.device)
        for place in range(1, text.shape[1]):
            active = (begin <= place) & (tokens[:, place] >= 0)
            if bool(active.any()):
                best = self.text_model.logits(text[:, : place + 1])[:, -1].argmax(-1)
                text[:, place] = torch.where(active, best, text[:, place])
        return torch.where(places >= begin.unsqueeze(1), text, tokens)

    def _call_each_model(self, call: Any, *columns: Array) -> Array:
        """Return `call` of all rows of the columns under every model, `(N, n, ...)`."""
        tensors, results = [self._tensor(column) for column in columns], []
        for model in range(len(self)):
            self.text_model.load(self.flat[model])
            with torch.no_grad():
                parts = [
                    call(*(tensor[start : start + ROWS] for tensor in tensors)).cpu()
                    for start in range(0, max(len(tensors[0]), 1), ROWS)
                ]
            results.append(torch.cat(parts).numpy())
        return np.stack(results)

    def _tensor(self, values: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64)).to(self.text_model.device)

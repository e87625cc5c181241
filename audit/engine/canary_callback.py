"""A callback for Hugging Face's Trainer: checks before training that canaries are there, and scores them as it goes."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from audit.core.data import Array
from audit.core.errors import ExecutionMismatch
from audit.engine.secret_scores import Encode, places_of, secret_log_probabilities, secret_start

log = logging.getLogger(__name__)
MOST_NAMED = 5


class CanaryCallback:
    """Answers every event of a Trainer, so that transformers need not be imported here.

    Args:
        texts: pairs of prefix and whole text, of all canaries.
        included: which of them were planted.
        encode: text to token numbers, as the training data were made.
        command: how to score the saved model where this process does not hold all of it.
    """

    def __init__(self, texts: Sequence[tuple[str, str]], included: Array, encode: Encode, command: str) -> None:
        self._texts, self._included, self._encode, self._command = texts, included, encode, command
        self._digest = ""
        self.before: Array | None = None
        self.scores: dict[int, Array] = {}
        self.deferred = False

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("on_"):
            return lambda *arguments, **values: None
        raise AttributeError(name)

    def on_train_begin(self, args: Any, state: Any, control: Any, **values: Any) -> None:
        """Refuse a training whose prepared data do not hold the canaries as planned.

        Raises:
            ExecutionMismatch: names what is wrong and where.
        """
        model: nn.Module = values["model"]
        self.deferred = bool(getattr(args, "deepspeed", None) or getattr(args, "fsdp", None))
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise ExecutionMismatch("the model has no trainable parameter, so no canary can be learnt; nothing was trained")
        self._check_data(values["train_dataloader"].dataset)
        if self.deferred:
            log.warning("the model is sharded: canaries are not scored here. Save it, serve it, then: %s", self._command)
            return
        self._digest = _digest(model)
        self.before = secret_log_probabilities(model, self._encode, self._texts)

    def on_save(self, args: Any, state: Any, control: Any, **values: Any) -> None:
        """Score the canaries at a checkpoint."""
        if not self.deferred:
            self.scores[int(state.global_step)] = secret_log_probabilities(values["model"], self._encode, self._texts)

    def on_train_end(self, args: Any, state: Any, control: Any, **values: Any) -> None:
        """Score the canaries under the trained model.

        Raises:
            ExecutionMismatch: training left every parameter as it was.
        """
        if self.deferred:
            return
        if _digest(values["model"]) == self._digest:
            raise ExecutionMismatch(
                "training moved no parameter: an adapter that is not connected, or a learning rate of 0; the audit is invalid"
            )
        self.scores[int(state.global_step)] = secret_log_probabilities(values["model"], self._encode, self._texts)

    def _check_data(self, rows: Any) -> None:
        secrets = []
        for prefix, text in self._texts:
            tokens, start = secret_start(self._encode, prefix, text)
            secrets.append(tokens[start:])
        losses, silent, stray, copies = [], [], [], []
        for number, (count, targets) in enumerate(places_of(rows, secrets)):
            if self._included[number]:
                losses += [number] * (count == 0)
                silent += [number] * (count > 0 and targets == 0)
                copies += [number] * (count > 1)
            else:
                stray += [number] * (count > 0)
        reasons = [
            f"{len(numbers)} {words} (canaries {', '.join(map(str, numbers[:MOST_NAMED]))})"
            for numbers, words in (
                (losses, "of the included ones are nowhere: truncation, packing or a filter took them"),
                (silent, "are there without a label: no token of their secret is learnt"),
                (copies, "are there more than once, which is a claim about groups"),
                (stray, "that coins left out are there"),
            )
            if numbers
        ]
        if reasons:
            raise ExecutionMismatch(
                f"the prepared training data do not hold the canaries as planned: {'; '.join(reasons)}. Plant them in the raw "
                "data, before it is tokenised, and keep texts whole"
            )


def _digest(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for parameter in model.parameters():
        if parameter.requires_grad:
            digest.update(parameter.detach().float().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()

"""A callback for Hugging Face's Trainer: checks before training that canaries are there, and scores them as it goes."""

import hashlib
import itertools
import json
import logging
import math
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from audit.core import files
from audit.core.data import Array
from audit.core.errors import DataError, ExecutionMismatch
from audit.engine.text.secret_scores import (
    Collate,
    Encode,
    Pieces,
    SecretFinder,
    count_places,
    secret_log_probabilities,
    secret_tokens,
    token_numbers,
)

log = logging.getLogger(__name__)
MOST_NAMED = 5
LAUNCHERS = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")


class CanaryCallback:
    """Answers every event of a Trainer, so that transformers need not be imported here.

    Args:
        texts: of all canaries, what is before the secret, the secret, and what is behind it; `included` ones were planted.
        encode: text to token numbers, as the training data were made.
        command: how to score the saved model if this process does not hold all of it.
        store: file for the scores before training, which a training that is resumed from a checkpoint reads; None keeps none.
        keeps_cut: included canaries that the prepared data do not hold whole are scored as included, instead of ending it.
    """

    def __init__(
        self,
        texts: Sequence[Pieces],
        included: Array,
        encode: Encode,
        command: str,
        store: Path | None = None,
        *,
        keeps_cut: bool = False,
    ) -> None:
        self._texts, self._included, self._encode, self._command, self._store = texts, included, encode, command, store
        self._keeps_cut = keeps_cut
        self._digest, self._first_step = "", 0
        self._awaited_canaries: set[int] = set()
        self._hook: Any = None
        self._model: weakref.ref[nn.Module] | None = None
        self.before: Array | None = None
        self.scores: dict[int, Array] = {}
        self.deferred = False
        self.remarks: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("on_"):
            return lambda *arguments, **values: None
        raise AttributeError(name)

    def on_train_begin(self, args: Any, state: Any, control: Any, **values: Any) -> None:
        """Raise `ExecutionMismatch`, with what and where, if the prepared data do not hold the canaries as planned."""
        model: nn.Module = values["model"]
        self.deferred = _is_sharded(args, model)
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise ExecutionMismatch("the model has no trainable parameter, so no canary can be learnt; nothing was trained")
        loader = values["train_dataloader"]
        is_new = self._model is None or self._model() is not model  # a Trainer may begin again with a smaller batch
        self.remarks = [] if is_new else self.remarks
        finder = SecretFinder([secret_tokens(self._encode, text).secret for text in self._texts])
        self._check_data(finder, _training_rows(args, loader.dataset), getattr(loader, "collate_fn", None))
        if self.deferred:
            log.warning("the model is sharded: canaries are not scored here. Save it, serve it, then: %s", self._command)
            return
        self._digest = _digest(model)
        self._first_step = int(getattr(state, "global_step", 0) or 0)
        self.scores = {step: scores for step, scores in self.scores.items() if step <= self._first_step}
        if is_new:
            self._model, self.scores = weakref.ref(model), {}
            self.before = self._scores_before(model)
        self._watch(model, finder)

    def on_save(self, args: Any, state: Any, control: Any, **values: Any) -> None:
        if not self.deferred:
            self.scores[int(state.global_step)] = secret_log_probabilities(values["model"], self._encode, self._texts)

    def on_train_end(self, args: Any, state: Any, control: Any, **values: Any) -> None:
        """Score the canaries under the trained model; `ExecutionMismatch` if training left every parameter as it was."""
        if self.deferred:
            return
        self._judge_visits()
        last = secret_log_probabilities(values["model"], self._encode, self._texts)
        is_fresh = self._first_step == 0
        still = _digest(values["model"]) == self._digest
        if still and (is_fresh or (self.before is not None and np.array_equal(last, self.before))):
            self.scores = {}
            raise ExecutionMismatch(
                "training moved no parameter: an adapter that is not connected, or a learning rate of 0; the audit is invalid"
            )
        self.scores[int(state.global_step)] = last
        epochs = getattr(state, "epoch", None)
        if isinstance(epochs, float) and 0 < epochs < 1:
            self._remark(f"The training ended after {epochs:.2f} of an epoch: canaries that it did not reach show no leak.")

    def _scores_before(self, model: nn.Module) -> Array:
        """Scores of the model that training began from; after a resumption those that were kept then."""
        if self._first_step == 0 or self._store is None or not self._store.is_file():
            if self._first_step > 0:
                self._remark(
                    f"Training was resumed at step {self._first_step}, and scores before it were not kept: what was learnt "
                    "until then is not counted. CanaryAudit(folder=...) keeps them."
                )
            scores = secret_log_probabilities(model, self._encode, self._texts)
            if self._first_step == 0 and self._store is not None:
                files.write_whole(self._store, json.dumps(scores.tolist()).encode())
            return scores
        try:
            retained = np.asarray(json.loads(self._store.read_text(encoding="utf-8")), dtype=np.float64)
        except (ValueError, TypeError) as error:
            raise DataError(f"{self._store} holds no scores of canaries: {error}; remove it") from error
        if retained.shape != (len(self._texts),):
            raise DataError(f"{self._store} holds scores {retained.shape} of {len(self._texts)} canaries; remove it")
        return retained

    def _remark(self, text: str) -> None:
        log.warning("%s", text)
        self.remarks.append(text)

    def _watch(self, model: nn.Module, finder: SecretFinder) -> None:
        """Note which included canaries reach the model, whatever sampler and collator do, until all have."""
        self._awaited_canaries = set(np.flatnonzero(self._included).tolist())
        if self._hook is not None:
            self._hook.remove()

        def look(module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
            tokens = options.get("input_ids", arguments[0] if arguments else None)
            if module.training and torch.is_tensor(tokens) and not tokens.is_floating_point():
                self._awaited_canaries -= {number for number, _ in finder.places(token_numbers(tokens.detach().cpu()))}
                if not self._awaited_canaries:
                    self._hook.remove()

        self._hook = model.register_forward_pre_hook(look, with_kwargs=True)

    def _judge_visits(self) -> None:
        """Say how many included canaries no batch held; `ExecutionMismatch` if it held none."""
        self._hook.remove()
        planted, missing_count = int(self._included.sum()), len(self._awaited_canaries)
        if missing_count == planted and self._first_step == 0:
            self.scores = {}
            raise ExecutionMismatch(
                f"none of the {planted} included canaries was in a batch that the model was trained on: the sampler left them "
                "out, or the training was too short; the audit is invalid"
            )
        if missing_count:
            self._remark(
                f"{missing_count} of the {planted} included canaries were in no batch that the model was trained on (a "
                "sampler, or too few steps): they count as included and show no leak."
            )

    def _check_data(self, finder: SecretFinder, rows: Iterable[Any], collate: Collate | None) -> None:
        losses, silent, stray, copies = [], [], [], []
        for number, (count, targets) in enumerate(count_places(rows, finder, len(self._texts), collate)):
            if self._included[number]:
                losses += [number] * (count == 0)
                silent += [number] * (count > 0 and targets == 0)
                copies += [number] * (count > 1)
            else:
                stray += [number] * (count > 0)
        if self._keeps_cut and losses and len(losses) < self._included.sum():
            self._remark(
                f"{len(losses)} of the {int(self._included.sum())} included canaries are cut or missing in the prepared data. "
                "They count as included, as their coins fell: weaker evidence, still valid."
            )
            losses = []
        reasons = [
            f"{len(numbers)} {words} (canaries {', '.join(map(str, numbers[:MOST_NAMED]))})"
            for numbers, words in (
                (
                    losses,
                    "of the included ones are nowhere: truncation, packing, a filter or another tokenizer took them (with "
                    "cut='keep' they count as included, which weakens the evidence and keeps it valid)",
                ),
                (silent, "are there without a label: no token of their secret is learnt"),
                (copies, "are there more than once, which is a claim about groups"),
                (stray, "that coins left out are there"),
            )
            if numbers
        ]
        if reasons:
            raise ExecutionMismatch(
                f"the prepared training data do not hold the canaries as planned: {'; '.join(reasons)}. Plant them in the raw "
                "data, before it is tokenised, keep texts whole, and give callback() the tokenizer of the data (with its chat "
                "template, if they are chats)"
            )


def _is_sharded(args: Any, model: nn.Module) -> bool:
    """True if no process holds the whole model, whoever said so: arguments, the launcher's environment, or the parameters."""
    launched = any(os.environ.get(name, "").lower() in ("1", "true") for name in LAUNCHERS)
    split = any(hasattr(parameter, "ds_id") or hasattr(parameter, "placements") for parameter in model.parameters())
    return launched or split or bool(getattr(args, "deepspeed", None) or getattr(args, "fsdp", None))


def _training_rows(args: Any, rows: Any) -> Iterable[Any]:
    """The rows; of a stream as many as training takes, since it may have no end."""
    if hasattr(rows, "__len__"):
        return cast(Iterable[Any], rows)
    names = ("max_steps", "train_batch_size", "gradient_accumulation_steps", "world_size")
    limit = math.prod(max(int(getattr(args, name, 1) or 1), 1) for name in names)
    return itertools.islice(rows, limit)


def _digest(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for parameter in model.parameters():
        if parameter.requires_grad:
            digest.update(parameter.detach().float().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()

"""Language models and classifiers of texts of transformers, all weights or adapters, with and without DP-SGD."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from audit import plugins
from audit.core import checks
from audit.core.canaries import PlantedRecords
from audit.core.data import Dataset, Vocabulary
from audit.core.errors import ConfigError, DataError, UnsupportedMechanism
from audit.core.event_reading import is_non_private
from audit.core.models import Subject
from audit.core.seeds import Seed
from audit.core.training import Progress, TrainingJob
from audit.engine.device import find_device, keep_freed_memory, one_precision
from audit.engine.ensemble import join_executed
from audit.engine.parameter_layout import Layout
from audit.engine.text.adapters import AdapterModels
from audit.engine.text.own_state import OwnState
from audit.engine.text.text_model import Precision, TextModel
from audit.engine.text.text_subject import TextModels
from audit.engine.text.text_training import Learners, Texts, TextTraining
from audit.models.language import Adapter, LanguageModel

PRECISIONS = ("float32", "bfloat16")
_PROBE_TEXTS = 2  # texts by which models of several seeds are compared before they are trained


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelTrainer:
    """Trains a causal language model on texts, by DP-SGD or plainly as the mechanism says.

    Data with `label` train a sequence classifier instead; with `user` a record is all texts of a user. The loss of a record is
    the mean over its own predicted tokens, so its gradient depends on no other one. Under DP-SGD each record's gradient is
    clipped as one vector over all trainable parameters, before micro-batches are summed. Three records' gradients are
    compared with plain autograd before the first step.

    Attributes:
        adapter: `{rank, scale, layers}` of low-rank matrices beside frozen weights; None trains all weights.
        micro_batch: texts in one pass.
        precision: "bfloat16" multiplies in it; gradients of texts, their norms, sums and parameters stay in float32.
        checkpointing: computes activations again on the way back, for less memory.

    References:
        Abadi et al. 2016, arXiv 1607.00133; Li et al. 2022, arXiv 2110.05679 (language models).
    """

    adapter: Mapping[str, Any] | None = None
    micro_batch: int = 64
    precision: str = "float32"
    checkpointing: bool = False

    def __post_init__(self) -> None:
        self._adapter()
        if self.micro_batch < 1:
            raise ConfigError(f"language_model.micro_batch is {self.micro_batch}; expected at least 1")
        checks.choice(self.precision, "language_model.precision", PRECISIONS)

    def _adapter(self) -> Adapter | None:
        if self.adapter is None:
            return None
        allowed_keys = [entry.name for entry in fields(Adapter)]
        plugins.refuse_unknown(self.adapter, allowed_keys, "language_model.adapter")
        return Adapter(**self.adapter)

    def identified(self, model: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the model of a config, with the hash of the files if it is a folder's."""
        digest = LanguageModel.of(model).digest()
        return {**model, "sha256": digest} if digest else model

    def parameters(self, model: Mapping[str, Any], dataset: Dataset) -> int:
        """Return the number of trainable parameters; without memory for them if the model is made from its config alone."""
        options = LanguageModel.of(model)
        if not options.folder and self._adapter() is None and dataset.vocabulary is not None:
            length = dataset.vocabulary.text_length or dataset.train.inputs.shape[1]
            with suppress(ConfigError), torch.device("meta"):  # a model that needs numbers while it is made is made below
                return Layout.of(options.build(dataset.vocabulary, length, None, dataset.classes)).parameters
        return self._text_model(model, dataset, None, "cpu").layout.parameters

    def untrained(self, job: TrainingJob) -> TextModels:
        """Return the models of a job as they are before the first step."""
        return self._models(job, None)

    def fit(self, job: TrainingJob, progress: Progress) -> Subject:
        """Return the trained models of `job`; `ExecutionMismatch` if training moved nothing, or what is frozen.

        `UnsupportedMechanism` for a mechanism other than DP-SGD or plain SGD, canaries that are gradients, and layers that mix
        records.
        """
        if job.noisy is None and not is_non_private(job.mechanism):
            raise UnsupportedMechanism(f"trainer 'language_model' does not execute {job.mechanism}; use mechanism 'dp_sgd'")
        records = job.canaries.records
        is_other = records is None or records.inputs.ndim != 2 or records.are_texts != (job.dataset.classes == 0)
        if is_other or isinstance(job.canaries.payload, PlantedRecords) or job.checkpoints or job.start is not None:
            raise UnsupportedMechanism(
                "trainer 'language_model' plants texts as they are and keeps no checkpoints; use the canaries new_token or "
                "random_tokens with access log_probabilities, token_distributions or generations"
            )
        return self._models(job, progress)

    def _models(self, job: TrainingJob, progress: Progress | None) -> TextModels:
        keep_freed_memory()
        device = find_device(job.device)
        texts = Texts.of(job, device)
        last, first, executions = [], [], []
        for models, learners in self._learners(job):
            first.append(learners.flat.clone())
            if progress is not None:
                training = TextTraining(job=job, models=models, texts=texts, micro_batch=self.micro_batch)
                with one_precision(device):
                    executions.append(training.run(learners, progress))
            last.append(learners.flat.clone())
        execution = join_executed(executions) if executions else None
        flats = torch.cat(last), torch.cat(first)
        return TextModels(learners.text_model, *flats, job.access.released, execution, classes=job.dataset.classes)

    def _learners(self, job: TrainingJob) -> Iterator[tuple[tuple[int, ...], Learners]]:
        """Yield numbers of models that are trained together and their initial state: all adapters, or one model at a time."""
        numbers, adapter = tuple(range(len(job.seeds))), self._adapter()
        first = self._text_model(job.model, job.dataset, job.seeds[0].child("init"), job.device)
        if adapter is not None and AdapterModels.serve(first):
            flats = []
            for seed in job.seeds:
                adapter.draw(first.module, seed.child("init"))
                flats.append(first.flat.clone())
            yield numbers, AdapterModels(first, torch.cat(flats))
            return
        tokens = torch.from_numpy(np.array(job.dataset.train.inputs[:_PROBE_TEXTS], np.int64)).to(first.device)
        state = OwnState.of(first, tokens, classes=job.dataset.classes)
        yield (0,), first
        for number in numbers[1:]:
            model = self._text_model(job.model, job.dataset, job.seeds[number].child("init"), job.device)
            state.refuse_differing(model, classes=job.dataset.classes)
            yield (number,), model

    def _text_model(self, model: Mapping[str, Any], dataset: Dataset, seed: Seed | None, device: str) -> TextModel:
        if dataset.vocabulary is None:
            raise DataError(f"trainer 'language_model' reads texts and {dataset.name} has none; use data kind 'text'")
        vocabulary: Vocabulary = dataset.vocabulary
        options, adapter = LanguageModel.of(model), self._adapter()
        length = vocabulary.text_length or dataset.train.inputs.shape[1]
        own = seed if adapter is None and not options.folder else None  # frozen weights are public, and the same in all models
        module = options.build(vocabulary, length, own, dataset.classes)
        if adapter is not None:
            module = adapter.attach(module, Seed(0) if seed is None else seed, dataset.classes)
        precision = Precision(bfloat16=self.precision == "bfloat16", checkpointing=self.checkpointing)
        return TextModel(module, find_device(device), precision, vocabulary.text_length)


PLUGIN = LanguageModelTrainer

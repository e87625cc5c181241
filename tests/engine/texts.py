"""A small language model on made-up sentences, for tests that need the extra llm."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from attacks.canaries._planted_texts import NewToken
from audit.core.access import Access
from audit.core.canaries import Canaries
from audit.core.data import Array, Dataset
from audit.core.events import Event, dp_sgd, sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.data.load import load

GPT2: dict[str, Any] = {
    "kind": "language_model",
    "architecture": "gpt2",
    "options": {"n_layer": 2, "n_embd": 16, "n_head": 2},
}
LLAMA: dict[str, Any] = {
    "kind": "language_model",
    "architecture": "llama",
    "options": {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    },
}
PRIVATE = dp_sgd(noise_multiplier=1.3, clip_norm=0.5, sample_rate=0.25, steps=6)
PLAIN = sgd(sample_rate=0.25, steps=6)


@cache
def sentences(count: int = 20) -> Dataset:
    """Sentences of 12 tokens with 20 unused tokens."""
    spec = {"kind": "sentences", "count": 120, "length": 12, "unused_tokens": 20, "train": 40, "pool": 40, "test": count}
    return load(spec, Seed(1))


def text_job(mechanism: Event = PLAIN, *, models: int = 2, seed: int = 3, count: int = 12, **changes: Any) -> TrainingJob:
    """A job of some models with new-token canaries."""
    dataset = sentences()
    canaries = NewToken().make(dataset, count, 1000, Seed(seed))
    job = TrainingJob(
        dataset=dataset,
        canaries=canaries,
        included=Seed(seed).child("coins").numpy().random((models, count)) < 0.5,
        seeds=tuple(Seed(seed).child("model", number) for number in range(models)),
        mechanism=mechanism,
        model=GPT2,
        optimizer={"kind": "adamw", "learning_rate": 0.01},
        access=Access.TOKEN_DISTRIBUTIONS,
    )
    return replace(job, **changes)


@cache
def trained_texts() -> tuple[Any, Canaries]:
    """Three trained models and their canaries."""
    from audit.trainers.language_model import LanguageModelTrainer

    job = text_job(models=3)
    return LanguageModelTrainer().fit(job, lambda steps: None), job.canaries


def tokens_of(dataset: Dataset) -> tuple[Array, Array]:
    """Tokens and labels of the training texts, int64."""
    return dataset.train.inputs.astype(np.int64), dataset.train.labels

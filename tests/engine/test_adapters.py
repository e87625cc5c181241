"""Adapters of several models on one frozen base: the same gradients, sums and trainings as each of them alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from audit.core.errors import UnsupportedMechanism
from audit.core.events import Event, dp_sgd, sgd
from audit.core.seeds import Seed
from audit.engine.gradients.clipping import Clip
from audit.engine.text.adapters import AdapterModels
from audit.engine.text.text_model import Precision, TextModel
from audit.models.language import Adapter, LanguageModel
from audit.trainers.language_model import LanguageModelTrainer
from tests.engine.texts import GPT2, LLAMA, sentences, text_job, tokens_of

pytest.importorskip("transformers", reason="the extra llm is not installed")
pytest.importorskip("peft", reason="the extra llm is not installed")

CASES: dict[str, tuple[dict[str, Any], Adapter]] = {
    "gpt2": (GPT2, Adapter(rank=3, scale=7.0, layers=("c_attn", "c_proj"))),
    "llama": (LLAMA, Adapter(rank=2, layers=("q_proj", "v_proj", "down_proj"))),
}
OWNER = torch.tensor([0, 2, 1, 2, 0, 2, 1])


def silent(steps: int) -> None:
    pass


def model_of(name: str, *, text_length: int = 0, precision: Precision | None = None) -> TextModel:
    spec, adapter = CASES[name]
    dataset = sentences()
    assert dataset.vocabulary is not None
    module = adapter.attach(LanguageModel.of(spec).build(dataset.vocabulary, 12, Seed(5)), Seed(6))
    return TextModel(module, torch.device("cpu"), precision, text_length=text_length)


def adapters(model: TextModel, count: int = 3) -> AdapterModels:
    """Models with matrices that are all away from zero."""
    flat = torch.zeros(count, model.layout.width)
    for number, slot in enumerate(model.layout.slots):
        slot.view(flat).normal_(std=0.2, generator=torch.Generator().manual_seed(number))
    return AdapterModels(model, flat)


def rows(length: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, labels = (torch.from_numpy(values.copy()) for values in tokens_of(sentences()))
    tokens[1, 7:], labels[1, 7:] = -1, -1
    count = 7 * length // 12
    return tokens[:count].view(7, length), labels[:count].view(7, length)


def gradients_by_hooks(model: TextModel, flat: torch.Tensor, length: int = 12) -> torch.Tensor:
    """`(7, width)` of each record under its own model, by hooks on peft's unchanged layers."""
    tokens, labels = rows(length)
    result = torch.zeros(7, model.layout.width)
    for row, owner in enumerate(OWNER.tolist()):
        model.load(flat[owner])
        parts = model.record_gradients(tokens[row : row + 1], labels[row : row + 1])
        for slot in model.layout.slots:
            slot.view(result)[row] = parts[slot.name][0]
    return result


@pytest.mark.sampled(2)
@pytest.mark.parametrize("length", [12, 24], ids=["texts", "users"])
@pytest.mark.parametrize("name", CASES)
def test_sums_are_those_of_clipped_gradients_of_each_model_s_own_records(name: str, length: int) -> None:
    model = model_of(name, text_length=12 if length == 24 else 0)
    learners = adapters(model)
    expected = gradients_by_hooks(model, learners.flat, length)
    norms = expected.norm(dim=1)
    norm = float(norms.median())
    assert norms.min() < norm < norms.max()
    plain, clipped = torch.zeros_like(learners.flat), torch.zeros_like(learners.flat)
    learners.add(*rows(length), OWNER, None, plain)
    clipping = learners.add(*rows(length), OWNER, Clip(norm=norm), clipped)
    torch.testing.assert_close(plain, torch.zeros_like(plain).index_add(0, OWNER, expected), rtol=1e-4, atol=1e-6)
    factors = (norm / norms).clamp(max=1)[:, None]
    torch.testing.assert_close(clipped, torch.zeros_like(plain).index_add(0, OWNER, factors * expected), rtol=1e-4, atol=1e-6)
    assert clipping is not None
    torch.testing.assert_close(clipping.norms[0], norms, rtol=1e-4, atol=1e-6)
    assert float(clipping.left.max()) <= norm * (1 + 1e-5)


@pytest.mark.parametrize("name", CASES)
def test_one_adapter_is_the_case_of_one_model(name: str) -> None:
    model = model_of(name, precision=Precision(checkpointing=name == "gpt2"))
    learners = adapters(model, 1)
    tokens, labels = rows()
    model.load(learners.flat[0])
    by_hooks = {clip: torch.zeros_like(learners.flat) for clip in (None, Clip(norm=0.3))}
    for clip, total in by_hooks.items():
        model.add(tokens, labels, OWNER * 0, clip, total)
        alone = torch.zeros_like(total)
        learners.add(tokens, labels, OWNER * 0, clip, alone)
        torch.testing.assert_close(alone, total, rtol=1e-4, atol=1e-6)
    assert learners.test_gradients(tokens[:3], labels[:3]) < 1e-5


def test_the_self_test_finds_a_wrong_product() -> None:
    learners = adapters(model_of("gpt2"))
    assert learners.test_gradients(*(values[:3] for values in rows())) < 1e-5
    learners._layers[1]._scale *= 1.01
    with pytest.raises(UnsupportedMechanism, match="plain autograd"):
        learners.test_gradients(*(values[:3] for values in rows()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [dp_sgd(noise_multiplier=1.3, clip_norm=0.5, sample_rate=0.1, steps=5), sgd(sample_rate=0.1, steps=5)],
    ids=["dp", "plain"],
)
def test_trainings_beside_each_other_are_those_of_each_alone(mechanism: Event) -> None:
    """Up to rounding: kernels may order the sums of larger batches differently."""
    trainer = LanguageModelTrainer(adapter={"rank": 2, "layers": ["c_attn"]}, micro_batch=5)
    optimizer = {"kind": "sgd", "learning_rate": 0.5}
    job = text_job(mechanism, models=4, optimizer=optimizer)
    together: Any = trainer.fit(job, silent)
    again: Any = trainer.fit(job, silent)
    for name, value in together.weights.items():
        np.testing.assert_array_equal(value, again.weights[name])
    for model in range(4):
        alone: Any = trainer.fit(
            replace(job, included=job.included[model : model + 1], seeds=job.seeds[model : model + 1]), silent
        )
        for name, value in alone.weights.items():
            np.testing.assert_allclose(together.weights[name][model], value[0], rtol=1e-4, atol=1e-6)
        for field in ("batch_sizes", "population", "noise_multiplier", "largest_norm", "skipped"):
            np.testing.assert_allclose(
                getattr(together.executed, field)[model], getattr(alone.executed, field)[0], rtol=1e-5, err_msg=field
            )
    assert len({value.tobytes() for value in next(iter(together.weights.values()))}) == 4, "each has a seed of its own"


def test_what_is_more_than_low_rank_matrices_goes_through_hooks() -> None:
    assert AdapterModels.serve(model_of("gpt2"))
    assert not AdapterModels.serve(model_of("gpt2", precision=Precision(bfloat16=True)))
    model = model_of("llama")
    model.module.lm_head.weight.requires_grad_(True)  # type: ignore[union-attr]
    assert not AdapterModels.serve(TextModel(model.module, torch.device("cpu")))

"""A home-made private step that clips each tensor of the batch's mean gradient is refuted, by its sensitivity and by a game."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import audit
from audit.step_checks.findings import PropertyStatus
from audit.step_checks.run import check_step

pytest.importorskip("transformers", reason="the extra llm is not installed")

from tests.engine.home_made import HomeMadeStep, NoiseOnSomeStep, PackedStep, RightStep, TokenMeanStep, fitted_model, odd_text
from tests.engine.texts import sentences


@pytest.fixture(scope="module")
def model() -> Any:
    return fitted_model()


def moved(
    step: Any, params: dict[str, torch.Tensor], tokens: torch.Tensor, setting: tuple[float, float], seed: int
) -> np.ndarray:
    """The step's update as one vector; `setting` is noise multiplier and clip norm."""
    sigma, clip = setting
    generator = torch.Generator().manual_seed(seed)
    after = step(params, (tokens,), generator, noise_multiplier=sigma, clip_norm=clip)
    return torch.cat([(params[name] - value).flatten() for name, value in after.items()]).double().numpy()


def start(model: Any) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.module.named_parameters()}


@pytest.mark.slow
@pytest.mark.parametrize("clip", [1.0, 0.01])
def test_one_replaced_record_moves_the_update_too_far(model: Any, clip: float) -> None:
    known = torch.from_numpy(sentences().train.inputs[:1].astype(np.int64))
    params, odd = start(model), odd_text()
    changes = [
        np.linalg.norm(moved(step, params, odd, (0.0, clip), 1) - moved(step, params, known, (0.0, clip), 1)) / clip
        for step in (HomeMadeStep(model), RightStep(model))
    ]
    assert changes[0] > 2.5, "replacing one record may move a clipped sum by 2 C"
    assert changes[1] <= 2 + 1e-4


@pytest.mark.slow
def test_the_step_check_refutes_it_and_not_the_right_one(model: Any) -> None:
    sample = (sentences().train.inputs[:10].astype(np.int64),)
    statuses = {}
    for step in (HomeMadeStep(model), RightStep(model)):
        report = check_step(step, start(model), sample, noise_multiplier=1.0, clip_norm=0.01, divisor=1.0, generator="torch")
        statuses[type(step).__name__] = {finding.check: finding.status for finding in report.findings}
    assert PropertyStatus.FAILED in statuses["HomeMadeStep"].values()
    assert statuses["HomeMadeStep"]["clip.add"] is PropertyStatus.FAILED
    assert statuses["RightStep"]["clip.add"] is not PropertyStatus.FAILED


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["tokens of the batch", "packed", "noise"])
def test_the_step_check_refutes_what_canaries_do_not_see(model: Any, wrong: str) -> None:
    """A loss over the batch's tokens (`num_items_in_batch`), texts packed in one row, noise on every second tensor."""
    steps = {"tokens of the batch": (TokenMeanStep(model), 3.0), "packed": (PackedStep(model), 0.01)}
    step, clip = steps.get(wrong, (NoiseOnSomeStep(model), 0.01))
    sample = (sentences().train.inputs[:10].astype(np.int64),)
    report = check_step(step, start(model), sample, noise_multiplier=1.0, clip_norm=clip, divisor=1.0, generator="torch")
    failed = {finding.check for finding in report.findings if finding.status is PropertyStatus.FAILED}
    assert any(check.startswith("noise" if wrong == "noise" else "clip") for check in failed), report.findings


@pytest.mark.slow
def test_a_game_of_one_step_trainings_proves_more_than_is_claimed(model: Any) -> None:
    """Replacing one record in a batch of one: what is claimed is a Gaussian mechanism of sensitivity 2 C and noise sigma C."""
    known = torch.from_numpy(sentences().train.inputs[:1].astype(np.int64))
    params, odd, clip, sigma, delta = start(model), odd_text(), 0.01, 1.0, 1e-5
    step = HomeMadeStep(model)
    direction = moved(step, params, odd, (0.0, clip), 1) - moved(step, params, known, (0.0, clip), 1)
    scores = [
        [float(moved(step, params, tokens, (sigma, clip), 10 + seed + offset) @ direction) for seed in range(100)]
        for offset, tokens in ((0, odd), (1000, known))
    ]
    bound = audit.lower_bound(scores[0], scores[1], delta=delta, game="independent_trials", family="gdp", certificates=0)
    claimed = gaussian_epsilon(2 / sigma, delta)
    assert 9 < claimed < 11
    assert bound.epsilon > claimed


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon of a Gaussian mechanism, by bisection on its exact delta (Balle and Wang 2018)."""
    low, high = 0.0, 100.0

    def phi(value: float) -> float:
        return 0.5 * math.erfc(-value / math.sqrt(2))

    for _ in range(100):
        middle = (low + high) / 2
        exact = phi(mu / 2 - middle / mu) - math.exp(middle) * phi(-mu / 2 - middle / mu)
        low, high = (middle, high) if exact > delta else (low, middle)
    return high


@pytest.mark.slow
def test_the_home_made_trainer_steps_on_every_micro_batch(tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate", reason="the extra llm is not installed")
    calls: list[int] = []

    class HomeMadeTrainer(transformers.Trainer):  # type: ignore[misc, name-defined]
        def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
            loss = self.compute_loss(model, inputs)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            calls.append(1)
            return loss.detach()

    tokens = sentences().train.inputs[:16].astype(np.int64)
    rows = [{"input_ids": row.tolist(), "labels": row.tolist()} for row in tokens]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=2, gradient_accumulation_steps=2, per_device_train_batch_size=2, use_cpu=True,
        report_to=[], save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    HomeMadeTrainer(model=fitted_model(1).module, args=arguments, train_dataset=rows).train()
    assert len(calls) == 4, "two optimiser steps were asked for"

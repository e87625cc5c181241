"""The second opinion on clipping agrees with an honest engine and catches one that measures its norms wrongly."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from audit.checks.execution import check_executed
from audit.core.errors import ExecutionMismatch
from audit.core.events import Repeated, dp_sgd, sgd
from audit.core.seeds import Seed
from audit.engine.dp_options import Technique
from audit.engine.ensemble import train
from audit.engine.gradients.adaptive_clipping import Quantile
from audit.engine.gradients.clipping import Clip, Rows, stacked_state
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.layers.layers import LinearLayer, MatrixLayer, Use
from audit.engine.losses import UsualLoss
from audit.engine.schedule import ScheduleSettings
from audit.engine.trial.clip_check import Recomputation
from tests.engine import cases

NOISY = dp_sgd(noise_multiplier=1.0, clip_norm=0.2, sample_rate=0.3, steps=5)


def check(job_mechanism: Repeated, executed: object) -> str:
    result = {check.code: check.status for check in check_executed(job_mechanism, executed)}  # type: ignore[arg-type]
    return str(result["clipping-recomputed"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("technique", ["flat", "per_layer", "adaptive"])
@pytest.mark.parametrize("name", ["mlp", "cnn", "tied", "convolutions", "wide_resnet", "raw"])
def test_an_honest_engine_agrees(name: str, technique: str) -> None:
    spec, shape = cases.MODELS[name]
    job = cases.job(NOISY, model=spec, data=cases.dataset(shape))
    executed = train(job, cases.silent, None, Technique(clipping=technique, quantile=Quantile())).executed
    assert executed.recomputed.shape == (3,)
    assert (executed.recomputed >= 0).all() and (executed.recomputed < 1e-4).all()
    assert check(NOISY, executed) == "checked"


def test_norms_measured_too_small_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = MatrixLayer.squared_norms

    def small(self: MatrixLayer, use: Use, signal: Tensor, rows: int) -> Tensor:
        return honest(self, use, signal, rows) / 4.0

    monkeypatch.setattr(MatrixLayer, "squared_norms", small)
    monkeypatch.setattr("audit.engine.trial.model_trial.loop_reason", lambda *_: None)
    with pytest.raises(ExecutionMismatch, match=r"step 3, model 0 .*differs from plain autograd's by 1 of its size"):
        train(cases.job(NOISY), cases.silent)
    monkeypatch.setattr("audit.engine.trial.clip_check._EARLY_STEP", -1)  # whatever the first steps did not show is reported
    executed = train(cases.job(NOISY), cases.silent).executed
    assert {check.code: check.status for check in check_executed(NOISY, executed)}["clipping"] == "checked"  # its own word
    assert executed.recomputed.max() == pytest.approx(1.0, abs=0.05)
    assert check(NOISY, executed) == "failed"


def test_augmented_copies_are_recomputed_together() -> None:
    job = cases.job(NOISY, model={"kind": "cnn", "channels": [3]}, data=cases.dataset((2, 6, 6)))
    executed = train(job, cases.silent, None, Technique(copies=3, flip=True, shift=1)).executed
    assert (executed.recomputed >= 0).all() and (executed.recomputed < 1e-4).all()


def test_which_examples_does_not_depend_on_the_chunk_and_training_is_left_alone() -> None:
    job = cases.job(NOISY, models=40)
    full, parts = (train(job, cases.silent, ScheduleSettings(model_chunk=chunk)) for chunk in (40, 7))
    np.testing.assert_array_equal(full.executed.recomputed, parts.executed.recomputed)
    assert 1 <= (full.executed.recomputed >= 0).sum() <= 25
    for name, value in full.weights.items():
        np.testing.assert_array_equal(value, parts.weights[name])


def test_regression_and_plain_training() -> None:
    job = cases.job(NOISY, data=cases.dataset((5,), classes=0))
    assert (train(job, cases.silent).executed.recomputed < 1e-4).all()
    without = sgd(sample_rate=0.3, steps=3)
    plain = train(replace(job, mechanism=without), cases.silent).executed
    assert (plain.recomputed >= 0).all() and (plain.recomputed < 1e-4).all()
    assert {check.code: check.status for check in check_executed(without, plain)}["gradients-recomputed"] == "checked"
    nothing = train(replace(job, mechanism=replace(NOISY, count=0)), cases.silent).executed
    assert (nothing.recomputed == -1).all()
    assert "clipping-recomputed" not in {check.code for check in check_executed(NOISY, nothing)}


def test_a_poisoned_example_is_zero_by_either_way() -> None:
    data = cases.dataset((5,))
    inputs = np.full_like(data.train.inputs, np.inf)
    job = cases.job(cases.varied(NOISY, sample_rate=0.9), data=replace(data, train=replace(data.train, inputs=inputs)))
    executed = train(job, cases.silent).executed
    assert (executed.skipped > 0).all() and torch.tensor(executed.recomputed).max() < 1e-4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiled", ["off", "on"])
@pytest.mark.parametrize("name", ["mlp", "cnn"])
@pytest.mark.parametrize("size", [1e20, 1e30])
def test_records_whose_norms_leave_single_precision_are_skipped_and_blame_nobody(name: str, size: float, compiled: str) -> None:
    spec, shape = cases.MODELS[name]
    data = cases.dataset(shape)
    inputs = np.copysign(np.float32(size), data.train.inputs)
    job = cases.job(NOISY, model=spec, data=replace(data, train=replace(data.train, inputs=inputs)))
    executed = train(job, cases.silent, ScheduleSettings(compile=compiled)).executed
    assert (executed.skipped > 0).all() and executed.largest_norm.max() <= 1.0 + 1e-6
    assert executed.recomputed.max() < 1e-4


def test_norms_that_are_no_numbers_for_ordinary_records_are_still_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = MatrixLayer.squared_norms
    monkeypatch.setattr(MatrixLayer, "squared_norms", lambda *arguments: honest(*arguments) / 0.0)
    monkeypatch.setattr("audit.engine.trial.model_trial.loop_reason", lambda *_: None)
    with pytest.raises(ExecutionMismatch, match="differs from plain autograd's by 1 of its size"):
        train(cases.job(NOISY), cases.silent)


@pytest.mark.parametrize("share", [1.0, 0.5], ids=["right", "wrong"])
@pytest.mark.parametrize("clip", [None, Clip(norm=0.1)], ids=["sum", "clipped"])
def test_units_at_a_jump_of_their_derivative_blame_a_wrong_engine_alone(
    share: float, clip: Clip | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain autograd finds 24 units at exactly zero, the engine a rounding error above it."""
    torch.manual_seed(0)
    first, last, inputs = nn.Linear(4, 24), nn.Linear(24, 3), torch.randint(-3, 4, (8, 4)).float()
    modules: list[nn.Module] = [nn.Sequential(first, nn.ReLU(), last)]
    with torch.no_grad():
        first.weight.copy_(torch.randint(-3, 4, (24, 4)))
        first.bias.copy_(-(inputs @ first.weight.T)[torch.arange(24) % 8, torch.arange(24)])
    forward, engine = LinearLayer.forward, TapeGradients(modules[0], stacked_state(modules, torch.float32, torch.device("cpu")))
    monkeypatch.setattr(LinearLayer, "forward", lambda *arguments: forward(*arguments) + 1e-7)
    if share < 1.0:
        slopes = UsualLoss.slopes
        monkeypatch.setattr(UsualLoss, "slopes", lambda *arguments: share * slopes(*arguments))
    rows = Rows(inputs=inputs, labels=torch.arange(8) % 3, mask=torch.ones(1, 8, dtype=torch.bool))
    before = engine.flat.clone()
    recomputation = Recomputation(modules, [Seed(0)], models=1, steps=3)
    with pytest.raises(ExecutionMismatch) if share < 1.0 else nullcontext():
        recomputation.compare(2, engine, rows, clip)
    assert torch.equal(engine.flat, before) and (recomputation.errors[0] < 1e-4) == (share == 1.0)

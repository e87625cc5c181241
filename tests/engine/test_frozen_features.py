"""A frozen part before anything trained is computed once for each record; the models are those of a slow loop to rounding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from audit.checks.execution import check_executed
from audit.core.errors import ExecutionMismatch
from audit.core.events import dp_sgd, sgd
from audit.core.record_arrays import RawArray
from audit.engine.dp_options import Technique
from audit.engine.ensemble import train
from audit.engine.schedule import ScheduleSettings, arrange
from audit.engine.trial import frozen_features
from tests.engine import cases
from tests.engine.twin import slow_training

NOISELESS = dp_sgd(noise_multiplier=0.0, clip_norm=0.3, sample_rate=0.4, steps=4)
DOUBLE = ScheduleSettings(dtype=torch.float64)
SHAPE = (2, 6, 6)
WHOLE = ("two ways", "unfrozen norm", "scale first", "other seeds", "by value", "no grad", "reversed")


class Reversed(torch.autograd.Function):
    """A layer that turns gradients round."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        return inputs.view_as(inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return -gradients[0]


class Headed(nn.Module):
    """A frozen backbone, of bare numbers too, and what `kind` trains behind it."""

    def __init__(self, kind: str = "head") -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(7)
        self.kind = kind
        self.backbone = nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten())
        self.shift = nn.Parameter(torch.randn(64, generator=generator), requires_grad=False)  # no layer holds it: the slow path
        self.drop = nn.Dropout(0.5)
        self.middle, self.head = nn.Linear(64, 8), nn.Linear(8, 3)
        if kind != "other seeds":
            with torch.no_grad():
                for parameter in self.backbone.parameters():
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
        for part in (self.backbone, self.shift):
            part.requires_grad_(False)
        if kind == "zero head":
            nn.init.zeros_(self.head.weight)
        if kind == "scale first":
            self.scale = nn.Linear(6, 6)
        if kind == "unfrozen norm":
            self.backbone[1].requires_grad_(True)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.kind == "scale first":
            inputs = self.scale(inputs)
        if self.kind == "drop first":
            inputs = self.drop(inputs)
        features = self.backbone(inputs) + self.shift
        hidden = torch.tanh(self.middle(features))
        if self.kind == "drop":
            hidden = self.drop(hidden)
        if self.kind == "reversed":
            hidden = Reversed.apply(hidden)
        if self.kind == "no grad":
            with torch.no_grad():
                gate = torch.sigmoid(self.middle(features))
            hidden = hidden * gate
        if self.kind == "two ways":
            hidden = hidden + features[:, :8] * inputs.mean((1, 2, 3)).unsqueeze(1)
        scores: Tensor = self.head(hidden)
        return scores if self.kind != "by value" or float(scores.sum()) < 1e9 else scores * 2.0


def layers() -> nn.Module:
    """A frozen backbone of a library's layers alone, with one trial that all jobs share."""
    full = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    with torch.no_grad():
        for parameter in full[0].parameters():
            parameter.fill_(0.1)
    full[0].requires_grad_(False)
    return full


def job(kind: str, mechanism: Any = NOISELESS, **changes: Any) -> Any:
    model = {"factory": f"{__name__}:Headed", "arguments": {"kind": kind}}
    return cases.job(mechanism, model=model, data=cases.dataset(SHAPE), **changes)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mechanism", [NOISELESS, sgd(sample_rate=0.4, steps=4)], ids=["private", "plain"])
@pytest.mark.parametrize("kind", ["head", "zero head", *WHOLE])
def test_models_are_those_of_a_slow_loop(kind: str, mechanism: Any) -> None:
    item = job(kind, mechanism, models=2)
    split = arrange(item, DOUBLE).split
    # bare numbers behind trained ones leave no path for all models at once, whatever is split off
    assert (split is not None) == (kind in ("head", "zero head"))
    done = train(item, cases.silent, DOUBLE)
    assert (done.executed.recomputed >= 0).all() and (done.executed.recomputed < 1e-7).all()
    for model in range(2):
        expected = slow_training(item, model)
        assert list(expected) == list(done.weights)
        for name, value in expected.items():
            np.testing.assert_allclose(done.weights[name][model], value, rtol=1e-6, atol=1e-9, err_msg=name)


def test_features_are_computed_once_for_all_models_and_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    honest = nn.Conv2d.forward

    def counted(self: nn.Conv2d, inputs: Tensor) -> Tensor:
        calls.append(len(inputs))
        return honest(self, inputs)

    item = job("head", models=5)
    monkeypatch.setattr(nn.Conv2d, "forward", counted)
    arrange(item, ScheduleSettings())
    trial = sum(calls)
    calls.clear()
    train(item, cases.silent)
    records = len(item.dataset.train) + len(item.dataset.pool)
    assert sum(calls) - trial - records in (5, 10)  # recomputed: of each model one record, at the third step and a random one


def test_dropout_behind_the_features_is_recomputed_and_dropout_before_them_leaves_none() -> None:
    noisy = cases.varied(NOISELESS, noise_multiplier=1.0)
    assert arrange(job("drop", noisy), ScheduleSettings()).split is not None
    assert arrange(job("drop first", noisy), ScheduleSettings()).split is None
    for kind in ("drop", "drop first"):
        executed = train(job(kind, noisy), cases.silent).executed
        assert (executed.recomputed >= 0).all() and (executed.recomputed < 1e-4).all()


def test_bits_depend_neither_on_neighbours_nor_on_the_form_of_records() -> None:
    item = job("head", cases.varied(NOISELESS, noise_multiplier=1.0), models=4)
    together, alone = (train(item, cases.silent, ScheduleSettings(model_chunk=chunk)).weights for chunk in (4, 1))
    raw = RawArray(item.dataset.train.inputs, np.arange(len(item.dataset.train)), (np.zeros(1), np.ones(1)))
    lazy = replace(item, dataset=replace(item.dataset, train=replace(item.dataset.train, inputs=raw)))
    in_parts = train(lazy, cases.silent).weights
    for name, value in together.items():
        np.testing.assert_array_equal(value, alone[name])
        np.testing.assert_array_equal(value, in_parts[name])


def test_augmented_and_short_trainings_take_the_records() -> None:
    item = job("head")
    assert arrange(item, ScheduleSettings(), Technique(flip=True)).split is None
    assert arrange(item, ScheduleSettings(precision="bfloat16")).split is None
    assert arrange(replace(item, mechanism=cases.varied(NOISELESS, steps=2)), ScheduleSettings()).split is None
    assert arrange(item, ScheduleSettings(sequential=True)).split is None


def test_models_whose_frozen_values_differ_after_all_are_trained_on_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen_features, "_same_frozen_values", lambda *_: True)
    item = job("other seeds", models=2)
    assert arrange(item, DOUBLE).split is not None
    done = train(item, cases.silent, DOUBLE)
    for model in range(2):
        for name, value in slow_training(item, model).items():
            np.testing.assert_allclose(done.weights[name][model], value, rtol=1e-6, atol=1e-9, err_msg=name)


def test_features_that_are_not_the_models_end_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = frozen_features.Split.features
    monkeypatch.setattr(frozen_features.Split, "features", lambda self, *rest: honest(self, *rest).roll(1, 0))
    with pytest.raises(ExecutionMismatch, match="differs from plain autograd's"):
        train(job("head"), cases.silent)


def test_features_that_fill_the_memory_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen_features, "_MOST_BYTES", 1000)
    assert arrange(job("head"), ScheduleSettings()).split is None


def test_a_trial_of_few_records_does_not_decide_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of two games share a trial, as their models and sampled records are the same; one may have too many records."""
    usual = cases.job(NOISELESS, model={"factory": f"{__name__}:layers"}, data=cases.dataset(SHAPE))
    few, many = (
        replace(usual, dataset=replace(usual.dataset, train=usual.dataset.train.take(np.zeros(count, dtype=int))))
        for count in (64, 128)
    )
    split = arrange(few, ScheduleSettings()).split
    assert split is not None
    monkeypatch.setattr(frozen_features, "_MOST_BYTES", (64 + len(few.canaries)) * split.width * 4)
    for _ in range(2):
        assert arrange(few, ScheduleSettings()).split is not None
        assert arrange(many, ScheduleSettings()).split is None


def test_the_check_of_what_was_run_says_that_features_were_computed_once() -> None:
    full = train(job("head"), cases.silent).executed
    assert full.features.all() and len(full.features)
    (row,) = (row for row in check_executed(job("head").mechanism, full) if row.code == "frozen-part")
    assert row.value == f"computed once for each record, for all {len(full.features)} models"
    records = train(job("head"), cases.silent, ScheduleSettings(sequential=True)).executed
    assert not records.features.any()
    assert "frozen-part" not in {row.code for row in check_executed(job("head").mechanism, records)}

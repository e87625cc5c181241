"""Models with dropout are recomputed too: with the same draws, or with draws that are held still."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.core.errors import ExecutionMismatch
from audit.core.events import Repeated, dp_sgd, sgd
from audit.engine.dp_options import Technique
from audit.engine.ensemble import train
from audit.engine.gradients.per_model_loop import LoopGradients
from audit.engine.layers.layers import MatrixLayer, Use
from audit.engine.layers.layers_elementwise import DropoutLayer
from audit.engine.random.noise import GeneratorDraws
from audit.engine.schedule import ScheduleSettings, arrange
from tests.engine import cases

NOISY = dp_sgd(noise_multiplier=1.0, clip_norm=0.2, sample_rate=0.3, steps=5)
PLAIN = sgd(sample_rate=0.3, steps=5)
SHAPE = (4, 6)


class Dropped(nn.Module):
    """Linear layers around one way to drop activations."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.first, self.out = nn.Linear(6, 8), nn.Linear(8, 3)
        self.drop, self.channels = nn.Dropout(0.6), nn.Dropout1d(0.4)
        if way == "bare":
            self.scale = nn.Parameter(torch.ones(8))
        if way == "lstm":
            self.walk = nn.LSTM(8, 8, num_layers=2, dropout=0.5, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(inputs))
        match self.way:
            case "layer":
                hidden = self.channels(self.drop(hidden))
            case "twice":
                hidden = self.drop(torch.tanh(self.drop(hidden)))
            case "folded":
                hidden = self.drop(hidden.flatten(0, 1)).unflatten(0, (-1, 4))
            case "positions first":
                hidden = self.drop(hidden.transpose(0, 1)).transpose(0, 1)
            case "function":
                hidden = F.dropout(hidden, 0.5, self.training)
            case "bare":
                hidden = self.drop(hidden * self.scale)
            case "lstm":
                hidden = self.walk(hidden)[0]
            case "permuted":
                hidden = hidden[:, torch.randperm(4)] if self.training else hidden
        return self.out(hidden).mean(1)


def job(way: str, mechanism: Repeated) -> Any:
    model = {"factory": f"{__name__}:Dropped", "arguments": {"way": way}}
    return cases.job(mechanism, model=model, data=cases.dataset(SHAPE), models=4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mechanism", [NOISY, PLAIN], ids=["private", "plain"])
@pytest.mark.parametrize("way", ["layer", "twice", "folded", "positions first", "function", "bare", "lstm"])
def test_models_with_dropout_are_recomputed(way: str, mechanism: Repeated, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        executed = train(job(way, mechanism), cases.silent).executed
    slow = way in ("positions first", "function", "lstm")
    assert ("one after another, which is slower:" in caplog.text) == slow
    assert (executed.recomputed >= 0).all() and (executed.recomputed < 1e-4).all()


def test_copies_have_draws_of_their_own() -> None:
    executed = train(job("twice", NOISY), cases.silent, None, Technique(copies=3)).executed
    assert (executed.recomputed >= 0).all() and (executed.recomputed < 1e-4).all()


@pytest.mark.parametrize("way", ["layer", "function"])
def test_the_recomputation_leaves_the_draws_of_a_training_alone(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = train(job(way, NOISY), cases.silent).weights
    monkeypatch.setattr("audit.engine.trial.clip_check.Recomputation.due", lambda *_: False)
    unchecked = train(job(way, NOISY), cases.silent).weights
    for name, value in checked.items():
        np.testing.assert_array_equal(value, unchecked[name])


def test_draws_that_cannot_be_held_are_not_recomputed() -> None:
    assert (train(job("permuted", PLAIN), cases.silent).executed.recomputed == -1).all()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["layer", "function"])
def test_wrong_gradients_beside_dropout_end_the_training(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.engine.trial.model_trial.loop_reason", lambda *_: None)
    honest, honest_sums = MatrixLayer.squared_norms, LoopGradients._example_gradients

    def small(self: MatrixLayer, use: Use, signal: Tensor, rows: int) -> Tensor:
        return honest(self, use, signal, rows) / 4.0

    def large(*arguments: Any) -> dict[str, Tensor]:
        return {name: 2.0 * value for name, value in honest_sums(*arguments).items()}

    monkeypatch.setattr(MatrixLayer, "squared_norms", small)
    monkeypatch.setattr(LoopGradients, "_example_gradients", large)
    with pytest.raises(ExecutionMismatch, match=r"step 3, .*differs from plain autograd's"):
        train(job(way, NOISY), cases.silent)


@pytest.mark.slow
def test_dropout_whose_draws_reach_another_record_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = DropoutLayer.forward

    def rolled(self: DropoutLayer, inputs: Tensor) -> Tensor:
        return honest(self, inputs.roll(1, 0)).roll(-1, 0)

    monkeypatch.setattr(DropoutLayer, "forward", rolled)
    monkeypatch.setattr("audit.engine.trial.model_trial.loop_reason", lambda *_: None)
    with pytest.raises(ExecutionMismatch, match=r"step 3, .*differs from plain autograd's"):
        train(job("layer", NOISY), cases.silent, ScheduleSettings(dtype=torch.float64))


def test_passes_of_a_step_go_on_in_the_streams_of_their_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """No mask is drawn twice: not in a narrow pass behind the first one, not in another step, not by another model."""
    first_numbers: list[float] = []
    uniforms = GeneratorDraws.uniforms

    def noted(self: GeneratorDraws, shape: Sequence[int]) -> Tensor:
        numbers = uniforms(self, shape)
        first_numbers.extend(numbers.view(2, -1)[:, 0].tolist())
        return numbers

    monkeypatch.setattr(GeneratorDraws, "uniforms", noted)
    monkeypatch.setattr("audit.engine.chunk.can_repeat", lambda _: False)  # a recomputation draws again, on purpose
    mechanism = sgd(sample_rate=0.5, steps=3)
    spec = {"factory": "tests.engine.cases:dropping", "arguments": {"raw": False}}
    job = cases.job(mechanism, model=spec, data=cases.dataset((5,), train=90), models=2)
    arranged = arrange(job, ScheduleSettings(rows=16))
    assert not arranged.sequential
    first_numbers.clear()  # those of the trial
    train(job, cases.silent, ScheduleSettings(rows=16))
    assert len(first_numbers) >= 2 * 3 * 3 and len(set(first_numbers)) == len(first_numbers)

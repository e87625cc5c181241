"""Models as users write them train exactly as a slow loop trains them, or are refused by a sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from audit.core.access import Access
from audit.core.errors import AuditError, ExecutionMismatch
from audit.core.events import Repeated, dp_sgd, sgd
from audit.core.training import TrainingJob
from audit.engine.ensemble import train
from audit.engine.gradients.clipping import Clip, Rows, stacked_state
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.layers.layers import LinearLayer
from audit.engine.read.observe import EnsembleReader
from audit.engine.read.subject import Ensemble
from audit.engine.schedule import ScheduleSettings
from tests.engine import cases, users
from tests.engine.twin import slow_training

QUIET = dp_sgd(noise_multiplier=0.0, clip_norm=0.3, sample_rate=0.3, steps=4)
PLAIN = sgd(sample_rate=0.3, steps=4)
DOUBLE = ScheduleSettings(dtype=torch.float64)
NEVER = [
    "keeps_rebound",
    "complex",
    "fails",
    "counts",
    "pair",
    "patched",
    "frozen",
    "transposed",
    "slices",
    "alias",
    "hook_before",
]
NEVER += ["hook_after", "draws_python", "draws_numpy"]


def make_job(name: str, mechanism: Repeated, **changes: object) -> TrainingJob:
    shape = tuple(int(size) for size in users.first_kind(name))
    job = cases.job(mechanism, model=users.spec(name), data=cases.dataset(shape), models=3)
    return replace(job, **changes)  # type: ignore[arg-type]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("clip_norm", [0.05, 1e9, None], ids=["clipped", "unclipped", "plain"])
@pytest.mark.parametrize("name", sorted(users.EXACT))
def test_models_of_users_train_like_the_slow_loop(name: str, clip_norm: float | None) -> None:
    job = make_job(name, PLAIN if clip_norm is None else cases.varied(QUIET, clip_norm=clip_norm))
    done = train(job, cases.silent, DOUBLE)
    assert done.executed.recomputed.max() < 1e-9
    for model in range(3):
        for parameter, value in slow_training(job, model).items():
            np.testing.assert_allclose(done.weights[parameter][model], value, rtol=1e-6, atol=1e-9, err_msg=parameter)


@pytest.mark.parametrize("name", ["tokens", "rows", "sequence_convolutions"])
@pytest.mark.parametrize("rows", [None, 16])
def test_parameters_outside_of_layers_take_the_fast_path(name: str, rows: int | None, caplog: pytest.LogCaptureFixture) -> None:
    job = make_job(name, QUIET)
    job = replace(job, seeds=job.seeds[:1], included=job.included[:1])
    done = train(job, cases.silent, replace(DOUBLE, rows=rows))
    assert "one after another" not in caplog.text
    for parameter, value in slow_training(job, 0).items():
        np.testing.assert_allclose(done.weights[parameter][0], value, rtol=1e-6, atol=1e-9, err_msg=parameter)


@pytest.mark.parametrize("name", sorted(users.REFUSED))
def test_what_cannot_be_private_is_refused_by_a_sentence(name: str) -> None:
    with pytest.raises(AuditError, match=users.REFUSED[name][1]) as caught:
        train(make_job(name, replace(QUIET, count=20)), cases.silent)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["capacity", "mixes_in_training", "keeps", "spectral"])
def test_without_privacy_a_batch_is_trained_as_it_is(name: str) -> None:
    job = make_job(name, sgd(sample_rate=0.7, steps=PLAIN.count))
    done = train(job, cases.silent, DOUBLE)
    assert done.executed.recomputed.max() < 1e-9
    for model in range(3):
        for parameter, value in slow_training(job, model, whole_batches=True).items():
            np.testing.assert_allclose(done.weights[parameter][model], value, rtol=1e-6, atol=1e-9, err_msg=parameter)


@pytest.mark.parametrize("name", NEVER)
def test_what_cannot_be_trained_at_all_is_refused_without_privacy_too(name: str) -> None:
    with pytest.raises(AuditError) as caught:
        train(make_job(name, PLAIN), cases.silent)
    assert caught.value.exit_code == 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mechanism", [cases.varied(QUIET, noise_multiplier=1.0), PLAIN], ids=["dpsgd", "plain"])
def test_dropout_as_a_function_repeats_and_ignores_the_neighbours(mechanism: Repeated) -> None:
    job = make_job("functional_dropout", mechanism)
    before = torch.random.get_rng_state()
    full, again, alone = (train(job, cases.silent, ScheduleSettings(model_chunk=chunk)) for chunk in (3, 3, 1))
    assert torch.equal(before, torch.random.get_rng_state())
    for name, value in full.weights.items():
        np.testing.assert_array_equal(value, again.weights[name])
        np.testing.assert_array_equal(value, alone.weights[name])


@pytest.mark.slow
def test_adapters_and_frozen_layers_take_the_fast_path(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("lora", "frozen_convolutions", "frozen_backbone", "no_gradient", "positions_leading"):
        train(make_job(name, replace(QUIET, count=1)), cases.silent)
    assert "one after another" not in caplog.text


def test_draws_in_evaluation_are_repeated_and_ignore_the_neighbours() -> None:
    job = make_job("noisy_in_evaluation", QUIET)
    models, records = train(job, cases.silent), job.dataset.train.inputs
    full, again = (Ensemble(job, models).outputs(records) for _ in range(2))
    np.testing.assert_array_equal(full, again)
    np.testing.assert_array_equal(full[1:2], Ensemble(job, models).alone(1).outputs(records))
    torch.manual_seed(1)
    state = torch.get_rng_state()
    assert np.abs(full[:, :8] - full[:, :1]).max() > 0 and torch.equal(state, torch.get_rng_state())


def test_a_model_that_fails_when_it_is_read_is_named() -> None:
    job = make_job("fails", QUIET)
    weights = {name: value.detach().numpy()[None] for name, value in users.make("fails").state_dict().items()}
    with pytest.raises(AuditError, match=r"layer 'body\.2' \(Linear\) fails"):
        EnsembleReader(job.model, weights, job.dataset.test.inputs[:2], 3)


def test_a_frozen_backbone_keeps_its_statistics() -> None:
    done = train(make_job("frozen_backbone", QUIET), cases.silent)
    np.testing.assert_allclose(done.weights["backbone.1.running_mean"], [np.linspace(-1, 1, 4)] * 3, rtol=1e-6)
    assert (done.weights["last.weight"] != done.weights["last.weight"][:1]).any()


def test_an_engine_that_trains_something_else_is_stopped_after_the_first_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = LinearLayer.forward
    monkeypatch.setattr("audit.engine.trial.model_trial.loop_reason", lambda *_: None)
    monkeypatch.setattr(LinearLayer, "forward", lambda self, inputs: 1.5 * honest(self, inputs))
    steps = []
    for mechanism in (cases.varied(QUIET, steps=50, clip_norm=1e9), replace(PLAIN, count=50)):
        with pytest.raises(ExecutionMismatch, match="step 3, model 0"):
            train(cases.job(mechanism, access=Access.FINAL_WEIGHTS), steps.append)
    assert sum(steps) == 0  # progress is reported ten times a second


@pytest.mark.parametrize("offset", [100.0, 1000.0])
@pytest.mark.parametrize("kind", ["linear", "lookup", "convolution", "wide"])
def test_ghost_norms_that_cancel_are_made_exactly(kind: str, offset: float) -> None:
    generator = torch.Generator().manual_seed(0)
    module, inputs = opposing(kind, offset, generator)
    state = stacked_state([module], torch.float32, torch.device("cpu"))
    models = TapeGradients(module, state)
    models.module.layer.ghost = True
    count, clip = len(inputs), 1e-8 if kind == "lookup" else 1e-3
    rows = Rows(inputs=inputs, labels=torch.zeros(count, dtype=torch.int64), mask=torch.ones(1, count, dtype=torch.bool))
    for row in range(count):
        rows.mask[:] = False
        rows.mask[0, row] = True
        total = torch.zeros_like(models.flat)
        observed = models.add_sum(rows, Clip(norm=clip), total)
        assert observed is not None and observed.left[0, row] <= clip * (1 + 1e-6)
        assert float(total.double().norm()) <= clip * (1 + 1e-4)
        assert float(total.double().norm()) >= clip * (1 - 1e-2)


class Opposing(nn.Module):
    """One layer at many positions: its signals nearly cancel if its inputs are large and alike."""

    def __init__(self, layer: nn.Module, sign: torch.Tensor) -> None:
        super().__init__()
        self.layer, self.kind = layer, type(layer)
        self.register_buffer("sign", sign)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.layer(inputs.long() if self.kind is nn.Embedding else inputs)
        if self.kind is nn.Conv2d:
            hidden = hidden.flatten(2).transpose(1, 2)
        return (hidden * self.sign).sum(1)[:, :3]


def opposing(kind: str, offset: float, generator: torch.Generator) -> tuple[nn.Module, torch.Tensor]:
    positions = 16
    sign = torch.tensor([1.0, -1.0]).repeat(positions // 2).unsqueeze(1)
    if kind == "linear":
        inputs = offset + 0.1 * torch.randn(4, positions, 256, generator=generator)
        return Opposing(nn.Linear(256, 256, bias=False), sign), inputs
    if kind in ("convolution", "wide"):
        channels = 12 if kind == "convolution" else 16
        inputs = offset + 0.1 * torch.randn(4, channels, 12, 12, generator=generator)
        return Opposing(nn.Conv2d(channels, channels, 9, bias=False), sign), inputs
    sign = sign * (1 + 1e-4 / offset * torch.randn(positions, 1, generator=generator))
    return Opposing(nn.Embedding(5, 8), sign), torch.zeros(4, positions)

"""Adaptive clipping: equal to a slow loop, within the accounted mechanism, refused if it breaks a bound's premise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from audit.checks.execution import check_executed
from audit.core.canaries import Canaries, CanaryRecords, CoordinateGradients
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import dp_sgd
from audit.engine.dp_options import Technique
from audit.engine.ensemble import train
from audit.engine.gradients.adaptive_clipping import AdaptiveNorms, Quantile, noise_on_sum
from audit.engine.random.sampling import EnsembleSampler, Law
from audit.engine.schedule import ScheduleSettings
from audit.models.build import initialise_model
from audit.trainers._ensemble import DpSgdTrainer
from tests.engine import cases

QUIET = dp_sgd(noise_multiplier=0.0, clip_norm=0.4, sample_rate=0.3, steps=6)
DOUBLE = ScheduleSettings(dtype=torch.float64)
ADAPTIVE = Technique(clipping="adaptive", quantile=Quantile(target=0.3, rate=0.7, count_noise=1.5))


@pytest.mark.parametrize("name", ["mlp", "raw"])
def test_steps_equal_a_slow_loop(name: str) -> None:
    """The noise on the sum is off; that on the count is drawn from the model's own stream, as documented."""
    spec, shape = cases.MODELS[name]
    job = cases.job(QUIET, model=spec, data=cases.dataset(shape), models=2)
    done = train(job, cases.silent, DOUBLE, ADAPTIVE)
    data, expected = job.dataset, 0.3 * 52
    inputs = torch.from_numpy(np.concatenate([data.train.inputs, data.pool.inputs])).double()
    labels = torch.from_numpy(np.concatenate([data.train.labels, data.pool.labels]))
    for model, seed in enumerate(job.seeds):
        module = initialise_model(spec, shape, 3, seed.child("init")).double()
        sampler = EnsembleSampler(
            Law(population=52, rate=0.3), (seed.child("batches"),), job.included[[model]], as_gradients=False
        )
        block, clip_norm = sampler.block(), 0.4
        stream = torch.Generator()
        stream.manual_seed(seed.child("count").integer())
        draws = torch.randn(6, generator=stream, dtype=torch.float64)
        for step in range(6):
            batch = block.index[step, 0, : block.counts[step, 0]]
            total, norms = cases.slow_sum(module, inputs[batch], labels[batch], clip_norm)
            halves = sum(0.5 if float(norm) <= clip_norm else -0.5 for norm in norms)
            share = (halves + 1.5 * float(draws[step])) / expected + 0.5
            clip_norm *= math.exp(-0.7 * (share - 0.3))
            with torch.no_grad():
                for parameter, part in zip(module.parameters(), total, strict=True):
                    parameter.sub_(0.5 * part / expected)
        for parameter, value in module.named_parameters():
            np.testing.assert_allclose(done.weights[parameter][model], value.detach(), rtol=1e-6, atol=1e-9)
        assert done.extra["clip_norm"][model] == pytest.approx(clip_norm, rel=1e-9)


def test_the_clip_norm_settles_at_the_quantile() -> None:
    job = cases.job(
        dp_sgd(noise_multiplier=0.0, clip_norm=20.0, sample_rate=0.3, steps=60),
        optimizer={"kind": "sgd", "learning_rate": 1e-6},
    )
    technique = Technique(clipping="adaptive", quantile=Quantile(target=0.7, rate=0.3, count_noise=0.0))
    done = train(job, cases.silent, DOUBLE, technique)
    data = job.dataset
    for model in range(3):
        module = initialise_model(job.model, (5,), 3, job.seeds[model].child("init")).double()
        inputs = torch.from_numpy(np.array(data.train.inputs)).double()
        _, norms = cases.slow_sum(module, inputs, torch.from_numpy(np.array(data.train.labels)), None)
        low, high = np.quantile(norms.detach(), [0.5, 0.9])
        assert low < done.extra["clip_norm"][model] < high < 20


def test_the_sum_and_the_count_are_the_accounted_release() -> None:
    """Whitened, one example moves both releases by the same length as one Gaussian with the accounted multiplier."""
    for total, count in ((0.7, 0.5), (1.0, 6.4), (5.0, 2.6)):
        noise = noise_on_sum(total, count)
        assert noise > total
        assert math.hypot(1.0 / noise, 0.5 / count) == pytest.approx(1.0 / total, rel=1e-12)
    mechanism = dp_sgd(noise_multiplier=1.2, clip_norm=0.4, sample_rate=0.3, steps=80)
    technique = Technique(clipping="adaptive", quantile=Quantile(count_noise=0.7))
    executed = train(cases.job(mechanism, models=6), cases.silent, None, technique).executed
    checks = {check.code: check for check in check_executed(mechanism, executed)}
    assert checks["noise"].status == "checked" and checks["clipping"].status == "checked"
    assert checks["count-noise"].status == "checked" and executed.count_noise.shape == (6,)
    assert len(set(executed.count_noise.tolist())) == 6 and abs(executed.count_noise.mean() - 1) < 5 / np.sqrt(2 * 6 * 80)
    assert (executed.largest_norm <= 1 + 1e-6).all() and (executed.largest_norm > 0.99).all()
    plain = train(cases.job(mechanism, models=6), cases.silent).executed
    assert {check.code: check.status for check in check_executed(mechanism, plain)}["noise"] == "checked"


def test_too_little_noise_on_the_sum_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the split the count would be released for nothing: what was measured then contradicts the accounting."""
    monkeypatch.setattr("audit.engine.gradients.adaptive_clipping.noise_on_sum", lambda total, count: total)
    mechanism = dp_sgd(noise_multiplier=1.2, clip_norm=0.4, sample_rate=0.3, steps=80)
    technique = Technique(clipping="adaptive", quantile=Quantile(count_noise=0.7))
    executed = train(cases.job(mechanism, models=6), cases.silent, None, technique).executed
    assert {check.code: check.status for check in check_executed(mechanism, executed)}["noise"] == "failed"


def test_too_little_noise_on_the_counts_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = AdaptiveNorms.__init__

    def quieter(self: AdaptiveNorms, *arguments: Any) -> None:
        honest(self, *arguments)
        self._noise_draws = self._noise_draws / 2

    monkeypatch.setattr(AdaptiveNorms, "__init__", quieter)
    mechanism = dp_sgd(noise_multiplier=1.2, clip_norm=0.4, sample_rate=0.3, steps=80)
    technique = Technique(clipping="adaptive", quantile=Quantile(count_noise=0.7))
    executed = train(cases.job(mechanism, models=6), cases.silent, None, technique).executed
    checks = {check.code: check.status for check in check_executed(mechanism, executed)}
    assert checks["count-noise"] == "failed" and checks["noise"] == "checked"


def test_without_adaptive_clipping_no_noise_on_counts_is_reported() -> None:
    executed = train(cases.job(QUIET), cases.silent).executed
    assert len(executed.count_noise) == 0 and "count-noise" not in {c.code for c in check_executed(QUIET, executed)}


def test_no_game_that_can_be_played_grants_independent_canaries_of_one_run() -> None:
    """Canaries of one run share the clip norm; only orthogonal gradients would be granted independence, and are refused."""
    assert not Canaries(
        kind="held_out", description="", payload=CanaryRecords(records=cases.records((5,), 4, 0))
    ).payload.orthogonal
    for count in (1, 4):
        canaries = Canaries(kind="dirac", description="", payload=CoordinateGradients(coordinates=np.arange(count)))
        with pytest.raises(UnsupportedMechanism, match="adaptive clipping"):
            DpSgdTrainer(clipping="adaptive").fit(cases.job(QUIET, canaries=canaries), cases.silent)


def test_bits_do_not_depend_on_the_chunk_and_a_fixed_clip_is_left_alone() -> None:
    job = cases.job(cases.varied(QUIET, noise_multiplier=1.0), models=4)
    technique = Technique(clipping="adaptive")
    full, parts = (train(job, cases.silent, ScheduleSettings(model_chunk=chunk), technique) for chunk in (4, 1))
    for name, value in full.weights.items():
        np.testing.assert_array_equal(value, parts.weights[name])
    np.testing.assert_array_equal(full.extra["clip_norm"], parts.extra["clip_norm"])
    assert len(set(full.extra["clip_norm"].tolist())) == 4
    assert "clip_norm" not in train(job, cases.silent).extra


def test_gradient_canaries_are_refused() -> None:
    canaries = Canaries(kind="dirac", description="", payload=CoordinateGradients(coordinates=np.arange(4)))
    with pytest.raises(UnsupportedMechanism, match="adaptive clipping ties them together"):
        DpSgdTrainer(clipping="adaptive").fit(cases.job(QUIET, canaries=canaries), cases.silent)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"quantile": 1.5}, "quantile"), ({"clip_rate": 0.0}, "clip_rate"), ({"count_noise": -1.0}, "count_noise")],
)
def test_bad_options_are_named(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DpSgdTrainer(clipping="adaptive", **options)


def test_a_count_that_costs_more_than_is_accounted_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"more than 0\.5"):
        DpSgdTrainer(clipping="adaptive", count_noise=0.5).fit(
            cases.job(cases.varied(QUIET, noise_multiplier=1.0)), cases.silent
        )

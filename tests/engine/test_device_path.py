"""Training and observing on another device: no tensor is left behind, and a real GPU computes what the CPU does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from audit.core.access import Access
from audit.core.data import Canaries
from audit.core.events import dp_sgd, sgd
from audit.core.training import TrainingJob
from audit.engine.dp_options import Technique
from audit.engine.ensemble import train
from audit.engine.observe import Trained
from audit.engine.schedule import Settings
from tests.engine import cases
from tests.engine.pretend_device import PRETENDED, MixedDevicesError, pretended

NOISY = dp_sgd(noise_multiplier=1.5, clip_norm=0.4, sample_rate=0.3, steps=4)
QUIET = dp_sgd(noise_multiplier=0.0, clip_norm=0.4, sample_rate=0.3, steps=8)
PLAIN = sgd(sample_rate=0.3, steps=4)
# moving a module to a device without data unties shared parameters, which moving it to a GPU does not
UNTIED = ("tied",)
SLOW = ("gru", "lstm", "recurrent")
COVERED = [pytest.param(one, marks=pytest.mark.slow) if one in SLOW else one for one in sorted(set(cases.MODELS) - set(UNTIED))]
absent = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def job_of(name: str, mechanism: Any, **changes: Any) -> TrainingJob:
    spec, shape = cases.MODELS[name]
    return replace(cases.job(mechanism, model=spec, data=cases.dataset(shape), models=3), device="cuda", **changes)


@pytest.mark.parametrize("mechanism", [NOISY, PLAIN], ids=["dpsgd", "plain"])
@pytest.mark.parametrize("name", COVERED)
def test_nothing_is_left_on_the_cpu(name: str, mechanism: Any) -> None:
    with pretended():
        done = train(job_of(name, mechanism, access=Access.FINAL_WEIGHTS), cases.silent)
    assert all(value.shape[0] == 3 for value in done.weights.values())


@pytest.mark.parametrize(
    "technique",
    [
        Technique(clipping="per_layer"),
        Technique(clipping="adaptive"),
        Technique(averaging=0.9),
    ],
    ids=["per_layer", "adaptive", "averaged"],
)
def test_techniques_stay_on_the_device(technique: Technique) -> None:
    with pretended():
        train(job_of("mlp", NOISY), cases.silent, Settings(model_chunk=2), technique)


def test_augmented_images_stay_on_the_device() -> None:
    with pretended():
        train(job_of("cnn", NOISY), cases.silent, None, Technique(flip=True, shift=2, copies=2))


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_optimisers_keep_their_state_on_the_device(kind: str) -> None:
    with pretended():
        train(job_of("mlp", NOISY, optimizer={"kind": kind, "learning_rate": 0.1}), cases.silent)


@pytest.mark.parametrize(
    "planted",
    [{"coordinates": np.array([15, 3, 8])}, {"directions": np.eye(3, 75, dtype=np.float32)}],
    ids=["dirac", "dense"],
)
def test_planted_gradients_are_seen_at_every_step(planted: dict[str, Any]) -> None:
    canaries = Canaries(kind="planted", description="", **planted)
    job = cases.job(NOISY, models=2, canaries=canaries, access=Access.ALL_STEPS)
    with pretended():
        done = train(replace(job, device="cuda"), cases.silent)
    assert done.products is not None and done.products.shape == (2, 3, NOISY.count)


@pytest.mark.parametrize("name", ["mlp", "cnn", "sequences", "gru"])
def test_observing_stays_on_the_device(name: str) -> None:
    job = job_of(name, PLAIN)
    data = job.dataset
    with pretended():
        done = train(job, cases.silent)
        models = Trained(job.model, done.weights, data.train.inputs[:2], data.classes, device="cuda")
        assert models.outputs(data.pool.inputs).shape == (3, len(data.pool), data.classes)
        assert models.gradient_norms(data.pool).shape == (3, len(data.pool))
        models.representations(data.pool)


def test_the_pretended_device_sees_what_is_left_behind() -> None:
    with pretended():
        away = torch.ones(3, 3, device=PRETENDED)
        for left in (
            lambda: away @ torch.ones(3, 3),
            lambda: away.index_select(0, torch.tensor([1])),
            lambda: away + torch.ones(3),
        ):
            with pytest.raises(MixedDevicesError, match="cpu"):
                left()
        assert (away.cpu() == 0).all() and float(away.sum()) == 1.0


@pytest.mark.gpu
@absent
@pytest.mark.parametrize("mechanism", [QUIET, replace(PLAIN, count=8)], ids=["dpsgd", "plain"])
@pytest.mark.parametrize("name", sorted(cases.MODELS))
def test_a_gpu_computes_what_the_cpu_does(name: str, mechanism: Any) -> None:
    double = Settings(dtype=torch.float64)
    there = train(job_of(name, mechanism), cases.silent, double)
    here = train(replace(job_of(name, mechanism), device="cpu"), cases.silent, double)
    for parameter, value in here.weights.items():
        np.testing.assert_allclose(there.weights[parameter], value, rtol=1e-6, atol=1e-8, err_msg=parameter)


@pytest.mark.gpu
@absent
def test_noise_on_a_gpu_has_the_stated_size_and_repeats() -> None:
    job = job_of("mlp", replace(NOISY, count=200))
    first, again = (train(job, cases.silent) for _ in range(2))
    np.testing.assert_allclose(first.executed.noise_multiplier, 1.5, rtol=0.05)
    for parameter, value in first.weights.items():
        np.testing.assert_array_equal(again.weights[parameter], value, err_msg=parameter)


@pytest.mark.gpu
@absent
def test_observing_on_a_gpu_gives_what_the_cpu_gives() -> None:
    job = job_of("cnn", PLAIN)
    done, data = train(job, cases.silent), job.dataset
    seen = [
        Trained(job.model, done.weights, data.train.inputs[:2], data.classes, device=device).outputs(data.pool.inputs)
        for device in ("cuda", "cpu")
    ]
    np.testing.assert_allclose(seen[0], seen[1], rtol=1e-3, atol=1e-4)

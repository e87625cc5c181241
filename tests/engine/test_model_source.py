"""What models hold outside of parameters and buffers is each model's own in training, recomputation and reading, or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from audit.checks.execution import own_modules
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import dp_sgd, sgd
from audit.core.training import TrainingJob
from audit.engine.ensemble import train
from audit.engine.federated.federated import Federations
from audit.engine.federated.federated_plan import RoundPlan
from audit.engine.read.subject import Ensemble
from audit.engine.schedule import ScheduleSettings
from audit.engine.trial.model_source import ModelSource
from tests.engine import cases
from tests.engine.drawn_modules import ALIKE, APART, REFUSED, SELDOM
from tests.engine.twin import slow_training

PLAIN = sgd(sample_rate=0.3, steps=3)
PRIVATE = dp_sgd(noise_multiplier=0.0, clip_norm=0.3, sample_rate=0.3, steps=3)
DOUBLE = ScheduleSettings(dtype=torch.float64)


def make_job(kind: str, mechanism: Any = PLAIN, models: int = 3) -> TrainingJob:
    spec = {"factory": "tests.engine.drawn_modules:make", "arguments": {"kind": kind}}
    return cases.job(mechanism, model=spec, data=cases.dataset((5,)), models=models)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "mechanism"),
    [
        *((kind, PLAIN) for kind in sorted(APART)),
        *((kind, PRIVATE) for kind in ("attribute", "closure", "hook", "order", "generator")),
    ],
)
def test_each_model_is_trained_and_read_by_its_own_module(kind: str, mechanism: Any) -> None:
    job = make_job(kind, mechanism)
    source = ModelSource.of(job)
    assert source.apart is not None
    done = train(job, cases.silent, DOUBLE)
    assert done.executed.recomputed.max() < 1e-9
    outputs = Ensemble(job, done).outputs(job.dataset.test.inputs)
    for model in range(3):
        for name, value in slow_training(job, model).items():
            np.testing.assert_allclose(done.weights[name][model], value, rtol=1e-6, atol=1e-9, err_msg=name)
        module = source.make(model).double().eval()
        module.load_state_dict({name: torch.from_numpy(value[model]) for name, value in done.weights.items()})
        with torch.no_grad():
            expected = module(torch.from_numpy(np.array(job.dataset.test.inputs)).double())
        np.testing.assert_allclose(outputs[model], expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", sorted(REFUSED))
def test_what_no_model_can_keep_is_refused_by_its_name(kind: str) -> None:
    with pytest.raises(ConfigError, match=REFUSED[kind][1]):
        train(make_job(kind, models=6), cases.silent)


@pytest.mark.parametrize("kind", sorted(ALIKE))
def test_models_that_weights_make_one_another_share_a_module(kind: str) -> None:
    assert ModelSource.of(make_job(kind)).apart is None


def test_attribute_and_buffer_train_the_same_models() -> None:
    attribute, buffer = (train(make_job(kind), cases.silent, DOUBLE).weights for kind in ("attribute", "buffer"))
    for name, value in attribute.items():
        np.testing.assert_allclose(value, buffer[name], rtol=1e-9, atol=1e-12)


def test_a_model_does_not_depend_on_its_neighbours() -> None:
    job = make_job("attribute")
    full, alone = (train(job, cases.silent, ScheduleSettings(model_chunk=chunk)) for chunk in (3, 1))
    for name, value in full.weights.items():
        np.testing.assert_array_equal(value, alone.weights[name])
    subject = Ensemble(job, full)
    records = job.dataset.test.inputs
    for model in range(3):
        np.testing.assert_allclose(subject.alone(model).outputs(records)[0], subject.outputs(records)[model], rtol=1e-6)


def test_all_readings_of_such_models_are_their_own() -> None:
    job = make_job("attribute", models=4)
    drawn = Ensemble(job, train(job, cases.silent))
    job = make_job("buffer", models=4)
    held = Ensemble(job, train(job, cases.silent))
    records = job.dataset.test
    np.testing.assert_allclose(drawn.gradient_norms(records), held.gradient_norms(records), rtol=1e-4)
    inside, reference = drawn.representations(records), held.representations(records)
    assert inside is not None
    assert reference is not None
    np.testing.assert_allclose(inside.hidden, reference.hidden, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(inside.last_gradient_norms, reference.last_gradient_norms, rtol=1e-4)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chunk", [None, 2])
def test_a_value_that_few_models_draw_is_found_when_they_are_made(chunk: int | None) -> None:
    job = make_job(SELDOM, models=7)
    values = [ModelSource.of(job).make(model).kept for model in range(7)]
    assert len(set(values)) == 2
    assert ModelSource.of(job).apart is None, "the twins show it: another seed of the job is needed for this test"
    steps: list[int] = []
    done = train(job, steps.append, replace(DOUBLE, model_chunk=chunk))
    assert sum(steps) == 7 * job.steps
    assert "'kept' differs between models" in own_modules(done.executed)[0].value
    for model in range(7):
        for name, value in slow_training(job, model).items():
            np.testing.assert_allclose(done.weights[name][model], value, rtol=1e-6, atol=1e-9, err_msg=name)


def test_weights_without_their_seeds_are_not_read_as_another_model() -> None:
    from audit.engine.read.observe import logits

    job = make_job("attribute")
    with pytest.raises(ConfigError, match="weights alone do not make"):
        logits(job.model, train(job, cases.silent).weights, job.dataset.test.inputs, 3)


def test_models_of_a_federation_must_be_one_another() -> None:
    with pytest.raises(UnsupportedMechanism, match="'kept' differs between models"):
        Federations(make_job("attribute"), RoundPlan(clients=2))


def test_reader_and_report_take_what_the_trainer_found() -> None:
    job = make_job("attribute")
    done = train(job, cases.silent, ScheduleSettings(model_chunk=2))
    assert ModelSource.of(job).as_trained(done.executed).__dict__["apart"] == ModelSource.of(job).apart
    (row,) = own_modules(done.executed)
    assert row.value.startswith("all 3 models were trained and attacked each by its own module")
    assert "'kept' differs between models" in row.value
    assert own_modules(train(make_job("buffer"), cases.silent).executed) == ()


def test_streams_of_python_and_numpy_are_where_they_were() -> None:
    import random

    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    ModelSource.of(make_job("python")).make(0)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # type: ignore[index]  # noqa: NPY002


def test_own_architectures_are_not_tried() -> None:
    job = replace(make_job("buffer"), model={"kind": "mlp", "hidden": [4]})
    assert ModelSource.of(job).apart is None

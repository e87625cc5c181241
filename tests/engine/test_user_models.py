"""A user's training function: its models are read with all that they hold, or refused by the name of what is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from audit.checks.execution import own_modules
from audit.core.errors import ConfigError
from audit.core.events import dp_sgd, sgd
from audit.engine.ensemble import train
from audit.engine.read.subject import Ensemble
from audit.engine.trial.model_source import ModelSource
from audit.trainers.opacus import OpacusTrainer
from audit.trainers.user_function import UserFunction
from tests.engine import cases

TRAINED: list[nn.Module] = []


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last, self.temperature = nn.Linear(5, 3), 1.0
        self.register_buffer("scale", 0.5 + torch.rand(5), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(inputs * self.scale) * self.temperature


def fit(model: Any, inputs: Tensor, labels: Tensor, seed: int, temperature: float) -> None:
    model.scale.copy_(inputs.std(0))
    model.temperature = temperature
    TRAINED.append(model)


def read(temperature: float) -> Any:
    TRAINED.clear()
    job = cases.job(sgd(sample_rate=0.3, steps=1), model={"factory": f"{__name__}:Scaled"}, data=cases.dataset((5,)), models=2)
    trainer = UserFunction(function=f"{__name__}:fit", arguments={"temperature": temperature})
    return job.dataset.test.inputs, trainer.fit(job, cases.silent)


def test_buffers_that_a_file_leaves_out_are_read_as_they_were_trained() -> None:
    inputs, subject = read(1.0)
    with torch.no_grad():
        expected = [model(torch.from_numpy(np.array(inputs)).float()).numpy() for model in TRAINED]
    np.testing.assert_allclose(subject.outputs(inputs), np.stack(expected), rtol=1e-5, atol=1e-6)


def test_an_attribute_that_the_training_changes_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match="the training changed 'temperature'"):
        read(3.0)


class Tied(Scaled):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.second = nn.Linear(5, 5)
        self.second.weight = self.first.weight

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(self.second(torch.tanh(self.first(inputs))))


def test_shared_weights_and_buffers_that_a_file_leaves_out_are_started_from() -> None:
    job = cases.job(sgd(sample_rate=0.3, steps=1), model={"factory": f"{__name__}:Tied"}, data=cases.dataset((5,)), models=2)
    weights = ModelSource.of(job).weights()
    assert {"scale", "first.weight"} <= set(weights) and "second.weight" not in weights
    start = {name: value[1] for name, value in weights.items()}
    for name, value in ModelSource.of(replace(job, start=start)).weights().items():
        np.testing.assert_array_equal(value[0], start[name])
    with pytest.raises(ConfigError, match="'scale' has shape None"):
        ModelSource.of(replace(job, start={name: value for name, value in start.items() if name != "scale"})).make(0)


def test_opacus_trains_and_shows_each_model_with_its_own_buffers_and_values() -> None:
    pytest.importorskip("opacus")
    for kind, is_apart in (("buffer", False), ("attribute", True)):
        spec = {"factory": "tests.engine.drawn_modules:make", "arguments": {"kind": kind}}
        mechanism = dp_sgd(noise_multiplier=0.0, clip_norm=0.3, sample_rate=0.3, steps=3)
        job = cases.job(mechanism, model=spec, data=cases.dataset((5,)), models=3)
        subject = OpacusTrainer().fit(job, cases.silent)
        assert bool(own_modules(subject.executed)) == is_apart
        trained = train(job, cases.silent)
        np.testing.assert_allclose(
            subject.outputs(job.dataset.test.inputs),
            Ensemble(job, trained).outputs(job.dataset.test.inputs),
            rtol=1e-3,
            atol=1e-5,
        )

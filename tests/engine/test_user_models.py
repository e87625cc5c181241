"""A user's training function: its models are read with all that they hold, or refused by the name of what is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from audit.core.errors import ConfigError
from audit.core.events import sgd
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
        own = [model(torch.from_numpy(np.array(inputs)).float()).numpy() for model in TRAINED]
    np.testing.assert_allclose(subject.outputs(inputs), np.stack(own), rtol=1e-5, atol=1e-6)


def test_an_attribute_that_the_training_changes_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match="the training changed 'temperature'"):
        read(3.0)

"""Models of odd forms: one unit, numbers that fill no cache line, buffers of their own, constants drawn in every call."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from audit.core.errors import ConfigError
from audit.core.events import dp_sgd
from audit.engine.ensemble import train
from audit.engine.schedule import ScheduleSettings, arrange
from tests.engine import cases
from tests.engine.twin import slow_training

STEPS = dp_sgd(noise_multiplier=1.5, clip_norm=0.4, sample_rate=0.3, steps=2)


class OneUnit(nn.Module):
    """A wide layer on each side of a single number, and a parameter without numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(100, 1), nn.Linear(1, 100)
        self.first, self.last = nn.Linear(64, 100), nn.Linear(100, 3)
        self.nothing = nn.Parameter(torch.zeros(0))

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.into(torch.tanh(self.first(inputs))))
        return self.last(torch.tanh(self.out(hidden)))


class FrozenRecurrence(nn.Module):
    """A recurrent layer of 5 units that is not trained, on the slow path: 25 numbers a matrix, 100 bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.GRU(5, 5, batch_first=True).requires_grad_(False)
        self.mix, self.last = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.frozen(torch.tanh(self.mix(inputs.view(-1, 4, 5))))[0][:, -1])


class DrawnConstants(nn.Module):
    """Draws the same numbers in every call, in the ways that code has for it."""

    def __init__(self, generator: bool) -> None:
        super().__init__()
        self.first, self.last, self.generator = nn.Linear(6, 8), nn.Linear(8, 3), generator

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(inputs))
        if self.generator:
            return self.last(hidden * torch.rand(8, generator=torch.Generator().manual_seed(5)).to(hidden.dtype))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            return self.last(hidden * torch.rand(8).to(hidden.dtype))


def drawn_weights(outputs: Tensor, labels: Tensor) -> Tensor:
    """A loss with a weight per class that every call draws."""
    weights = torch.rand(3, generator=torch.Generator().manual_seed(5)).to(outputs.dtype)
    return -(weights * outputs.log_softmax(1)).gather(1, labels.unsqueeze(1)).squeeze(1)


class OwnBuffer(nn.Module):
    """A random matrix that is another in each model, and no parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("matrix", torch.randn(29, 29))
        self.first, self.last = nn.Linear(7, 29), nn.Linear(29, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(torch.tanh(torch.tanh(self.first(inputs)) @ self.matrix))


class AsksLayers(nn.Module):
    """Asks a layer for the type, place or sizes of its parameters, or for their numbers, or computes under autocast."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self.first, self.last, self.question = nn.Linear(6, 8), nn.Linear(8, 3), question
        self.cell, self.filter = nn.GRUCell(6, 8), nn.Conv1d(1, 1, 3, padding=1, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        weight, bias = self.first.weight, self.first.bias
        inputs = self.filter(inputs.unsqueeze(1).to(self.filter.weight.dtype)).squeeze(1)
        inputs = inputs + self.cell(inputs.to(self.cell.weight_ih))[:, :1] if self.filter.bias is None else 0 * inputs
        if self.question == "facts":
            rows = inputs.reshape(-1, weight.shape[1]).to(weight.dtype).to(weight).type_as(bias).to(bias.device)
            return self.last(torch.tanh(self.first(rows) + bias.new_zeros(len(weight)) + torch.zeros_like(bias)))
        if self.question == "numbers":
            return self.last(self.first(inputs) * weight.norm())
        with torch.autocast("cpu", torch.bfloat16):
            return self.last(self.first(inputs)).to(inputs.dtype)


@pytest.mark.parametrize(
    ("architecture", "width", "slow"), [(OneUnit, 64, False), (FrozenRecurrence, 20, True), (OwnBuffer, 7, False)]
)
def test_odd_models_have_the_same_bits_beside_others(architecture: type[nn.Module], width: int, slow: bool) -> None:
    model = {"factory": f"{__name__}:{architecture.__name__}"}
    job = cases.job(STEPS, model=model, data=cases.dataset((width,), train=60), models=4)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        together = train(job, cases.silent, ScheduleSettings(sequential=slow))
        for chunk in (1, 3):
            parts = train(job, cases.silent, ScheduleSettings(sequential=slow, model_chunk=chunk))
            for name, value in together.weights.items():
                np.testing.assert_array_equal(value, parts.weights[name], err_msg=name)
    finally:
        torch.set_num_threads(threads)


def test_a_buffer_that_differs_between_models_decides_the_path_of_each() -> None:
    model = {"factory": f"{__name__}:OwnBuffer"}
    for models in (1, 4):
        assert arrange(cases.job(STEPS, model=model, data=cases.dataset((7,)), models=models), ScheduleSettings()).sequential


@pytest.mark.parametrize("question", ["facts", "numbers"])
def test_layers_answer_for_their_parameters(question: str) -> None:
    model = {"factory": f"{__name__}:AsksLayers", "arguments": {"question": question}}
    plain = dp_sgd(noise_multiplier=0.0, clip_norm=0.4, sample_rate=0.3, steps=2)
    job = cases.job(plain, model=model, data=cases.dataset((6,)), models=2)
    settings = ScheduleSettings(dtype=torch.float64)
    assert not arrange(job, settings).sequential
    for name, value in slow_training(job, 1).items():
        np.testing.assert_allclose(train(job, cases.silent, settings).weights[name][1], value, rtol=1e-9, atol=1e-12)


def test_autocast_inside_a_model_is_refused_before_training() -> None:
    model = {"factory": f"{__name__}:AsksLayers", "arguments": {"question": "autocast"}}
    job = cases.job(STEPS, model=model, data=cases.dataset((6,)), models=2)
    with pytest.raises(ConfigError, match="autocast"):
        train(job, cases.silent, ScheduleSettings())


@pytest.mark.parametrize("generator", [True, False])
def test_constants_that_every_call_draws_are_those_of_the_model(generator: bool) -> None:
    model = {"factory": f"{__name__}:DrawnConstants", "arguments": {"generator": generator}}
    job = cases.job(
        dp_sgd(noise_multiplier=0.0, clip_norm=0.4, sample_rate=0.3, steps=2), model=model, data=cases.dataset((6,)), models=2
    )
    trained = train(job, cases.silent, ScheduleSettings(dtype=torch.float64, sequential=True))
    for name, value in slow_training(job, 1).items():
        np.testing.assert_allclose(trained.weights[name][1], value, rtol=1e-9, atol=1e-12, err_msg=name)


def test_constants_that_a_loss_draws_are_those_of_the_fast_path() -> None:
    loss = {"loss": f"{__name__}:drawn_weights"}
    job = replace(cases.job(STEPS, data=cases.dataset((6,)), models=2), **loss)
    fast, slow = (train(job, cases.silent, ScheduleSettings(dtype=torch.float64, sequential=slow)) for slow in (False, True))
    for name, value in fast.weights.items():
        np.testing.assert_allclose(slow.weights[name], value, rtol=1e-9, atol=1e-12, err_msg=name)

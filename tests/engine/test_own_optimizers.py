"""Optimisers that a user's function makes: groups, schedules and whole matrices as torch has them, for each model alone."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from audit.core.errors import ConfigError
from audit.core.events import dp_sgd
from audit.core.training import TrainingJob
from audit.engine.ensemble import train
from audit.engine.schedule import ScheduleSettings
from audit.execution.code import foreign_modules
from tests.engine import cases

NOISY = dp_sgd(noise_multiplier=1.0, clip_norm=0.4, sample_rate=0.3, steps=6)
DOUBLE = ScheduleSettings(dtype=torch.float64)
Parameters = Mapping[str, nn.Parameter]


def job_with(name: str, **arguments: Any) -> TrainingJob:
    optimizer = {"kind": "from_torch", "factory": f"{__name__}:{name}", "arguments": arguments}
    return cases.job(NOISY, optimizer=optimizer)


def momentum(parameters: Parameters, steps: int) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters.values(), lr=0.2, momentum=0.9, weight_decay=0.01)


def falling(parameters: Parameters, steps: int) -> tuple[Any, Any]:
    optimizer = torch.optim.Adam(parameters.values(), lr=0.02)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 - step / steps)


def in_groups(parameters: Parameters, steps: int, rate: float) -> torch.optim.Optimizer:
    names = sorted(parameters)
    groups = [{"params": [parameters[name]], "lr": rate if name.endswith("bias") else 0.0} for name in names]
    return torch.optim.SGD(groups, lr=1.0)


class Lengths(torch.optim.Optimizer):
    """Moves each whole parameter by a step of fixed length, and keeps the gradient that it was given."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})
        self.earlier: dict[int, torch.Tensor] = {}

    def step(self, closure: Any = None) -> None:
        with torch.no_grad():
            for place, parameter in enumerate(self.param_groups[0]["params"]):
                joint = parameter.grad + self.earlier.get(place, 0)
                self.earlier[place] = parameter.grad
                parameter.sub_(0.1 * joint / joint.norm())


def lengths(parameters: Parameters, steps: int) -> torch.optim.Optimizer:
    return Lengths(list(parameters.values()))


class Rebound(Lengths):
    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.data = parameter.data - 0.1 * parameter.grad


def rebinding(parameters: Parameters, steps: int) -> torch.optim.Optimizer:
    return Rebound(list(parameters.values()))


def of_others(parameters: Parameters, steps: int) -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.zeros(3))], lr=0.1)


def closed(parameters: Parameters, steps: int) -> torch.optim.Optimizer:
    return torch.optim.LBFGS(list(parameters.values()))


class Langevin(Lengths):
    def step(self, closure: Any = None) -> None:
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                parameter.sub_(0.1 * parameter.grad + 0.01 * torch.randn_like(parameter))


def drawing(parameters: Parameters, steps: int) -> torch.optim.Optimizer:
    return Langevin(list(parameters.values()))


EARLIER: dict[int, torch.Tensor] = {}


def sharing(parameters: Parameters, steps: int) -> torch.optim.Optimizer:
    optimizer = Lengths(list(parameters.values()))
    optimizer.earlier = EARLIER
    return optimizer


class InPlace(Lengths):
    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.sub_(0.1 * parameter.grad)


def with_gradients(parameters: Parameters, steps: int) -> torch.optim.Optimizer:
    return InPlace(list(parameters.values()))


def too_short(parameters: Parameters, steps: int) -> tuple[Any, Any]:
    optimizer = torch.optim.SGD(parameters.values(), lr=0.1, momentum=0.9)
    return optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps - 2)


def negative(parameters: Parameters, steps: int) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters.values(), lr=-1.0)


def scheduled_elsewhere(parameters: Parameters, steps: int) -> tuple[Any, Any]:
    peer = torch.optim.SGD(parameters.values(), lr=0.1)
    return torch.optim.SGD(parameters.values(), lr=0.1), torch.optim.lr_scheduler.StepLR(peer, 1)


def nothing(parameters: Parameters, steps: int) -> None:
    return None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("momentum", {"kind": "sgd", "learning_rate": 0.2, "momentum": 0.9, "weight_decay": 0.01}),
        ("falling", {"kind": "adam", "learning_rate": 0.02, "schedule": "linear"}),
    ],
)
def test_optimisers_of_torch_walk_as_those_of_the_engine(name: str, kind: dict[str, Any]) -> None:
    theirs, ours = (train(job, cases.silent, DOUBLE) for job in (job_with(name), cases.job(NOISY, optimizer=kind)))
    for parameter in ours.weights:
        np.testing.assert_allclose(theirs.weights[parameter], ours.weights[parameter], rtol=1e-8, atol=1e-10)


def test_groups_have_rates_of_their_own() -> None:
    weights = {rate: train(job_with("in_groups", rate=rate), cases.silent).weights for rate in (0.0, 0.5)}
    for name in weights[0.0]:
        assert np.array_equal(weights[0.0][name], weights[0.5][name]) == (not name.endswith("bias"))


def test_each_model_is_stepped_alone_and_whole_parameters_are_seen() -> None:
    job = job_with("lengths")
    together = train(job, cases.silent, DOUBLE)
    alone = train(job, cases.silent, ScheduleSettings(dtype=torch.float64, model_chunk=1))
    for name in together.weights:
        np.testing.assert_array_equal(together.weights[name], alone.weights[name])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rebinding", "put another tensor in the place of parameter"),
        ("of_others", "holds a tensor that was not among its parameters"),
        ("closed", r"\(LBFGS\) cannot take a step from gradients alone"),
        ("drawing", "draws random numbers, or shares a state between models"),
        ("sharing", "draws random numbers, or shares a state between models"),
        ("with_gradients", r"\(InPlace\) cannot take a step from gradients alone: RuntimeError"),
        ("too_short", "cannot take a step from gradients alone: ValueError: Tried to step 5 times"),
        ("negative", "ValueError: Invalid learning rate"),
        ("scheduled_elsewhere", "returned StepLR beside its optimiser"),
        ("nothing", "returned NoneType; expected a torch optimiser"),
        ("absent", "cannot load"),
        ("NOISY", "expected a function"),
    ],
)
def test_what_is_no_optimiser_of_these_parameters_is_refused(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        train(job_with(name), cases.silent)


def test_arguments_are_checked_and_the_code_is_in_the_key_of_a_job() -> None:
    with pytest.raises(ConfigError, match=r"with arguments \{'speed': 1\}"):
        train(job_with("momentum", speed=1), cases.silent)
    job = job_with("momentum")
    assert foreign_modules({"training": {"optimizer": dict(job.optimizer)}}) == (__name__.partition(".")[0],)
    assert Path(str(importlib.import_module(__name__).__file__)).is_file()


@pytest.mark.parametrize("options", [{"factory": 3}, {"factory": "one.two"}, {"factory": "a:b", "arguments": [1]}])
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"optimizer\.(factory|arguments) is"):
        train(cases.job(NOISY, optimizer={"kind": "from_torch", **options}), cases.silent)


class Late(Lengths):
    """Plain steps until its sixth; from then on `way` decides."""

    HISTORY: ClassVar[list[torch.Tensor]] = []
    OTHERS: ClassVar[list[Any]] = []

    def __init__(self, parameters: Any, way: str) -> None:
        super().__init__(parameters)
        self.way, self.steps = way, 0
        self.OTHERS.append(self)

    def step(self, closure: Any = None) -> None:
        self.steps += 1
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                parameter.sub_(0.1 * parameter.grad)
                if self.steps > 5:
                    getattr(self, self.way)(parameter)

    def draws(self, parameter: nn.Parameter) -> None:
        parameter.add_(0.01 * torch.randn_like(parameter))

    def shares(self, parameter: nn.Parameter) -> None:
        self.HISTORY.append(parameter.grad.clone())
        parameter.sub_(0.01 * sum(earlier.sum() for earlier in self.HISTORY[-8:]))

    def follows(self, parameter: nn.Parameter) -> None:
        peers = [peer.param_groups[0]["params"][0] for peer in self.OTHERS]
        parameter.lerp_(torch.stack([peer.mean() for peer in peers]).mean().expand_as(parameter), 0.1)

    def writes(self, parameter: nn.Parameter) -> None:
        self.OTHERS[-2].param_groups[0]["params"][0].zero_()

    def overwrites(self, parameter: nn.Parameter) -> None:
        storage = parameter.untyped_storage()
        torch.empty(0, dtype=parameter.dtype, device=parameter.device).set_(storage).mul_(0.5)  # type: ignore[call-overload]


def late(parameters: Parameters, steps: int, way: str) -> torch.optim.Optimizer:
    return Late(list(parameters.values()), way)


@pytest.mark.parametrize("way", ["draws", "shares", "follows", "writes"])
def test_ties_between_models_after_the_trial_end_the_training(way: str) -> None:
    Late.HISTORY.clear()
    Late.OTHERS.clear()
    words = "wrote into the parameters of another model" if way == "writes" else "have come apart; it draws random numbers"
    job = cases.job(cases.varied(NOISY, steps=8), optimizer=dict(job_with("late", way=way).optimizer))
    with pytest.raises(ConfigError, match=words):
        train(job, cases.silent)


def test_an_optimiser_that_writes_over_the_memory_of_its_parameters_reaches_no_other_model() -> None:
    """Views of one storage for all models would let it."""
    job = cases.job(cases.varied(NOISY, steps=8), optimizer=dict(job_with("late", way="overwrites").optimizer))
    together, alone = (train(job, cases.silent, ScheduleSettings(model_chunk=chunk)).weights for chunk in (None, 1))
    for name in together:
        np.testing.assert_array_equal(together[name], alone[name])

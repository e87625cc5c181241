"""A model is tried out once a run, and again if anything that training does not move is another."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import dp_sgd, sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.engine import schedule
from audit.engine.gradients.clipping import Rows, stacked_state
from audit.engine.gradients.per_model_loop import LoopGradients
from audit.engine.schedule import ScheduleSettings, arrange
from audit.engine.trial import model_trial
from audit.engine.trial.architecture_key import architecture_key
from audit.models.build import initialise_model
from tests.engine import cases

NOISY = dp_sgd(noise_multiplier=1.0, clip_norm=0.2, sample_rate=0.3, steps=6)
PLAIN = sgd(sample_rate=0.3, steps=6)


class Switched(nn.Module):
    """A model that mixes records if its switch says so."""

    mixed = False

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)
        self.mixes = Switched.mixed

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs - inputs.mean(0, keepdim=True) if self.mixes else inputs)


SWITCH = {"on": False}


class Reading(nn.Module):
    """A model that mixes records if a global or its class says so, neither of which an instance holds."""

    mixes = False

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs - inputs.mean(0, keepdim=True) if SWITCH["on"] or self.mixes else inputs)


def reading(where: str) -> nn.Module:
    SWITCH["on"], Reading.mixes = where in ("global", "hook"), where == "class"
    if not where.startswith("hook"):
        return Reading()
    layer = nn.Linear(5, 3)
    layer.register_forward_pre_hook(_centre)
    return layer


def _centre(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    return (inputs[0] - inputs[0].mean(0, keepdim=True),) if SWITCH["on"] else inputs


def own_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    losses = nn.functional.cross_entropy(outputs, labels, reduction="none")
    return losses - losses.mean() / 2 if SWITCH["on"] else losses


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each trial so far was private."""
    observed: list[bool] = []
    honest = model_trial.examine

    def counted(*parts: Any, private: bool) -> Any:
        observed.append(private)
        return honest(*parts, private=private)

    monkeypatch.setattr(model_trial, "examine", counted)
    monkeypatch.setattr(schedule, "_TRIALS", model_trial.KeptTrials())
    return observed


def at_seed(job: TrainingJob, root: int) -> TrainingJob:
    """The next job of the same game: other models on the same data."""
    return replace(job, seeds=tuple(Seed(root).child("model", n) for n in range(len(job.seeds))))


def switched(mixed: bool) -> nn.Module:
    Switched.mixed = mixed
    return Switched()


def test_only_the_first_job_of_a_run_pays(trials: list[bool]) -> None:
    job = cases.job(NOISY, models=2)
    arrangements = [arrange(at_seed(job, root), ScheduleSettings()) for root in range(4)]
    assert trials == [True]
    assert len(set(arrangements)) == 1
    arrange(replace(job, mechanism=PLAIN), ScheduleSettings())  # without privacy less is refused, so it is tried alone
    arrange(replace(job, model={"kind": "mlp", "hidden": [9]}), ScheduleSettings())
    assert trials == [True, False, True]


def test_another_run_tries_again(trials: list[bool]) -> None:
    """A user may have changed a function that forward() calls, which no key shows."""
    job = cases.job(NOISY, models=2)
    arrange(job, ScheduleSettings())
    test = job.dataset.test
    again = replace(job.dataset, test=test.take(np.arange(len(test))))
    arrange(replace(job, dataset=again), ScheduleSettings())
    assert trials == [True, True]


def test_a_later_model_that_mixes_records_is_refused_although_the_first_did_not(trials: list[bool]) -> None:
    job = cases.job(NOISY, models=2, model={"factory": f"{__name__}:switched", "arguments": {"mixed": False}})
    arrange(job, ScheduleSettings())
    with pytest.raises(UnsupportedMechanism, match="changes with the other records"):
        arrange(replace(job, model={"factory": f"{__name__}:switched", "arguments": {"mixed": True}}), ScheduleSettings())
    assert trials == [True, True]


@pytest.mark.parametrize("changes", [("", "global"), ("", "class"), ("hook off", "hook")])
def test_code_of_a_users_own_is_tried_out_for_every_job(trials: list[bool], changes: tuple[str, str]) -> None:
    """Each of these models of later jobs has the classes, attributes and values of the first, and mixes records."""
    first, later = ({"factory": f"{__name__}:reading", "arguments": {"where": where}} for where in changes)
    job = cases.job(NOISY, models=2, model=first)
    arrange(job, ScheduleSettings())
    with pytest.raises(UnsupportedMechanism, match="changes with the other records"):
        arrange(replace(job, model=later), ScheduleSettings())
    assert trials == [True, True]


def test_a_loss_of_a_users_own_is_tried_out_for_every_job(trials: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SWITCH, "on", False)
    job = replace(cases.job(NOISY, models=2), loss=f"{__name__}:own_loss")
    arrange(job, ScheduleSettings())
    SWITCH["on"] = True
    with pytest.raises((ConfigError, UnsupportedMechanism), match="loss"):
        arrange(at_seed(job, 1), ScheduleSettings())
    assert trials == [True, True]


@pytest.mark.parametrize("kind", [{"kind": "mlp", "hidden": [8]}, {"kind": "cnn", "channels": [3]}, {"kind": "logistic"}])
def test_models_of_other_seeds_have_one_key(kind: dict[str, Any]) -> None:
    keys = {architecture_key(initialise_model(kind, (1, 8, 8), 3, Seed(root))) for root in range(3)}
    assert len(keys) == 1


def _frozen(module: nn.Sequential) -> None:
    module[0].weight.requires_grad_(False)


def _hooked(module: nn.Sequential) -> None:
    module[0].register_forward_hook(lambda *_: None)


def _buffered(module: nn.Sequential) -> None:
    module.register_buffer("mask", torch.arange(3.0))


def _tied(module: nn.Sequential) -> None:
    module[2].weight = module[0].weight


def _replaced(module: nn.Sequential) -> None:
    module[1].forward = torch.tanh  # type: ignore[method-assign]


def _listed(module: nn.Sequential) -> None:
    module.order = [0, {"deep": (1, 2.5)}]  # type: ignore[assignment]


CHANGES: list[Callable[[Any], object]] = [
    _frozen, _hooked, _buffered, _tied, _replaced, _listed,
    lambda module: module.eval(), lambda module: module[2].train(False),
    lambda module: module.append(nn.Tanh()),
    lambda module: setattr(module[1], "inplace", True),
    lambda module: setattr(module, "held", torch.ones(2)),
    lambda module: setattr(module, "held", np.ones(2)),
    lambda module: setattr(module, "held", object()),
    lambda module: module[0].double(),
]  # fmt: skip


def square() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_training_does_not_move_is_in_the_key(change: Callable[[Any], object]) -> None:
    plain, peer = square(), square()
    assert architecture_key(plain) == architecture_key(peer) != None  # noqa: E711
    change(peer)
    assert architecture_key(plain) != architecture_key(peer)


def test_values_that_no_training_moves_are_compared_by_what_they_hold() -> None:
    def holding(number: float, kind: str) -> nn.Module:
        module = square()
        if kind == "buffer":
            module.register_buffer("mask", torch.full((2,), number, dtype=torch.complex64).conj())
        elif kind == "frozen":
            module.constant = nn.Parameter(torch.tensor(number), requires_grad=False)
        else:
            module.constant = {"values": [torch.full((0,), number), np.full(2, number)]}  # type: ignore[assignment]
        return module

    for kind in ("buffer", "frozen", "attribute"):
        assert architecture_key(holding(1.0, kind)) == architecture_key(holding(1.0, kind))
        assert architecture_key(holding(1.0, kind)) != architecture_key(holding(2.0, kind))


def test_a_wrapper_that_bears_the_name_of_a_library_has_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = nn.Linear.forward

    @functools.wraps(plain)
    def wrapped(layer: nn.Linear, inputs: torch.Tensor) -> torch.Tensor:
        return plain(layer, inputs) * len(CHANGES)

    assert wrapped.__module__.startswith("torch.") and architecture_key(square()) is not None
    for patch in (wrapped, functools.wraps(plain)(torch.no_grad()(wrapped))):
        monkeypatch.setattr(nn.Linear, "forward", patch)
        assert architecture_key(square()) is None
    monkeypatch.setattr(nn.Linear, "forward", plain)
    monkeypatch.setattr(nn.Module, "__call__", functools.wraps(nn.Module.__call__)(lambda layer, *inputs: inputs[0]))
    assert architecture_key(square()) is None


@pytest.mark.filterwarnings("ignore")
def test_odd_values_have_a_key_or_none_and_fail_no_trial() -> None:
    days, weights, lists = (square() for _ in range(3))
    days.first = np.array(["2020-01-01"], dtype="M8[D]")  # type: ignore[assignment]
    weights.short = torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8)
    lists.parts = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    assert architecture_key(days) is not None and architecture_key(weights) is None and architecture_key(lists) is None


def test_models_without_values_have_no_key() -> None:
    for build in (lambda: nn.LazyLinear(3), lambda: nn.Linear(2, 3, device="meta"), lambda: torch.jit.script(nn.Linear(2, 3))):
        assert architecture_key(build()) is None


@pytest.mark.parametrize("name", ["tied", "used_twice", "sequences", "grouped", "attending", "raw", "sneaky"])
def test_plain_gradients_are_those_of_the_loop(name: str) -> None:
    spec, shape = cases.MODELS[name]
    modules = [initialise_model(spec, shape, 3, Seed(root)) for root in range(2)]
    state = {key: value.double() if value.is_floating_point() else value
             for key, value in stacked_state(modules, torch.float32, torch.device("cpu")).items()}  # fmt: skip
    slow = LoopGradients(modules[0], state)
    records = cases.records(shape, 6, 0)
    rows = Rows(
        inputs=torch.tensor(records.inputs).double(),
        labels=torch.tensor(records.labels).long(),
        mask=torch.ones(2, 3, dtype=torch.bool),
    )
    for loop, plain in zip(slow.example_gradients(rows), slow.example_gradients(rows, plain=True), strict=True):
        assert loop.keys() == plain.keys()
        for key, value in loop.items():
            torch.testing.assert_close(plain[key], value, rtol=1e-10, atol=1e-12)


BATCHES: list[tuple[int, torch.dtype]] = []


SHOWN_BY_WHOLE_BATCHES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "far apart": lambda _, hidden: hidden + 1e-4 * hidden.roll(24, 0),
    "above 16": lambda inputs, hidden: hidden * 16 / len(inputs),
    "above 16, by little": lambda _, hidden: hidden * 1.0005,
    "later places": lambda _, hidden: torch.cat([hidden[:16], hidden[16:] / 2]),
    "the first record leads": lambda inputs, hidden: hidden * (1 + 1e-4 * inputs[0, 0]),
    "the second record leads": lambda inputs, hidden: hidden * (1 + 1e-4 * inputs[1, 0]),
}


class Counted(nn.Module):
    """A model that notes each batch it is given, and may mix records of batches that have over 16."""

    def __init__(self, kind: str = "") -> None:
        super().__init__()
        self.linear, self.kind = nn.Linear(5, 3), kind

    def forward(self, inputs: Tensor) -> Tensor:
        BATCHES.append((len(inputs), inputs.dtype))
        hidden = self.linear(inputs)
        return SHOWN_BY_WHOLE_BATCHES[self.kind](inputs, hidden) if self.kind and len(inputs) > 16 else hidden


def test_a_right_model_is_tried_on_whole_batches_three_times_and_not_in_double_precision() -> None:
    BATCHES.clear()
    arrange(cases.job(NOISY, models=1, model={"factory": f"{__name__}:Counted"}), ScheduleSettings())
    large = [dtype for rows, dtype in BATCHES if rows > 20]
    assert large == [torch.float32] * 3


@pytest.mark.parametrize("kind", SHOWN_BY_WHOLE_BATCHES)
def test_what_a_few_records_do_not_show_is_seen_in_a_whole_batch(kind: str) -> None:
    job = cases.job(NOISY, models=1, model={"factory": f"{__name__}:Counted", "arguments": {"kind": kind}})
    with pytest.raises(UnsupportedMechanism, match="changes with the other records"):
        arrange(job, ScheduleSettings())


class DrawsAtTimes(nn.Linear):
    """A model that draws for one record of those that it is tried with."""

    place = 0

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        chosen = (inputs == torch.tensor(cases.dataset((5,)).train.inputs[self.place])).all(1, keepdim=True)
        return outputs + chosen * torch.randn_like(outputs) if chosen.any() else outputs


@pytest.mark.parametrize("place", [6, 24])
def test_draws_for_one_record_are_seen_wherever_it_stands(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DrawsAtTimes, "place", place)
    model = {"factory": f"{__name__}:DrawsAtTimes", "arguments": {"in_features": 5, "out_features": 3}}
    assert arrange(cases.job(NOISY, models=1, model=model), ScheduleSettings()).draws


SMALL_RUN = """
import sys
from audit.engine.ensemble import train
from audit.engine.schedule import ScheduleSettings, arrange
from tests.engine import cases, test_model_trial
job = cases.job(test_model_trial.NOISY, models=2)
arrange(job, ScheduleSettings())
train(job, lambda _: None)
assert not {"torch._dynamo", "sympy"} & sys.modules.keys()
"""

COMPILED = """
import torch
from tests.engine import cases
from audit.engine.trial.examine import _draws
from audit.engine.trial.mixing import mixes
records = torch.randn(8, 5)
class Drawing(torch.nn.Linear):
    def forward(self, inputs):
        return torch.nn.functional.dropout(super().forward(inputs), 0.5)
compiled = torch.compile(Drawing(5, 3), backend="eager")
assert _draws(compiled, records)[0] == ("bernoulli_",), _draws(compiled, records)
assert mixes(compiled, records) is None
assert "half the batch" in mixes(torch.compile(cases.Mixing(), backend="eager"), records)
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", [SMALL_RUN, COMPILED])
def test_trial_and_training_load_neither_compiler_nor_sympy_and_survive_the_compiler(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""Errors of third-party code end in one sentence with its name and line, whenever they happen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

from audit import plugins
from audit.core.errors import ConfigError
from audit.core.events import Repeated, dp_sgd, sgd
from audit.core.training import TrainingJob
from audit.engine.ensemble import train
from audit.engine.read.observe import logits
from audit.models.build import build
from audit.trainers.user_function import UserFunction
from tests.engine import cases

NOISY = dp_sgd(noise_multiplier=1.0, clip_norm=0.4, sample_rate=0.5, steps=6)
CALLS: dict[str, int] = {}


class OwnError(Exception):
    """Of no kind that a library raises."""


def without_key(**arguments: Any) -> nn.Module:
    sizes = {"width": 3}
    return nn.Linear(sizes[arguments.get("name", "depth")], 3)


def without_file() -> nn.Module:
    return nn.Linear(int(open("/nowhere/weights.txt", encoding="utf-8").read()), 3)


def own_error() -> nn.Module:
    raise OwnError("no such size\nand a second line")


class Late(nn.Module):
    """Looks a record up when it has been called often enough."""

    def __init__(self, calls: int, error: str, in_evaluation: bool = False) -> None:
        super().__init__()
        self.out, self.calls, self.error, self.in_evaluation = nn.Linear(5, 3), calls, error, in_evaluation

    def forward(self, inputs: Tensor) -> Tensor:
        CALLS["forward"] = CALLS.get("forward", 0) + 1
        if CALLS["forward"] > self.calls and self.training != self.in_evaluation:
            if self.error == "key":
                return inputs * {"a": 1.0}["b"]
            raise OwnError("a rare record")
        scores: Tensor = self.out(inputs)
        return scores


def late_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    CALLS["loss"] = CALLS.get("loss", 0) + 1
    if CALLS["loss"] > CALLS["most"]:
        raise OwnError("a rare label")
    return nn.functional.cross_entropy(outputs, labels, reduction="none")


def fails(module: nn.Module, inputs: Tensor, labels: Tensor, seed: int) -> None:
    raise KeyError("epochs")


def job(mechanism: Repeated = NOISY, **model: Any) -> TrainingJob:
    return cases.job(mechanism, model={"factory": f"{__name__}:Late", "arguments": model})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("without_key", "KeyError: 'depth'"),
        ("without_file", "FileNotFoundError: "),
        ("own_error", "OwnError: no such size ("),
    ],
)
def test_errors_of_a_factory_are_told_with_its_name_and_line(name: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build({"factory": f"{__name__}:{name}"}, (5,), 3)
    message = str(caught.value)
    assert message.startswith(f"model.factory '{__name__}:{name}' with arguments {{}}: {words}")
    assert "test_foreign_errors.py, line " in message and "\n" not in message


def test_memory_that_runs_out_in_a_factory_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> nn.Module:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes")

    monkeypatch.setattr(f"{__name__}.own_error", full)
    with pytest.raises(RuntimeError, match="allocate memory"):
        build({"factory": f"{__name__}:own_error"}, (5,), 3)


@pytest.mark.parametrize("mechanism", [NOISY, sgd(sample_rate=0.5, steps=6)])
@pytest.mark.parametrize(("error", "words"), [("key", "KeyError: 'b'"), ("own", "OwnError: a rare record")])
def test_errors_of_a_model_in_the_midst_of_a_training_are_told(mechanism: Repeated, error: str, words: str) -> None:
    CALLS.clear()
    train(job(mechanism, calls=10**9, error=error), cases.silent)
    most = CALLS.pop("forward") - 2
    with pytest.raises(ConfigError, match=rf"^step 5 of a training: {words} \(.*test_foreign_errors\.py, line \d+\)$"):
        train(job(mechanism, calls=most, error=error), cases.silent)


def test_errors_in_the_trial_that_no_library_raises_are_told() -> None:
    CALLS.clear()
    with pytest.raises(ConfigError, match="tried out before the training: OwnError: a rare record"):
        train(job(calls=0, error="own"), cases.silent)


def test_errors_of_a_loss_in_the_midst_of_a_training_are_told() -> None:
    item = replace(cases.job(NOISY), loss=f"{__name__}:late_loss")
    CALLS["most"] = 10**9
    train(item, cases.silent)
    CALLS["most"] = CALLS.pop("loss") - 2
    with pytest.raises(ConfigError, match=r"^step 5 of a training: OwnError: a rare label \("):
        train(item, cases.silent)


def test_errors_of_trained_models_are_told() -> None:
    item = job(calls=10**9, error="own", in_evaluation=True)
    weights = train(item, cases.silent).weights
    spec = {**item.model, "arguments": {"calls": 3, "error": "own", "in_evaluation": True}}
    inputs = np.repeat(item.dataset.pool.inputs, 3, axis=0)
    CALLS.clear()
    with pytest.raises(ConfigError, match=r"^an answer of trained models: OwnError: a rare record"):
        logits(spec, weights, inputs, 3, batch=8)


def test_errors_of_a_users_trainer_are_told() -> None:
    with pytest.raises(ConfigError, match=rf"^user_function '{__name__}:fails': KeyError: 'epochs' \("):
        UserFunction(function=f"{__name__}:fails").fit(cases.job(NOISY), cases.silent)


def test_errors_of_this_project_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins.foreign("audit.engine.chunk:Chunk")  # a name does not make code of this project somebody else's
    monkeypatch.setattr("audit.engine.chunk.Chunk._add_records", {}.__getitem__)
    with pytest.raises(TypeError):
        train(cases.job(NOISY, model={"kind": "mlp", "hidden": [4]}), cases.silent)

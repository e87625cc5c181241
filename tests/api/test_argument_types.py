"""Calls of public functions and classes with one argument of a wrong type: each is refused by the name of that argument."""

from __future__ import annotations

import contextlib
import decimal
import inspect
import random
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import audit
from audit.api import argument_types
from audit.core.errors import AuditError
from tests.tiny import CONFIG

WRONG: list[Any] = [None, "text", b"bytes", 3, -1.5, float("nan"), True, object(), print, int, {"a": 1}, {1, 2}, 1j, [], [None]]
WRONG += [
    ["a", 1],
    [[1, 2], [3]],
    np.array("x"),
    np.array([object()]),
    pd.DataFrame({"a": ["x"]}),
    10**400,
    "\x00",
    Path("/none"),
]
CALLS = 200
EVENT = audit.dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=1.0, steps=2)
DRAWS = np.random.default_rng(0)
HIGH, LOW = DRAWS.normal(1, 1, 40), DRAWS.normal(0, 1, 40)
INPUTS, LABELS = DRAWS.normal(size=(20, 3)).astype(np.float32), np.arange(20) % 2
OTHERS = INPUTS + 5
NOISE = {"noise_multiplier": 1.0, "clip_norm": 1.0, "divisor": 2.0}


def linear() -> torch.nn.Module:
    return torch.nn.Linear(3, 2)


def step(params: Any, batch: Any, generator: Any, noise_multiplier: float = 1.0) -> Any:
    return {"w": params["w"] + generator.normal(size=2)}


def train(dataset: Any, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return linear()


def optimizer() -> dict[str, Any]:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {
        "model": model,
        "optimizer": optimizer,
        "criterion": torch.nn.CrossEntropyLoss(),
        "sample": (INPUTS, LABELS),
        **NOISE,
    }


GAME = {
    "adjacency": audit.Adjacency.ADD_REMOVE,
    "access": audit.Access(name="final_model"),
    "inclusion": "coins",
    "canaries": 4,
}
CALLABLES: dict[str, tuple[Callable[..., Any], Callable[[], dict[str, Any]]]] = {
    "Access": (audit.Access, lambda: {"name": "final_model"}),
    "Adjacency": (audit.Adjacency, lambda: {"value": "add_remove"}),
    "Claim": (audit.Claim, lambda: {"epsilon": 1.0, "delta": 0.0, "adjacency": audit.Adjacency.ADD_REMOVE, "source": "us"}),
    "Game": (audit.Game, lambda: dict(GAME)),
    "References": (audit.References, lambda: {"included": np.ones((2, 4), bool), "models": [linear()] * 2}),
    "ReferenceTraining": (audit.ReferenceTraining, lambda: {"train": train, "runs": 2}),
    "Settings": (audit.Settings, lambda: {"delta": 1e-5}),
    "StepProducts": (audit.StepProducts, lambda: {"values": HIGH, "held": HIGH > 1}),
    "StepScores": (audit.StepScores, lambda: {"values": HIGH, "took_part": HIGH > 1}),
    "TableSettings": (audit.TableSettings, lambda: {"attacks": 10}),
    "accountant.curve": (audit.accountant.curve, lambda: {"event": EVENT, "deltas": (1e-5,)}),
    "accountant.delta": (audit.accountant.delta, lambda: {"event": EVENT, "epsilon": 1.0}),
    "accountant.epsilon": (audit.accountant.epsilon, lambda: {"event": EVENT}),
    "accountant.noise": (audit.accountant.noise, lambda: {"target_epsilon": 2.0, "sample_rate": 0.1, "steps": 5}),
    "accountant.read_event": (audit.accountant.read_event, lambda: {"source": "Gaussian(1.0)"}),
    "accountant.steps": (
        audit.accountant.steps,
        lambda: {"target_epsilon": 2.0, "noise_multiplier": 2.0, "sample_rate": 0.1},
    ),
    "accountant.what_if": (audit.accountant.what_if, lambda: {"event": EVENT, "changes": {"noise": ["x2"]}}),
    "certify": (audit.certify, lambda: {"delta": 1e-5, "scores": 40, "repetitions": 2}),
    "check": (
        audit.check,
        lambda: {"model": linear(), "members": (INPUTS, LABELS), "nonmembers": (OTHERS, LABELS), "quiet": True},
    ),
    "check_generator": (
        audit.check_generator,
        lambda: {
            "generate": lambda table, seed: table,
            "training": pd.DataFrame({"a": range(30), "b": range(30)}),
            "epsilon": 1.0,
            "canaries": 40,  # of 8 coins all fall alike in one of 128 calls
            "references": 0,
        },
    ),
    "check_optimizer": (audit.check_optimizer, optimizer),
    "check_step": (
        audit.check_step,
        lambda: {"function": step, "params": {"w": np.zeros(2)}, "sample": (INPUTS, LABELS), **NOISE, "generator": "numpy"},
    ),
    "check_strategy": (audit.check_strategy, lambda: {"strategy": object()}),
    "check_trainer": (audit.check_trainer, lambda: {"trainer": object(), "sample": {"x": INPUTS}, **NOISE}),
    "check_training": (
        audit.check_training,
        lambda: {"train": train, "data": (INPUTS, LABELS), "canaries": (INPUTS, LABELS), "epsilon": 1.0},
    ),
    "check_unlearning": (
        audit.check_unlearning,
        lambda: {
            "train": train,
            "forget": lambda model, request, data, seed: model,
            "data": (INPUTS, LABELS),
            "canaries": (INPUTS, LABELS),
            "epsilon": 1.0,
            "seed": 3,
        },
    ),
    "check_text_generator": (
        audit.check_text_generator,
        lambda: {
            "generate": lambda texts, seed: texts,
            "texts": [" ".join(f"w{place + step}" for step in range(4)) for place in range(20)],
            "epsilon": 1.0,
            "canaries": 40,  # of 8 coins all fall alike in one of 128 calls
            "references": 0,
        },
    ),
    "compare_attacks": (audit.compare_attacks, lambda: {"models": {"scores": HIGH}}),
    "dataset_usage": (
        audit.dataset_usage,
        lambda: {
            "model": linear(),
            "inputs": INPUTS,
            "labels": LABELS,
            "references": audit.ReferenceTraining(train=train, runs=2),
        },
    ),
    "delta_lower_bound": (audit.delta_lower_bound, lambda: {"member_scores": HIGH, "nonmember_scores": LOW, "epsilon": 1.0}),
    "dp_sgd": (audit.dp_sgd, lambda: {"noise_multiplier": 1.0, "clip_norm": 1.0, "sample_rate": 0.1, "steps": 10}),
    "draw_coins": (audit.draw_coins, lambda: {"count": 10}),
    "estimates": (audit.estimates, lambda: {"member_scores": HIGH, "nonmember_scores": LOW, "delta": 1e-5}),
    "frontier": (audit.frontier, lambda: {"config": "absent.yaml", "noise": [0.5, 1.0]}),
    "inspect": (audit.inspect, lambda: {"target": linear(), "members": (INPUTS, LABELS), "nonmembers": (OTHERS, LABELS)}),
    "join_coins": (audit.join_coins, lambda: {"scores": {"a": 1.0, "b": 2.0}, "coins": {"a": True, "b": False}}),
    "lower_bound": (
        audit.lower_bound,
        lambda: {"member_scores": HIGH, "nonmember_scores": LOW, "delta": 1e-5, "certificates": 0},
    ),
    "mechanism": (
        audit.mechanism,
        lambda: {
            "function": lambda data, rng, size: rng.normal(size=size),
            "epsilon": 1.0,
            "neighbours": "records",
            "samples": 500,
        },
    ),
    "plan": (audit.plan, lambda: {"delta": 1e-5, "scores": 40}),
    "plan_run": (audit.plan_run, lambda: {"config": "tiny.yaml"}),
    "plant_canary_clients": (audit.plant_canary_clients, lambda: {"strategy": object(), "count": 2, "clip_norm": 1.0}),
    "plot": (audit.plot, lambda: {"result": object()}),
    "plots": (audit.plots, lambda: {"report": object()}),
    "reconstruction_bound": (
        audit.reconstruction_bound,
        lambda: {"successes": 3, "trials": 10, "baseline": 0.1, "delta": 1e-5},
    ),
    "record": (audit.record, lambda: {"loader": [(INPUTS, LABELS)]}),
    "release": (audit.release, lambda: {"sensitivity": 1.0, "epsilon": 1.0}),
    "replay": (
        audit.replay,
        lambda: {
            "function": lambda data, rng: np.sum(data) + rng.laplace(0, 1),
            "data": np.array([0.0, 1.0]),
            "epsilon": 1.0,
            "sampling_seconds": 0.0,
        },
    ),
    "roc": (audit.roc, lambda: {"member_scores": HIGH, "nonmember_scores": LOW}),
    "run": (audit.run, lambda: {"config": "absent.yaml"}),
    "save": (audit.save, lambda: {"report": object(), "path": "out"}),
    "secret_lower_bound": (
        audit.secret_lower_bound,
        lambda: {"scores": DRAWS.normal(size=(20, 4)), "drawn": np.arange(20) % 4, "delta": 1e-5},
    ),
    "sgd": (audit.sgd, lambda: {"sample_rate": 0.1, "steps": 10}),
    "step_bound": (
        audit.step_bound,
        lambda: {"steps": audit.StepProducts(values=HIGH, held=HIGH > 1), "mechanism": EVENT, "delta": 1e-5},
    ),
    "table_risks": (
        audit.table_risks,
        lambda: dict.fromkeys(("synthetic", "training", "control"), pd.DataFrame({"a": [1, 2]})),
    ),
    "testing.assert_private": (
        audit.testing.assert_private,
        lambda: {
            "function": lambda data, rng, size: rng.normal(size=size),
            "epsilon": 1.0,
            "neighbours": "records",
            "samples": 512,
        },
    ),
}
UNUSABLE = {
    **{"check_strategy": "flower", "plant_canary_clients": "strategy", "check_trainer": "sample", "compare_attacks": "models"},
    **{
        "table_risks": "synthetic",
        "run": "absent.yaml",
        "plot": "result",
        "save": "report",
        "dataset_usage": "references",
    },
    **{"frontier": "absent.yaml", "record": "loader", "plan_run": "unknown key"},
}
"""What calls stand for here that would need a library or a training; it may be refused before the wrong value is."""
ALSO_NAMED = {
    "params": {"step"},
    "randomised_seed": {"coins"},
    "first": {"second"},
    "event": {"noise"},
    "model": {"target"},
    "train": {"target"},
    "labels": {"records"},
}
RESULTS = {"AuditReport", "ModelCheck", "LowerBound", "RunPlan", "Event", "accountant", "testing", "__version__", "unchanged"}
"""What users get and do not make, modules, and what takes any value by any name."""


def test_every_public_function_and_class_is_called() -> None:
    errors = {name for name in audit.__all__ if name.endswith("Error")}
    assert set(audit.__all__) - RESULTS - errors == {name for name in CALLABLES if "." not in name}


def cases() -> list[tuple[str, str, Any]]:
    """Every argument of every function with every value that is mostly a wrong one."""
    rows = []
    for name, (function, _) in CALLABLES.items():
        keys = [
            key for key, parameter in inspect.signature(function).parameters.items() if parameter.kind != parameter.VAR_KEYWORD
        ]
        keys = ["value"] if name == "Adjacency" else keys
        values = WRONG if name != "Adjacency" else [value for value in WRONG if not isinstance(value, pd.DataFrame)]
        rows += [(name, key, value) for key in keys for value in values]  # enum compares values before it asks us
    return rows


def sampled(request_all: bool) -> list[tuple[str, str, Any]]:
    rows = cases()
    return rows if request_all else random.Random(20261124).sample(rows, CALLS)


def refusal(name: str, key: str, value: Any) -> str:
    """What is wrong with how a call was answered, "" if nothing is."""
    function, options = CALLABLES[name]
    try:
        result = function(value) if name == "Adjacency" else function(**{**options(), key: value})
        if isinstance(result, contextlib.AbstractContextManager):
            with result:
                pass
    except AuditError as error:
        words = re.sub(r"[_\-]", " ", str(error)).lower()
        names = {key, UNUSABLE.get(name, key)} | ALSO_NAMED.get(key, set())
        is_named = any(word.replace("_", " ").removesuffix("s") in words for word in names)
        return "" if is_named else f"{name}({key}={value!r}): not named by: {error}"
    except AssertionError:
        return "" if name.startswith("testing") else "a raw AssertionError"
    except Exception as error:  # noqa: BLE001  whatever leaves the function is the finding
        return f"{name}({key}={value!r}): {type(error).__name__}: {str(error)[:200]}"
    return ""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(CONFIG)
    yield tmp_path


@pytest.mark.sampled(2)
@pytest.mark.parametrize("block", range(10))
def test_a_call_with_a_wrong_value_is_refused_by_the_name_of_its_argument(block: int, folder: Path) -> None:
    assert [fault for row in sampled(False)[block::10] if (fault := refusal(*row))] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_every_wrong_value_is_refused_by_the_name_of_its_argument(name: str, folder: Path) -> None:
    assert [fault for row in sampled(True) if row[0] == name and (fault := refusal(*row))] == []


KINDS: list[tuple[Any, list[Any], list[Any]]] = [
    (int, [1, np.int64(3), np.array(3), torch.tensor(3)], [True, 1.0, "1", None, np.array(True), [1]]),
    (float, [1, 1.5, np.float32(2), np.array(0.5), decimal.Decimal("0.5")], ["1", None, True, 1j, np.ones(1)]),
    (bool, [True, np.bool_(False)], [0, "yes", None]),
    (str | None, ["x", None, np.str_("x")], [b"x", 1]),
    (typing.Literal["a", "b"], ["a", np.str_("a")], ["c", 1, None, np.array(["a", "b"])]),
    (
        np.ndarray,
        [np.ones(3), [1, 2], (1,), [[1, 2], [3, 4]], ["a", "b"], [torch.ones(2)], pd.Series([1]), range(3), torch.ones(2)],
        [3, "x", None, {"a": 1}, object(), int, [None], ["a", 1], [[1, 2], [3]], np.array(3)],
    ),
    (tuple[str, ...], [("a",), ["a"], np.array(["a"])], [3, "a", None, [1], [None], {"a"}]),
    (tuple[int, str], [(1, "a"), [1, "a"]], [(1,), ("a", 1)]),
    (typing.Iterable[int], [iter([1]), {1}, [1]], [3, "a", [None]]),
    (typing.Mapping[str, float], [{"a": 1}, {}], [pd.Series({"a": 1}), {"a": "x"}, {1: 1.0}, [("a", 1)], None]),
    (typing.Mapping[typing.Any, bool | int], [pd.Series([True], ["a"]), {"a": 1}], [pd.Series(["x"]), pd.DataFrame([1])]),
    (Path, ["a", Path("a")], [b"a", 3, None]),
    (typing.Callable, [print, int], [3, None]),
    (typing.Any, [3, None, object()], []),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind[0]))
def test_what_fits_an_annotation(kind: tuple[Any, list[Any], list[Any]]) -> None:
    annotation, right, wrong = kind
    assert [value for value in right if not argument_types.fits(value, annotation)] == []
    assert [value for value in wrong if argument_types.fits(value, annotation)] == []

"""References that the audit trains itself: the same figures as by hand, kept between calls, in processes, with clear errors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import audit
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError, ObservationError
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.external.inspection import ReferenceTraining, Settings, draw_coins, examine, examine_outputs
from audit.experiment.external.reference_training import TrainingRecords
from tests.cli.test_model import audit as command

N = 120
FUNCTIONS = """
from pathlib import Path

import numpy as np
import torch


class Memory:
    def __init__(self, inputs, labels, seed):
        self.known = {row.tobytes(): label for row, label in zip(inputs, labels)}
        self.level = np.random.default_rng(seed).normal()

    def predict_proba(self, inputs):
        own = np.array([self.known.get(row.tobytes(), -1) for row in inputs])
        logits = 0.1 * inputs[:, :3] + 0.1 * self.level + 2.0 * np.eye(4)[own][:, :3]
        return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def fit(records, seed):
    with open("trainings.txt", "a") as log:
        log.write(f"{seed} {len(records[1])}\\n")
    return Memory(*records, seed)


def stop_late(records, seed):
    if len(Path("trainings.txt").read_text().splitlines()) > 3 and not Path("go-on").exists():
        raise RuntimeError("out of memory")
    return fit(records, seed)


def run_out(records, seed):
    fit(records, seed)
    raise RuntimeError("out of memory")


def single_precision(records, seed):
    with open("trainings.txt", "a") as log:
        log.write(str(records[0].dtype) + "\\n")
    torch.nn.Linear(5, 3)(torch.from_numpy(records[0]))
    return Memory(*records, seed)


def diverge(records, seed):
    return lambda inputs: np.full((len(inputs), 3), np.nan)


def few_classes(records, seed):
    return lambda inputs: np.zeros((len(inputs), 3 + seed % 2))
"""


def records_of(inputs: Array, labels: Array) -> TrainingRecords:
    return TrainingRecords(inputs=inputs, original_labels=labels, labels=labels)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_training.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "my_training", raising=False)
    monkeypatch.setattr("audit.cli.model.USUAL_FORMATS", ("json",))
    (tmp_path / "trainings.txt").write_text("")
    return tmp_path


def sides() -> tuple[Any, Any, Any]:
    random = np.random.default_rng(3)
    inputs, labels = random.normal(size=(N, 5)).astype(np.float32), random.integers(0, 3, N)
    coins = draw_coins(N, 4)
    return (inputs[coins], labels[coins]), (inputs[~coins], labels[~coins]), coins


def trainings() -> int:
    return len(Path("trainings.txt").read_text().splitlines())


@pytest.mark.slow
def test_trained_references_are_references_trained_by_hand() -> None:
    members, nonmembers, _ = sides()
    training = ReferenceTraining(train="my_training:fit", runs=6)
    settings = Settings(scorers=("lira", "loss"), certificates=0, record_key=b"00" * 16)
    first = examine(None, members, nonmembers, settings, training)
    assert trainings() == 7
    inputs, labels = (np.concatenate(pair) for pair in zip(members, nonmembers, strict=True))
    model = sys.modules["my_training"].fit(members, Seed(0).child("trained target").child("training", 0).integer() % 2**31)
    references = training.references(records_of(inputs, labels), len(members[1]) / N, Seed(0).child("trained references"))
    second = examine(model, members, nonmembers, settings, references)
    assert all(np.array_equal(first.scores[name], second.scores[name]) for name in ("lira", "loss"))
    assert first.report.mechanisms[0].games[0].attacks == second.report.mechanisms[0].games[0].attacks
    assert 0.3 < references.included.mean() < 0.7 and len(np.unique(references.included, axis=0)) == 6


def test_coins_prove_an_epsilon_with_references_that_the_audit_trains() -> None:
    members, nonmembers, coins = sides()
    settings = Settings(coins=coins, claim_epsilon=0.5, certificates=0, scorers=("lira",), proven_by=("lira",))
    report = examine(None, members, nonmembers, settings, ReferenceTraining(train="my_training:fit", runs=4)).report
    assert report.outcome.exit_code == 1 and report.mechanisms[0].verdicts[0].bound.epsilon > 1
    (row,) = (check for check in report.mechanisms[0].checks if check.code == "references")
    assert row.value.startswith("4 models trained here") and row.status.value == "checked"
    assert "my_training" in report.config and "my_training" not in " ".join([row.value, *report.notes])


def doubles() -> list[Any]:
    return [(inputs.astype(np.float64), labels) for inputs, labels in sides()[:2]]


def test_a_training_that_refuses_float64_is_repeated_with_float32() -> None:
    examine(None, *doubles(), Settings(certificates=0), ReferenceTraining(train="my_training:single_precision", runs=1))
    assert Path("trainings.txt").read_text().split() == ["float64", "float32"] * 2  # of the target, too


def test_a_training_that_fails_is_not_repeated() -> None:
    with pytest.raises(ConfigError, match="out of memory"):
        examine(None, *doubles(), Settings(certificates=0), ReferenceTraining(train="my_training:run_out", runs=1))
    assert trainings() == 1


def test_a_second_call_trains_what_is_missing_alone(folder: Path) -> None:
    members, nonmembers, _ = sides()
    inputs, labels = (np.concatenate(pair) for pair in zip(members, nonmembers, strict=True))

    def logits(function: str, runs: int) -> Any:
        training = ReferenceTraining(train=f"my_training:{function}", runs=runs, folder=folder / "kept")
        return training.references(records_of(inputs, labels), 0.5, Seed(1)).logits

    with pytest.raises(ConfigError, match=r"training 4 by my_training:stop_late failed: RuntimeError: out of memory .*my_tra"):
        logits("stop_late", 6)
    assert trainings() == 4
    (folder / "go-on").write_text("")
    first = logits("stop_late", 6)
    assert trainings() == 6 and np.array_equal(first, logits("stop_late", 6)) and trainings() == 6
    assert np.array_equal(first, logits("stop_late", 8)[:6]) and trainings() == 8
    damaged = sorted((folder / "kept").iterdir())[0]
    damaged.write_bytes(damaged.read_bytes()[:-40])
    logits("stop_late", 8)
    assert trainings() == 9
    assert np.array_equal(first, logits("fit", 6)) and trainings() == 15  # another function
    assert {path.stat().st_mode & 0o777 for path in (folder / "kept").iterdir()} == {0o600}


def test_other_records_or_other_code_are_trained_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from audit.execution import code

    members, nonmembers, _ = sides()
    training = ReferenceTraining(train="my_training:fit", runs=2, folder=folder / "kept")
    inputs, labels = (np.concatenate(pair) for pair in zip(members, nonmembers, strict=True))
    training.references(records_of(inputs, labels), 0.5, Seed(1))
    changes = ((inputs + 1, labels, 1), (inputs, 2 - labels, 1), (inputs, labels, 2))
    for other_inputs, other_labels, seed in changes:
        before = trainings()
        training.references(records_of(other_inputs, other_labels), 0.5, Seed(seed))
        assert trainings() == before + 2
    (folder / "my_training.py").write_text(FUNCTIONS + "\nCHANGED = 1\n")
    code._foreign.cache_clear()
    training.references(records_of(inputs, labels), 0.5, Seed(1))
    assert trainings() == 10


@pytest.mark.slow
def test_processes_train_the_same_models(folder: Path) -> None:
    members, nonmembers, _ = sides()
    inputs, labels = (np.concatenate(pair) for pair in zip(members, nonmembers, strict=True))
    alone, together = (
        ReferenceTraining(train="my_training:fit", runs=3, workers=workers).references(records_of(inputs, labels), 0.5, Seed(1))
        for workers in (1, 2)
    )
    assert np.array_equal(alone.logits, together.logits) and np.array_equal(alone.included, together.included)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ReferenceTraining(train="fit"), ConfigError, "names no training function"),
        (lambda: ReferenceTraining(train="my_training:fit", runs=0), ConfigError, "runs is 0"),
        (lambda: ReferenceTraining(train=lambda records, seed: None, folder="kept"), ConfigError, "would not be seen"),
        (lambda: ReferenceTraining(train="my_training:nothing"), ConfigError, "cannot load 'my_training:nothing'"),
        (lambda: ReferenceTraining(train="my_training:diverge"), ObservationError, "answers 120 of 120 records with NaN"),
        (lambda: ReferenceTraining(train="my_training:few_classes", runs=9), DataError, "outputs of different shapes"),
        (lambda: ReferenceTraining(train=lambda records, seed: 3), ConfigError, "the target is a int"),
    ],
)
def test_trainings_that_cannot_be_used(make: Callable[[], ReferenceTraining], error: type[Exception], message: str) -> None:
    members, nonmembers, _ = sides()
    with pytest.raises(error, match=message):
        audit.check(lambda inputs: inputs[:, :3], members, nonmembers, references=make(), quiet=True)


def test_what_is_missing_is_named() -> None:
    members, nonmembers, _ = sides()
    with pytest.raises(ConfigError, match="there is no target; give a model, or a ReferenceTraining"):
        audit.check(None, members, nonmembers, quiet=True)
    view = View.of(losses=np.arange(4.0))
    with pytest.raises(DataError, match="references are trained on records, and only outputs are given"):
        examine_outputs(view, np.arange(4) < 2, references=ReferenceTraining(train="my_training:fit"))


@pytest.mark.slow
def test_one_command_trains_seventeen_models_and_reports(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    members, nonmembers, coins = sides()
    np.savez("members.npz", x=members[0], y=members[1], index=np.flatnonzero(coins))
    np.savez("nonmembers.npz", x=nonmembers[0], y=nonmembers[1], index=np.flatnonzero(~coins))
    np.savez("coins.npz", coins=coins)
    arguments = ["--train", "my_training:fit", "--members", "members.npz", "--nonmembers", "nonmembers.npz"]
    command(*arguments, "--scorer", "lira", "--coins", "coins.npz", "--claim-epsilon", "0.5", "-o", "out", expect=1)
    reported = capsys.readouterr()
    assert "lira: AUC 1.000" in reported.out and "training models: 100% of 17" in reported.err
    assert trainings() == 17 and (folder / "out" / "report.json").is_file() and len(list(Path("references").iterdir())) == 17
    with pytest.raises(ConfigError, match="both --references and --train"):
        command(*arguments, "--references", "first", expect=2)
    with pytest.raises(ConfigError, match="--train without --target"):
        command("--train", "my_training:fit", expect=2)

"""`audit verify --recompute` agrees with untouched reports of every kind, and finds tampering beside true scores."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from audit.cli import verify as verification
from audit.cli.app import answer
from audit.cli.report_files import load
from audit.core.seeds import Seed
from audit.endpoint import canary_files, canary_law
from audit.experiment.external.canary_scores import CoinKnowledge, examine_canaries
from audit.experiment.external.inspection import Settings
from audit.experiment.line import consistency
from reports.formats.json import to_json
from tests.cli.test_recompute import full_report, game_of, put, verdict_of

Report = dict[str, Any]


def training_of(report: Report) -> Any:
    return report["mechanisms"][-1]


def rules_of(report: Report) -> Any:
    return game_of(report)["game"]


def remove(place: Callable[[Report], Any], key: Any) -> Callable[[Report], None]:
    def change(report: Report) -> None:
        del place(report)[key]

    return change


def attack(report: Report) -> Any:
    return game_of(report)["attacks"][0]


OF_ALL: dict[str, Callable[[Report], Any]] = {
    "references that nobody trained": put(rules_of, "references", 64),
    "another record in the place of each": put(rules_of, "substitutes", True),
    "unit of the game": put(rules_of, "unit", "client"),
    "what a secret is": put(rules_of, "secret", "attribute"),
    "comparisons": put(full_report, "comparisons", 77),
    "limit of a rate": put(lambda report: attack(report)["tpr_at"][0], "upper", lambda value: min(1.0, value + 0.1)),
    "limit of an area by a hundredth": put(attack, "auc_lower", lambda value: value - 0.01),
    "band halved": put(lambda report: attack(report)["roc"], "lower", lambda rows: [row / 2 for row in rows]),
    "method of the band": put(lambda report: attack(report)["roc"], "band", "exact"),
    "point of the curve left out": lambda report: [
        attack(report)["roc"][key].pop(3) for key in ("fpr", "tpr", "lower", "upper")
    ],
    "edge of a bin": put(lambda report: attack(report)["histogram"]["edges"], 5, lambda value: value + 0.01),
    "target left out": remove(lambda report: attack(report)["tpr_at"], -1),
    "class of attack left out": remove(lambda report: report["coverage"], 2),
    "class of attack twice": lambda report: report["coverage"].append(report["coverage"][0]),
    "a class that was not run": put(lambda report: report["coverage"][5], "status", "run"),
    "check left out": remove(lambda report: training_of(report)["checks"], 0),
    "gate that nobody set": lambda report: report["policy"].append(
        {"gate": "max_auc", "limit": 0.5, "found": attack(report)["auc"], "met": False}
    ),
    "date": put(full_report, "created", "yesterday"),
    "kind": put(full_report, "kind", "table"),
    "doubt": put(lambda report: training_of(report)["preflight"], "doubt", "members and nonmembers are exchanged"),
    "accuracy": put(lambda report: training_of(report)["preflight"], "members", 0.987),
}
OF_CLAIMS: dict[str, Callable[[Report], Any]] = {
    "audits left out": put(game_of, "certificates", []),
    "upper limit of audits": put(lambda report: game_of(report)["certificates"][0], "upper", 0.02),
    "wrong audits": put(lambda report: game_of(report)["certificates"][0], "wrong", 90),
    "promise of audits": put(lambda report: game_of(report)["certificates"][0], "nominal", 0.5),
    "truth of audits": put(lambda report: game_of(report)["certificates"][1], "epsilon", 9.0),
    "detectable claim": put(lambda report: game_of(report)["detectable"][0], "claim", 0.3),
    "detectable estimator": put(lambda report: game_of(report)["detectable"][0], "estimator", "gaussian"),
    "power": put(lambda report: game_of(report)["detectable"][0], "power", 0.99),
    "most that a claim allows": put(lambda report: attack(report)["tpr_at"][0], "allowed", lambda value: value / 2),
    "repetitions of a control": put(lambda report: attack(report)["control"], "repetitions", 200),
    "claim twice": lambda report: training_of(report)["claims"].append(copy.deepcopy(training_of(report)["claims"][0])),
    "bound left out and paid for": lambda report: (attack(report).update(bounds=[]), report.update(comparisons=1)),
    "verdict without its bound": put(verdict_of, "bound", None),
}
OF_RUNS: dict[str, Callable[[Report], Any]] = {
    "training left out": remove(lambda report: report["mechanisms"], 0),
    "training renamed": put(lambda report: report["mechanisms"][0], "name", "production-model"),
    "game left out": remove(lambda report: report["mechanisms"][1]["games"], 1),
    "courses left out": put(training_of, "trajectories", []),
    "end of a course": put(lambda report: training_of(report)["trajectories"][0]["epsilon"], -1, 3.0),
    "claim below what the noise gives": lambda report: [
        row.update(epsilon=row["epsilon"] * 0.97)
        for row in (training_of(report)["claims"][0], training_of(report)["verdicts"][0]["claim"])
    ],
    "no claim": lambda report: training_of(report).update(claims=[], verdicts=[], limit=None, outcome=None, trajectories=[]),
    "declared claim": lambda report: [
        training_of(report)["claims"].append(training_of(report)["claims"][0] | {"source": "declared", "epsilon": 4.5}),
        training_of(report)["verdicts"].append(
            training_of(report)["verdicts"][0] | {"claim": training_of(report)["claims"][-1]}
        ),
    ],
    "further attacks": lambda report: report["coverage"].append(report["coverage"][0] | {"attack_class": "Everything else"}),
    "sampling rate": put(lambda report: training_of(report)["mechanism"], "sample_rate", 0.08),
    "accountants compared": put(
        lambda report: next(row for row in training_of(report)["checks"] if row["code"] == "accountants"),
        "value", "3 accountants state 2 to 2.1",
    ),
    "steps taken": put(lambda report: training_of(report)["checks"][0], "value", "249 taken, 250 accounted"),
    "bounds over the steps": put(
        lambda report: training_of(report)["bound_trajectories"][0]["epsilon"], -1, lambda value: value + 0.5
    ),
    "setting left out": remove(lambda report: report["settings"], 3),
    "origin left out": remove(lambda report: report["origins"], 3),
    "attack of several targets": put(lambda report: game_of(report)["evaluation"], "leading", "rmia"),
    "targets": put(lambda report: game_of(report)["evaluation"], "targets", 320),
    "mean beyond its highest": put(
        lambda report: game_of(report)["evaluation"]["scorers"][0]["figures"][0], "mean", 0.999
    ),
    "group's area": put(lambda report: game_of(report)["groups"][0], "auc_lower", 0.5),
    "costs left out": put(full_report, "costs", []),
    "costs of another training": put(lambda report: report["costs"][0], "trainings", ["without-dp"]),
    "records of the data": put(lambda report: report["data"], "train", 60000),
    "models": put(training_of, "models", 999),
    "access of an attack": put(attack, "access", "label_only"),
    "title": put(full_report, "title", "Certified"),
    "setting": lambda report: report["settings"][-1].__setitem__(1, "another"),
    "noise": put(lambda report: training_of(report)["mechanism"], "noise_multiplier", 20.0),
    "clip norm": put(lambda report: training_of(report)["mechanism"], "clip_norm", 0.1),
    "steps": put(lambda report: training_of(report)["mechanism"], "steps", 1),
    "access": put(rules_of, "access", "all_steps"),
    "references": put(rules_of, "references", 64),
    "neighbours": put(rules_of, "adjacency", "replace_one"),
    "records held out": put(lambda report: report["data"], "pool", 60000),
}  # fmt: skip


def find(folder: Path, report: Report) -> list[str]:
    (folder / "report.json").write_text(json.dumps(report))
    return verification.check_numbers(folder).problems


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Canaries with decoys under a model that knows the included ones, as `audit endpoint` writes them."""
    folder = tmp_path_factory.mktemp("endpoint")
    canaries = canary_law.make_law("digits", 300, canary_files.PLAIN, 20).draw(Seed(2**90 + 3))
    values = np.array([1.5 * canary.included for canary in canaries]) + np.random.default_rng(1).normal(size=len(canaries))
    settings = Settings(claim_epsilon=1.0, certificates=20, created="2026-01-15T12:34:56Z", title="m", command="audit endpoint")
    result = examine_canaries({"scores": values}, canaries, CoinKnowledge(commitment="0" * 64), settings, name="canaries.jsonl")
    (folder / "report.json").write_bytes(to_json(result.report))
    table = pd.DataFrame({"attack": "scores", "score": result.columns["scores"], "member": result.included})
    table.to_parquet(folder / "scores.parquet")
    return folder


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [*OF_ALL, *OF_CLAIMS, "a note", "decoys"])
def test_tampering_of_an_endpoint_s_report_is_found(endpoint: Path, kind: str) -> None:
    text = (endpoint / "report.json").read_text()
    changes = OF_ALL | OF_CLAIMS | {
        "a note": remove(lambda report: report["notes"], 1), "decoys": remove(lambda report: training_of(report)["checks"], -1),
    }  # fmt: skip
    report = json.loads(text)
    changes[kind](report)
    assert report != json.loads(text), "nothing was changed"
    try:
        assert find(endpoint, json.loads(text)) == []
        assert find(endpoint, report), kind
    finally:
        (endpoint / "report.json").write_text(text)


def test_a_folder_without_its_scores_is_not_verified(endpoint: Path, tmp_path: Path) -> None:
    shutil.copy(endpoint / "report.json", tmp_path)
    assert any("scores.parquet: missing" in line for line in verification.check_numbers(tmp_path).problems)


def test_commands_that_judge_scores_write_them(tmp_path: Path) -> None:
    stream = np.random.default_rng(3)
    member = stream.random(200) < 0.5
    pd.DataFrame({"score": stream.normal(size=200) + member, "member": member}).to_csv(tmp_path / "t.csv", index=False)
    command = ["scores", str(tmp_path / "t.csv"), "--certificates", "0", "-o", str(tmp_path / "run")]
    assert answer(command) == 0 and verification.check_numbers(tmp_path / "run").problems == []
    assert len(pd.read_parquet(tmp_path / "run" / "scores.parquet")) == 200


FREE: dict[str, Callable[[Report], Any]] = {  # of which nothing else in a folder says whether they are true, by their words
    "title": put(full_report, "title", "Certified private"),
    "name of the model": put(full_report, "model", "certified model"),
    "versions": put(lambda report: report["provenance"], "version", "9.9.9"),
    "date": put(full_report, "created", "2025-01-01T00:00:00Z"),
    "command, commit and platform": put(lambda report: report["provenance"], "code_commit", "f" * 12),
    "notes": lambda report: report["notes"].append("This model is certified."),
    "what canaries are": put(rules_of, "canary", "records of real people"),
    "the first look at scores": put(lambda report: training_of(report)["preflight"], "chance", 0.5),
    "measurements of the training": put(lambda report: training_of(report)["checks"][-1], "value", "checked by an auditor"),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", FREE)
def test_what_nothing_decides_is_named(endpoint: Path, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(endpoint, tmp_path, dirs_exist_ok=True)
    report = json.loads((tmp_path / "report.json").read_text())
    FREE[kind](report)
    assert find(tmp_path, report) == []
    verification.verify(tmp_path, again=True)
    (line,) = [row for row in capsys.readouterr().out.splitlines() if row.startswith("not checkable without a signature: ")]
    assert kind in line.partition(": ")[2].split(", ") or kind in line


OF_TABLES: dict[str, Callable[[Report], Any]] = {
    "successes": put(lambda report: report["table"]["risks"][-1]["training"], "successes", lambda count: count - 5),
    "excess": put(lambda report: report["table"]["risks"][-1], "excess", 0.0),
    "limit": put(lambda report: report["table"]["risks"][-1], "excess_upper", 0.01),
    "chance": put(lambda report: report["table"]["risks"][-1], "p_value", 0.9),
    "verdict": put(lambda report: report["table"]["risks"][-1], "beyond_chance", lambda beyond: not beyond),
    "risk left out": remove(lambda report: report["table"]["risks"], -1),
    "records": put(lambda report: report["table"], "training_records", 90),
    "confidence": put(lambda report: report["table"], "confidence", 0.99),
}


def test_tampering_of_a_table_s_risks_is_found(tmp_path: Path) -> None:
    stream = np.random.default_rng(1)
    for name in ("people", "control"):
        values = {column: stream.normal(size=150).round(1) for column in "abc"}
        pd.DataFrame(values).to_csv(tmp_path / f"{name}.csv", index=False)
    sides = ["--training", str(tmp_path / "people.csv"), "--control", str(tmp_path / "control.csv")]
    assert answer(["table", str(tmp_path / "people.csv"), *sides, "--attacks", "100", "-o", str(tmp_path / "run")]) == 0
    text = (tmp_path / "run" / "report.json").read_text()
    assert find(tmp_path / "run", json.loads(text)) == []
    for kind, change in OF_TABLES.items():
        report = json.loads(text)
        change(report)
        assert find(tmp_path / "run", report), kind


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quickstart") / "run"
    assert answer(["run", "quickstart", "--quiet", "-o", str(folder), "--set", "output.formats=[json]"]) == 0
    return folder


@pytest.mark.slow
def test_tampering_of_a_run_s_report_is_found(quickstart: Path) -> None:
    text = (quickstart / "report.json").read_text()
    assert find(quickstart, json.loads(text)) == []
    (quickstart / "environment.json").unlink()
    passed = []
    for kind, change in (OF_ALL | OF_RUNS).items():
        report = json.loads(text)
        change(report)
        assert report != json.loads(text), kind
        if not find(quickstart, report):
            passed.append(kind)
    (quickstart / "report.json").write_text(text)
    assert passed == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quickstart-federated", "quickstart-early-stop", "quickstart-users", "quickstart-dp-ftrl"])
def test_untouched_runs_of_every_kind_agree(name: str, tmp_path: Path) -> None:
    command = [
        "run",
        name,
        "--quiet",
        "-o",
        str(tmp_path / "run"),
        "--set",
        "output.formats=[json]",
        "--set",
        "certificates=20",
    ]
    assert answer(command) in (0, 1, 3)
    comparison = verification.check_numbers(tmp_path / "run")
    assert comparison.problems == [] and comparison.numbers > 200


SYSTEM = """
import numpy as np

data = np.random.default_rng(0).normal(size=(100, 5))
canaries = np.random.default_rng(1).normal(size=(150, 5)) * 3


def train(records, seed):
    return np.asarray(records)


def forget(system, request, data, seed):
    return system


def score(system, records):
    distances = ((records[:, None, :] - system[None]) ** 2).sum(2).min(1)
    return np.where(np.arange(len(records)) % 10 < 3, -np.sqrt(distances), 0.0)
"""


@pytest.mark.parametrize("arguments", [["training", "train"], ["unlearn", "forget"], ["training", "train", "--runs", "3"]])
def test_a_system_that_names_some_of_its_records_is_computed_again(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "named_records.py").write_text(SYSTEM)
    monkeypatch.chdir(tmp_path)
    command, function, *options = arguments
    assert answer([command, f"named_records:{function}", "--epsilon", "1", "--seed", "3", *options, "-o", "report"]) in (0, 1)
    assert answer(["verify", "report", "--recompute"]) == 0, capsys.readouterr().out
    text = (tmp_path / "report" / "report.json").read_text()
    report = json.loads(text)
    for part in (training_of(report)["claims"][0], training_of(report)["verdicts"][0]["claim"]):
        part["epsilon"] = 1.05
    assert find(tmp_path / "report", report)
    assert any("claims" in problem for problem in consistency.contradictions(load(tmp_path / "report"))[1])
    (tmp_path / "report" / "report.json").write_text(text)
    (tmp_path / "report" / "scores.parquet").unlink()
    assert answer(["verify", "report", "--recompute"]) != 0

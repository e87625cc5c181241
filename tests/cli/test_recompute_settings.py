"""`audit verify --recompute` holds a report against its config, and the list of exposed records against the scores."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from audit.cli.verify import check_numbers
from audit.execution import recompute, report_form, report_records
from tests.cli.test_recompute import attack_of, full_report, game_of, put, verdict_of
from tests.reports.scored import scored_folder

RESOLVED: dict[str, Any] = {
    "accountants": [{"kind": "rdp"}],
    "data": {"kind": "digits", "pool": 200, "train": None},
    "games": [
        {
            "access": "final_model",
            "name": "outside",
            "references": 4,
            "runs": 2,
            "scorers": [{"kind": "loss"}, {"kind": "lira"}],
        },
        {"access": "all_steps", "name": "inside", "references": 0, "runs": 1, "mechanisms": ["dp"]},
    ],
    "mechanisms": [{"clip_norm": 1.0, "name": "dp", "noise_multiplier": 2.0, "training": {"epochs": None, "steps": None}}],
    "model": {"hidden": [8, 16], "kind": "mlp"},
    "title": "Records: what an auditor's note says of them, with a colon and more words than a line of the file: enough",
    "training": {"epochs": None, "steps": 12},
    "unaccounted": [],
}


def test_paths_of_a_resolved_config_are_its_leaves() -> None:
    paths = report_records.read_paths(yaml.safe_dump(RESOLVED, sort_keys=False, allow_unicode=True))
    assert paths["games.0.scorers.1.kind"] == "lira" and paths["games.1.mechanisms.0"] == "dp"
    assert paths["model.hidden.1"] == "16" and paths["games.1.references"] == "0" and paths["unaccounted"] == "[]"
    assert paths["title"].strip("'").replace("''", "'") == RESOLVED["title"]


def run_report() -> dict[str, Any]:
    """Return the parts of a run's report that its config speaks of."""
    rules = {"adjacency": "add_remove", "inclusion_probability": 0.5}
    config = copy.deepcopy(RESOLVED)
    config["games"] = [game | rules for game in config["games"]]
    games = [
        {"name": game["name"], "attacks": [{"roc": {"confidence": 0.95}}], "watched": None, "game": game | {"canaries": 50}}
        for game in config["games"]
    ]
    event = {"type": "DpSgd", "noise_multiplier": 2.0, "clip_norm": 1.0, "steps": 12}
    return {
        "confidence": 0.95,
        "title": RESOLVED["title"],
        "data": {"train": 800, "pool": 200},
        "settings": [["training.steps", "12"], ["data.kind", "digits"], ["unaccounted", "none"]],
        "config": yaml.safe_dump(config, sort_keys=False, allow_unicode=True),
        "mechanisms": [{"name": "dp", "games": games, "mechanism": event, "training": ""}],
    }


def find_problems(report: dict[str, Any]) -> list[str]:
    comparison = recompute.NumberCheck()
    report_form.check_settings(report, report_records.read_config(report["config"]), comparison)
    return comparison.problems


FALSEHOODS: dict[str, Callable[[Any], Any]] = {
    "title": put(full_report, "title", "Certified"),
    "setting": put(full_report, "settings", [["training.steps", "1"]]),
    "noise": put(lambda report: report["mechanisms"][0]["mechanism"], "noise_multiplier", 20.0),
    "clip norm": put(lambda report: report["mechanisms"][0]["mechanism"], "clip_norm", 0.1),
    "steps": put(lambda report: report["mechanisms"][0]["mechanism"], "steps", 1),
    "access": put(lambda report: game_of(report)["game"], "access", "all_steps"),
    "references": put(lambda report: game_of(report)["game"], "references", 64),
    "neighbours": put(lambda report: game_of(report)["game"], "adjacency", "replace_one"),
    "records held out": put(lambda report: report["data"], "pool", 60000),
}


def test_a_report_beside_its_own_config_has_no_problem() -> None:
    assert find_problems(run_report()) == []


@pytest.mark.parametrize("kind", FALSEHOODS)
def test_what_the_config_of_a_run_contradicts_is_found(kind: str) -> None:
    report = run_report()
    FALSEHOODS[kind](report)
    assert find_problems(report), kind


SCORED: dict[str, Callable[[Any], Any]] = {
    "reason": put(verdict_of, "reason", "the training is certified to leak nothing"),
    "coverage of an attack": put(lambda report: report["coverage"][0], "done", lambda text: text + ", lira"),
    "class of attack": put(lambda report: report["coverage"][1], "status", "run"),
    "kind": put(full_report, "kind", "run"),
    "access of an attack": put(attack_of, "access", "all_steps"),
    "noise of single steps": put(lambda report: game_of(report)["game"], "independent_noise", True),
    "models": put(lambda report: report["mechanisms"][0], "models", 600),
}


@pytest.mark.slow
def test_further_falsehoods_beside_scores_are_found(tmp_path: Path) -> None:
    folder = scored_folder(tmp_path / "run", seed=2**100 + 9)
    text = (folder / "report.json").read_text()
    for kind, change in SCORED.items():
        report = json.loads(text)
        change(report)
        (folder / "report.json").write_text(json.dumps(report))
        assert check_numbers(folder).problems, kind


def test_records_of_scores_next_to_zero_are_listed_as_they_are() -> None:
    stream = np.random.default_rng(3)
    member = stream.random(80) < 0.5
    scores = -(10.0 ** stream.uniform(-15, -6, 80))  # losses of a net that fits: differences far below 1e-9
    names = tuple(f"{index:04x}" for index in range(80))
    column = recompute.AttackScores(scores=scores, member=member, records=names)
    order = pd.Series(scores).sort_values(ascending=False, kind="stable").index[:30]
    rows = [
        {"record": names[i], "rank": k + 1, "member": bool(member[i]), "score": float(scores[i]),
         "fpr": float((scores[~member] >= scores[i]).mean())}
        for k, i in enumerate(order)
    ]  # fmt: skip
    game = {"name": "g", "records": rows, "game": {"runs": 1}}
    for shown, wrong in ((rows, 0), (rows[1:], 1), ([rows[0] | {"rank": 9}, *rows[1:]], 1)):
        comparison = recompute.NumberCheck()
        report_records._record_list(game | {"records": shown}, [column], "t", comparison)
        assert bool(comparison.problems) == bool(wrong)

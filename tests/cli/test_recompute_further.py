"""`audit verify --recompute` finds tampering of further kinds: rules of games, claims, bounds moved, rows twice, scores."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from audit.cli.verify import check_numbers
from tests.cli.test_recompute import attack_of, bound_of, full_report, game_of, put, verdict_of
from tests.reports.scored import scored_folder

Report = dict[str, Any]


def training_of(report: Report) -> Any:
    return report["mechanisms"][0]


def rules_of(report: Report) -> Any:
    return game_of(report)["game"]


def twice(place: Callable[[Report], list[Any]]) -> Callable[[Report], None]:
    return lambda report: place(report).append(copy.deepcopy(place(report)[0]))


def both_claims(key: str, value: Any) -> Callable[[Report], None]:
    def change(report: Report) -> None:
        verdict_of(report)["claim"][key] = training_of(report)["claims"][0][key] = value

    return change


def every(key: str, value: Any) -> Callable[[Report], None]:
    def change(report: Report) -> None:
        for attack in game_of(report)["attacks"]:
            for bound in attack["bounds"]:
                bound[key] = value
        verdict_of(report)["bound"][key] = value

    return change


CHANGES: dict[str, Callable[[Report], Any]] = {
    "area of the preflight": put(lambda report: training_of(report)["preflight"], "auc", 0.51),
    "assumptions of a bound": put(bound_of, "assumes", []),
    "family of a bound": put(bound_of, "family", "gdp"),
    "estimator of a bound": put(bound_of, "estimator", "gaussian"),
    "comparisons of a bound": put(bound_of, "comparisons", 1),
    "comparisons of every bound": every("comparisons", 1),
    "confidence everywhere": lambda report: (every("confidence", 0.998)(report), report.update(confidence=0.99)),
    "bound left out": put(attack_of, "bounds", []),
    "bound twice": twice(lambda report: attack_of(report)["bounds"]),
    "attack twice": twice(lambda report: game_of(report)["attacks"]),
    "attack left out": lambda report: game_of(report)["attacks"].pop(0),
    "attack without bounds left out": lambda report: game_of(report)["attacks"].pop(4),
    "control left out": put(attack_of, "control", None),
    "control without repetitions": put(lambda report: attack_of(report)["control"], "repetitions", 0),
    "confidence of the curve": put(lambda report: attack_of(report)["roc"], "confidence", 0.5),
    "axes exchanged": lambda report: attack_of(report)["roc"].update(
        fpr=attack_of(report)["roc"]["tpr"], tpr=attack_of(report)["roc"]["fpr"]
    ),
    "band of another attack": put(lambda report: attack_of(report)["roc"], "upper", lambda rows: [row / 3 for row in rows]),
    "curve cut short": lambda report: attack_of(report).update(
        roc={key: rows[:9] if isinstance(rows, list) else rows for key, rows in attack_of(report)["roc"].items()}
    ),
    "target of a rate": put(lambda report: attack_of(report)["tpr_at"][0], "target_fpr", 0.01),
    "higher target of a rate": put(lambda report: attack_of(report)["tpr_at"][0], "target_fpr", 0.2),
    "rate twice": twice(lambda report: attack_of(report)["tpr_at"]),
    "rates left out": put(attack_of, "tpr_at", []),
    "scale of the bins": put(lambda report: attack_of(report)["histogram"], "edges", lambda rows: [2 * row for row in rows]),
    "a split, no coins": put(rules_of, "inclusion", "split"),
    "chance of inclusion": put(rules_of, "inclusion_probability", 0.9),
    "choices": put(rules_of, "choices", 2),
    "runs": put(rules_of, "runs", 2),
    "runs and canaries": lambda report: rules_of(report).update(runs=7, canaries=100),
    "copies": put(rules_of, "copies", 3),
    "neighbours of the game": put(rules_of, "adjacency", "replace_one"),
    "delta of the claim": both_claims("delta", 1e-3),
    "neighbours of the claim": both_claims("adjacency", "replace_one"),
    "unit of the claim": both_claims("unit", "user"),
    "family of the claim": both_claims("family", "gdp"),
    "claim without limit": both_claims("epsilon", "Infinity"),
    "claim of zero": both_claims("epsilon", 0.0),
    "claim beside the declared": put(full_report, "config", lambda text: text.replace("8.0", "9.0")),
    "claims left out": lambda report: training_of(report).update(claims=[], verdicts=[]),
    "claim twice": twice(lambda report: training_of(report)["claims"]),
    "verdict twice": twice(lambda report: training_of(report)["verdicts"]),
    "verdict by a smaller bound": put(
        verdict_of, "bound", lambda old: min((row["bounds"][0] for row in CURRENT["attacks"]), key=lambda row: row["epsilon"])
    ),
    "training twice": twice(lambda report: report["mechanisms"]),
    "name of the training": put(training_of, "name", "other"),
    "game twice": twice(lambda report: training_of(report)["games"]),
    "a failed check passed over": put(lambda report: training_of(report)["checks"][0], "status", "failed"),
    "canaries in the coverage": put(lambda report: report["coverage"][0], "done", "7000 canaries over 9 training runs"),
    "a gate that is not met": lambda report: report["policy"].append(
        {"gate": "max_auc", "limit": 0.5, "found": attack_of(report)["auc"], "met": True}
    ),
    "a gate with another figure": lambda report: report["policy"].append(
        {"gate": "max_auc", "limit": 0.6, "found": 0.55, "met": True}
    ),
    "seed": put(lambda report: report["provenance"], "seed", 77),
    "a number as text": put(attack_of, "auc", str),
    "not a number": put(attack_of, "auc", float("nan")),
    "a truth value as a number": put(lambda report: attack_of(report)["roc"], "members", True),
    "settings": put(full_report, "config", lambda text: text.replace("one_run", "independent_trials")),
}
CURRENT: dict[str, Any] = {}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scored_folder(tmp_path_factory.mktemp("run") / "run", seed=2**100 + 9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHANGES)
def test_tampering_of_further_kinds_is_found(run: Path, kind: str) -> None:
    text = (run / "report.json").read_text()
    report = json.loads(text)
    CURRENT.update(game_of(report))
    CHANGES[kind](report)
    assert json.dumps(report) != json.dumps(json.loads(text)), "nothing was changed"
    try:
        (run / "report.json").write_text(json.dumps(report))
        assert check_numbers(run).problems, kind
    finally:
        (run / "report.json").write_text(text)


SCORES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "doubled": lambda table: table.assign(score=2 * table.score),
    "rounded": lambda table: table.assign(score=table.score.round(1)),
    "not a number": lambda table: table.assign(score=table.score.where(table.index % 500 != 7)),
    "two records exchanged": lambda table: table.assign(
        score=table.score.where(~table.index.isin([3, 400]), table.score.iloc[[3, 400]].to_numpy()[::-1].repeat(1)[0])
    ),
    "of one attack shifted": lambda table: table.assign(score=table.score + (table.attack == "c")),
    "of another game": lambda table: table.assign(game="other", mechanism="other"),
    "memberships of another order": lambda table: table.assign(member=table.member.to_numpy()[::-1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCORES)
def test_scores_of_further_kinds_are_found(run: Path, kind: str) -> None:
    content = (run / "scores.parquet").read_bytes()
    try:
        SCORES[kind](pd.read_parquet(run / "scores.parquet").reset_index(drop=True)).to_parquet(run / "scores.parquet")
        assert check_numbers(run).problems, kind
    finally:
        (run / "scores.parquet").write_bytes(content)

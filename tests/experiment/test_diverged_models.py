"""One diverged model takes no other with it: it is recorded, adds nothing to the attack, and the rest continue."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from audit.cli.app import answer
from audit.core.seeds import new_seed
from tests.tiny import CONFIG


def run(folder: Path, rows: list[int], formats: str = "json", *more: str) -> int:
    """The exit code of a tiny audit in which these models diverge."""
    config = folder.with_suffix(".yaml")
    config.write_text(CONFIG)
    trainer = f"{{kind: 'tests.broken:LosesModels', rows: {rows}}}"
    changes = [
        f"mechanisms=[{{name: plain, kind: non_private, trainer: {trainer}}}]",
        "games=[{name: outside, canaries: mislabelled, count: 20, runs: 2, references: 4, scorers: [loss, lira], "
        "estimators: [one_run]}]",
        f"output.formats=[{formats}]",
        *more,
    ]
    return answer(["run", str(config), "-o", str(folder), "-q", *[word for item in changes for word in ("--set", item)]])


@pytest.mark.slow
def test_lost_models_are_isolated_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "whole", []) == 0
    assert run(tmp_path / "lossy", [1, 4]) == 0
    capsys.readouterr()
    (result,) = json.loads((tmp_path / "lossy" / "report.json").read_text())["mechanisms"]
    (row,) = [check for check in result["checks"] if check["code"] == "finite"]
    assert row["status"] == "gap"
    assert row["value"].startswith("2 of 6 models diverged (1, 4)")
    assert {metric["models"] for metric in result["utility"]} == {4}
    full, lossy = (pd.read_parquet(tmp_path / name / "scores.parquet").query("attack == 'loss'") for name in ("whole", "lossy"))
    assert (full.score.to_numpy()[:20] == lossy.score.to_numpy()[:20]).all(), "the healthy run's scores changed"
    assert lossy.score.iloc[20:].nunique() == 1, "a lost model's outputs tell records apart"
    assert full.score.iloc[20:].nunique() > 1
    (retained,) = json.loads((tmp_path / "whole" / "report.json").read_text())["mechanisms"]
    assert [check["status"] for check in retained["checks"] if check["code"] == "finite"] == ["checked"]


@pytest.mark.slow
def test_attacks_that_lost_references_cannot_serve_are_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "run", [2, 3, 4, 5]) == 0
    assert "'lira' was left out: 0 of 4 reference models stayed finite and it needs 2" in capsys.readouterr().out
    (result,) = json.loads((tmp_path / "run" / "report.json").read_text())["mechanisms"]
    assert [attack["scorer"] for attack in result["games"][0]["attacks"]] == ["loss"]
    assert run(tmp_path / "whole", []) == 0
    loss, same = (pd.read_parquet(tmp_path / name / "scores.parquet").query("attack == 'loss'") for name in ("run", "whole"))
    assert (loss.score.to_numpy() == same.score.to_numpy()).all()


@pytest.mark.slow
def test_a_game_whose_targets_are_all_lost_is_reported_as_not_testable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "run", [0, 1], "json, pdf, junit") == 3
    assert "'lira' was left out: all 2 target runs diverged" in capsys.readouterr().out
    (result,) = json.loads((tmp_path / "run" / "report.json").read_text())["mechanisms"]
    assert result["games"][0]["attacks"] == [] and result["outcome"] == "out_of_reach"
    assert answer(["report", str(tmp_path / "run"), "-o", str(tmp_path / "again")]) == 0
    secret = f"seed={new_seed()}"
    assert run(tmp_path / "secret", [0, 1], "json", secret) == 3
    capsys.readouterr()
    assert answer(["report", str(tmp_path / "secret"), "--edition", "external"]) == 2
    assert "an external edition needs scores.parquet with the scores of a game about membership" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "scorers"), [([12, 13, 14, 15], ["loss"]), ([], ["loss", "lira"])])
def test_a_game_that_may_stop_goes_on_without_the_attack(
    tmp_path: Path, rows: list[int], scorers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    game = (
        "games=[{name: outside, canaries: mislabelled, count: 1, runs: 12, references: 4, scorers: [loss, lira], "
        "estimators: [sequential], stopping: first_proof}]"
    )
    assert run(tmp_path / "run", rows, "json", game, "execution.models_per_job=4") == 0
    capsys.readouterr()
    (result,) = json.loads((tmp_path / "run" / "report.json").read_text())["mechanisms"]
    (played,) = result["games"]
    assert [attack["scorer"] for attack in played["attacks"]] == scorers
    assert played["watched"]["used"] == 12

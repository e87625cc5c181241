"""One diverged model takes no other with it: it is recorded, tells the attack nothing, and the rest go on."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from audit.cli.app import answer
from tests.tiny import CONFIG


def run(folder: Path, rows: list[int]) -> int:
    config = folder.with_suffix(".yaml")
    config.write_text(CONFIG)
    trainer = f"{{kind: 'tests.broken:LosesModels', rows: {rows}}}"
    changes = [
        f"mechanisms=[{{name: plain, kind: non_private, trainer: {trainer}}}]",
        "games=[{name: outside, canaries: mislabelled, count: 20, runs: 2, references: 4, scorers: [loss, lira], "
        "estimators: [one_run]}]",
        "output.formats=[json]",
    ]
    return answer(["run", str(config), "-o", str(folder), "-q", *[word for one in changes for word in ("--set", one)]])


def test_lost_models_are_isolated_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "whole", []) == 0
    assert run(tmp_path / "lossy", [1, 4]) == 0
    capsys.readouterr()
    (result,) = json.loads((tmp_path / "lossy" / "report.json").read_text())["mechanisms"]
    (row,) = [check for check in result["checks"] if check["code"] == "finite"]
    assert row["status"] == "gap"
    assert row["value"].startswith("2 of 6 models diverged (1, 4)")
    assert {metric["models"] for metric in result["utility"]} == {4}
    whole, lossy = (
        pd.read_parquet(tmp_path / name / "scores.parquet").query("attack == 'loss'") for name in ("whole", "lossy")
    )
    assert (whole.score.to_numpy()[:20] == lossy.score.to_numpy()[:20]).all(), "the healthy run's scores changed"
    assert lossy.score.iloc[20:].nunique() == 1, "a lost model's outputs tell records apart"
    assert whole.score.iloc[20:].nunique() > 1
    (kept,) = json.loads((tmp_path / "whole" / "report.json").read_text())["mechanisms"]
    assert [check["status"] for check in kept["checks"] if check["code"] == "finite"] == ["checked"]


@pytest.mark.parametrize(
    ("rows", "part"), [([0, 1], "all 2 target runs diverged"), ([2, 3, 4, 5], "0 of 4 reference models stayed finite")]
)
def test_a_game_that_cannot_be_played_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[int], part: str
) -> None:
    assert run(tmp_path / "run", rows) == 3
    assert part in capsys.readouterr().err

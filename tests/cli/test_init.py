"""`audit init` writes configs that run, for data of your own; it writes none that would be refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from audit.cli.app import answer
from audit.config import parse

SMALL = [
    "certificates=0",
    "games.0.runs=1",
    "games.0.references=4",
    "training.epochs=2",
    "output.formats=[json]",
]


def table(folder: Path, separator: str = ",") -> Path:
    draw = np.random.default_rng(0)
    lines = [separator.join(("age", "job", "income"))]
    lines += [separator.join((str(draw.integers(18, 90)), draw.choice(["cook", "clerk"]), str(row % 2))) for row in range(200)]
    (folder / "people.csv").write_text("\n".join(lines))
    return folder / "people.csv"


def images(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    np.savez(folder / "images.npz", x=draw.integers(0, 256, (200, 8, 8), dtype=np.uint8), y=draw.integers(0, 3, 200))
    return folder / "images.npz"


def run(folder: Path) -> int:
    changes = [word for change in SMALL for word in ("--set", change)]
    return answer(["run", str(folder / "mine.yaml"), "-q", "-o", str(folder / "out"), *changes])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("separator", "options", "kind"),
    [
        (",", ["--model", "logistic"], "logistic"),
        pytest.param(";", [], "mlp", marks=pytest.mark.slow),
        pytest.param("\t", [], "mlp", marks=pytest.mark.slow),
    ],
)
def test_a_config_for_a_table_runs(separator: str, options: list[str], kind: str, tmp_path: Path) -> None:
    words = ["--data", str(table(tmp_path, separator)), "--label", "income", "--target-epsilon", "3", *options]
    assert answer(["init", str(tmp_path / "mine.yaml"), *words]) == 0
    config = parse((tmp_path / "mine.yaml").read_text()).config
    assert config.data["categorical"] == ["job"] and config.data["train"] == 100 and config.model == {"kind": kind}
    assert config.mechanisms[1].target_epsilon == 3
    assert [game.name for game in config.games] == ["black-box", "white-box"][: 1 + (kind == "mlp")]
    assert "#   age: [low, high]" in (tmp_path / "mine.yaml").read_text()
    assert run(tmp_path) in (0, 3)
    assert (tmp_path / "out" / "report.json").exists()


def test_a_config_for_images_has_a_convolutional_model(tmp_path: Path) -> None:
    assert answer(["init", str(tmp_path / "mine.yaml"), "--data", str(images(tmp_path))]) == 0
    config = parse((tmp_path / "mine.yaml").read_text()).config
    assert config.model == {"kind": "cnn"} and config.games[1].count == 360


def test_code_of_the_user_is_named_and_not_called(tmp_path: Path) -> None:
    words = ["--data", str(images(tmp_path)), "--model", "no_such_module:build"]
    assert answer(["init", str(tmp_path / "mine.yaml"), *words]) == 0
    assert parse((tmp_path / "mine.yaml").read_text()).config.model == {"factory": "no_such_module:build"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--data", "people.csv"], "give --label. Its first line names: age, job, income"),
        (["--data", "people.csv", "--label", "incme"], "no column 'incme'; give --label. Did you mean 'income'?"),
        (["--data", "people.csv", "--label", "income", "--model", "mpl"], "mlp"),
        (["--data", "people.csv", "--label", "income", "--target-epsilon", "-1"], "target_epsilon"),
        (["--data", "nowhere.csv", "--label", "income"], "--data 'nowhere.csv': there is no such file"),
        (["--label", "income"], "name it with --data FILE"),
        (["--data", "few.npz"], "holds 10 records; expected at least 160"),
    ],
)
def test_what_would_be_refused_is_not_written(
    words: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table(tmp_path)
    np.savez(tmp_path / "few.npz", x=np.zeros((10, 3)), y=np.arange(10) % 2)
    monkeypatch.chdir(tmp_path)
    assert answer(["init", "mine.yaml", *words]) == 2
    assert reason in capsys.readouterr().err
    assert not Path("mine.yaml").exists()


def test_columns_that_are_no_features_are_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{row % 60},person {row},{'' if row == 3 else row % 40},{row % 2}" for row in range(200)]
    (tmp_path / "people.csv").write_text("\n".join(["age,name,hours,income", *rows]))
    words = ["--data", str(tmp_path / "people.csv"), "--label", "income"]
    assert answer(["init", str(tmp_path / "mine.yaml"), *words]) == 0
    notes = capsys.readouterr().out
    assert "'name' is left out" in notes and "'hours' is left out (data.drop): 1 of its 200 values are missing" in notes
    text = (tmp_path / "mine.yaml").read_text()
    assert "# drop: hours: 1 of its 200 values are missing" in text
    data = parse(text).config.data
    assert data["drop"] == ["name", "hours"] and data["categorical"] == []


def test_without_data_the_example_is_written_and_nothing_is_overwritten(tmp_path: Path) -> None:
    assert answer(["init", str(tmp_path / "mine.yaml")]) == 0
    assert parse((tmp_path / "mine.yaml").read_text()).config.name == "my-audit"
    assert answer(["init", str(tmp_path / "mine.yaml")]) == 2
    assert answer(["init", str(tmp_path / "mine.yaml"), "--force"]) == 0
    os.mkfifo(tmp_path / "pipe.yaml")  # to write into it would wait for a reader
    assert answer(["init", str(tmp_path / "pipe.yaml"), "--force"]) == 2


def test_questions_are_asked_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([str(table(tmp_path)), "income", "logistic", 2.0])
    monkeypatch.setattr("typer.prompt", lambda *words, **options: next(answers))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert answer(["init", str(tmp_path / "mine.yaml")]) == 0
    config = parse((tmp_path / "mine.yaml").read_text()).config
    assert config.model == {"kind": "logistic"} and config.mechanisms[1].target_epsilon == 2 and next(answers, None) is None

"""What is on stderr while an audit runs: every stage, no line of a run that was there already, and how to go on."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from audit.cli import app, own_code, progress
from audit.core import training
from audit.core.errors import ConfigError
from tests.tiny import CONFIG


@pytest.mark.slow
def test_every_stage_after_the_training_is_a_line_and_what_was_there_is_no_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is stopped after its training continues without a bar, since nothing is trained, and says so."""
    (tmp_path / "tiny.yaml").write_text(CONFIG)
    line = ["run", str(tmp_path / "tiny.yaml"), "-o", str(tmp_path / "run"), "--set", "certificates=0"]

    def stop(*arguments: object) -> None:
        raise app.StopSignal(15)

    with monkeypatch.context() as patch:
        patch.setattr("reports.attempt", stop)
        assert app.answer(line) == 143
    shown = capsys.readouterr().err
    assert "rehearsing attacks on untrained models" in shown and "100% of 156" in shown
    for game in ("plain, game outside", "dp, game outside", "dp, game inside"):
        assert f"{game}: attacks and statistics" in shown
    assert f"finished models are kept in '{tmp_path / 'run'}.partial'" in shown
    assert f"continue with: audit {' '.join(line)} --resume" in shown
    assert app.answer([*line, "--resume"]) in (0, 1, 3)
    shown = capsys.readouterr().err
    assert "100%" not in shown and shown.count("6 of 6 models are there already") == 2
    assert "rendering pdf" in shown and shown.index("attacks and statistics") < shown.index("rendering pdf")
    assert not training.LOG.handlers


def test_spared_steps_shorten_the_way_and_count_for_no_speed(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.bar("training (model-steps)", 100) as watcher:
        watcher.skip(60)
        watcher.advance(40)
    assert "100% of 40 after" in capsys.readouterr().err


def test_stage_lines_of_others_cannot_forge_lines(capsys: pytest.CaptureFixture[str]) -> None:
    training.LOG.setLevel(logging.INFO)
    with progress.stage_lines():
        training.LOG.info("game %s", "a\nerror: all is lost")
    training.LOG.setLevel(logging.NOTSET)
    assert capsys.readouterr().err == "game a\\nerror: all is lost\n"


@pytest.mark.parametrize(
    ("name", "near"),
    [("statistic:mean", "statistics"), ("statistics:fmeann", "fmean"), ("email.mim:text", "mime"), ("json:dumpz", "dump")],
)
def test_a_typo_in_a_name_of_code_is_answered_by_the_nearest(name: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"Did you mean '{near}'"):
        own_code.find(name)


def test_an_error_inside_the_code_itself_gets_no_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_part.py").write_text("import jsonn\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as refused:
        own_code.find("broken_part:thing")
    assert "No module named 'jsonn'" in str(refused.value) and "Did you mean" not in str(refused.value)

"""The survey of the zoo: what it says of entries, and its command."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from audit import plugins
from audit.cli.app import answer
from audit.core.errors import ConfigError
from audit.zoo import _survey

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_command_refutes_the_wrong_step_and_spares_the_correct_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = answer(["zoo", "correct", "clip_per_tensor", "--json", "--page", str(tmp_path / "zoo.md")])
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["entries"]}
    assert code == 0
    assert rows["correct"]["checks"] == [] and "clip.add" in rows["clip_per_tensor"]["checks"]
    assert rows["clip_per_tensor"]["epsilon"] > rows["correct"]["epsilon"]
    assert "| `clip_per_tensor` |" in (tmp_path / "zoo.md").read_text()


def test_unknown_entries_are_refused() -> None:
    with pytest.raises(ConfigError, match="clip_per_tensor"):
        _survey.survey(["clip_per_tensr"])


def test_epsilon_grows_as_noise_shrinks() -> None:
    assert _survey.epsilon_of(1.0) < _survey.epsilon_of(0.5) < _survey.epsilon_of(0.0) == math.inf


def test_every_entry_stands_on_the_page() -> None:
    text = (ROOT / "docs" / "zoo.md").read_text()
    for name in plugins.names(_survey.FOLDER):
        assert f"| `{name}` | {plugins.find(_survey.FOLDER, name).wrong or 'nothing'} |" in text, (
            f"run audit zoo --page docs/zoo.md: {name}"
        )

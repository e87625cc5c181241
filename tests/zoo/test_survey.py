"""The survey of the zoo: its sentences about entries, and its command."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

import pytest
import zoo_page
import zoo_trainings

from audit import plugins
from audit.cli.app import answer
from audit.core.errors import ConfigError
from audit.zoo import _loops, _survey

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_command_refutes_the_wrong_step_and_spares_the_correct_one(capsys: pytest.CaptureFixture[str]) -> None:
    code = answer(["zoo", "correct", "clip_per_tensor", "--json"])
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["entries"]}
    assert code == 0
    assert rows["correct"]["checks"] == [] and "clip.add" in rows["clip_per_tensor"]["checks"]
    assert rows["clip_per_tensor"]["epsilon"] > rows["correct"]["epsilon"]


@pytest.mark.slow
def test_the_page_shows_what_audits_that_train_prove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, reports = tmp_path / "evidence" / "zoo.md", tmp_path / "kept"
    file.parent.mkdir()
    monkeypatch.setattr(sys, "argv", ["zoo_page.py", "correct", "noise_none", "-o", str(file), "--keep", str(reports)])
    zoo_page.main()
    text = file.read_text(encoding="utf-8")
    power = {line.split("|")[1].strip(" `"): line for line in text.splitlines() if line.startswith("|")}
    assert len(list(reports.iterdir())) == 2 and (tmp_path / "images" / "zoo.png").stat().st_size > 1000
    assert "**refuted**" in power["noise_none"] and power["noise_none"].count("**") >= 2 * 3
    assert "**" not in power["correct"] and "passed" in power["correct"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "refutes"), [("correct", False), ("noise_none", True)])
def test_audits_of_one_training(name: str, refutes: bool) -> None:
    """The audits of one training refute a step without noise and spare a correct one; many trainings are slow."""
    step = plugins.find(_survey.STEPS, name)()
    proofs = zoo_trainings.one_training(step, _survey.PLAN)
    claim = _survey.claim_epsilon(_survey.PLAN.noise_multiplier)
    assert [proof.audit for proof in proofs] == list(zoo_trainings.AUDITS[:3])
    by_audit = {proof.audit: proof.epsilon > claim for proof in proofs}
    assert by_audit[zoo_trainings.WHITE_BOX] is by_audit[zoo_trainings.PER_STEP] is refutes
    assert refutes or not by_audit[zoo_trainings.BLACK_BOX]


def test_unknown_entries_are_refused() -> None:
    with pytest.raises(ConfigError, match="clip_per_tensor"):
        _survey.survey(["clip_per_tensr"])


def test_epsilon_grows_as_noise_shrinks() -> None:
    assert _survey.claim_epsilon(1.0) < _survey.claim_epsilon(0.5) < _survey.claim_epsilon(0.0) == math.inf


def test_every_entry_stands_on_the_page() -> None:
    text = (ROOT / "docs" / "evidence" / "zoo.md").read_text()
    for name, folder in _survey.folders().items():
        wrong = plugins.find(folder, name).wrong
        assert f"| `{name}` | {wrong or 'nothing'} |" in text, (
            f"run python benchmarks/zoo_page.py -o docs/evidence/zoo.md: {name}"
        )


def test_no_correct_twin_on_the_page_is_refuted_and_each_wrong_entry_is() -> None:
    """The page's own tables: the audit of its kind fails on every wrong entry, and on no correct one."""
    text = (ROOT / "docs" / "evidence" / "zoo.md").read_text()
    for name, folder in _survey.folders().items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        checks = [cell.strip() for cell in row.strip("|").split("|")][4 if folder == _survey.STEPS else 5]
        assert (checks == "none") is not bool(plugins.find(folder, name).wrong), row


def test_the_page_keeps_the_promise_of_95_percent() -> None:
    text = (ROOT / "docs" / "evidence" / "zoo.md").read_text()
    shares = [int(share) for share in re.findall(r"\((\d+)%\)", text)]
    assert len(shares) == 2 and min(shares) >= 95


def test_the_page_of_a_loop_says_what_the_page_in_docs_says_of_it() -> None:
    """Text and row of shuffled batches are those that the code prints now, but for the seconds."""
    text = (ROOT / "docs" / "evidence" / "zoo.md").read_text()
    name = "shuffled_batches"
    loop = plugins.find(_survey.LOOPS, name)()
    claim, (low, high) = _loops.claim(loop, _survey.LOOP_PLAN), loop.truth(_survey.LOOP_PLAN)
    fields = {"audit": _survey.LOOP, "claim": claim, "truth": (low, high), "checks": ("loop.sampling",), "seconds": 0.1}
    entry = _survey.Entry(name=name, wrong=loop.wrong, visibility=loop.visibility, **fields)
    lines = zoo_page.page([entry], {}).splitlines()
    start = lines.index("## Loops")
    rule = next(at for at in range(start, len(lines)) if lines[at].startswith("|---"))
    assert "\n".join(lines[start : rule + 1]) in text
    assert f"\n{lines[rule + 1].rsplit('|', 2)[0]}|" in text

"""`audit plan --rehearse`: forms of canaries tried on coins of their own, the best one in the config that a run takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit import config
from audit.cli import app
from audit.execution.store import Store
from audit.experiment.line.assemble import assemble
from audit.experiment.line.run import run
from audit.experiment.plan.canary_forms import settled, try_forms

CONFIG = """
version: 1
name: forms
seed: {seed}
data: {{kind: digits, train: 60, pool: 100, test: 20}}
model: {{kind: logistic}}
training: {{optimizer: sgd, learning_rate: 0.5, sample_rate: 0.5, steps: {steps}}}
mechanisms: [{{name: dp, kind: dp_sgd, noise_multiplier: {noise}, clip_norm: 1.0}}]
games: [{{name: outputs.1, canaries: held_out, count: 60, scorers: [loss], estimators: [one_run]}}]
accountants: [rdp]
certificates: 0
"""
FORMS = [{"kind": "held_out"}, {"kind": "clipbkd", "norm": 2}, {"kind": "clipbkd", "count": 65}]


def test_the_form_that_proves_most_is_written_without_a_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, chosen = tmp_path / "own.yaml", tmp_path / "chosen.yaml"
    path.write_text(CONFIG.format(seed=2**70, steps=40, noise=0.3))
    options = [text for form in FORMS for text in ("--canaries", json.dumps(form))]
    command = ["plan", str(path), "--no-measure", "--no-power", "--rehearsals", "1", "--write", str(chosen), "--json"]
    assert app.answer([*command, "--rehearse", "outputs.1", *options]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["canaries"]["kind"] for row in shown["canary_forms"]] == ["clipbkd", "held_out"]
    assert shown["canary_forms"][0]["proven"] > 1 > shown["canary_forms"][1]["proven"]
    assert len(shown["refused_forms"]) == 1 and "expected 1 to 64" in shown["refused_forms"][0]
    (game,) = config.load(str(chosen)).config.games
    assert config.load(str(chosen)).config.seed is None, "coins are drawn after the form is fixed"
    assert game.canaries == {"kind": "clipbkd", "norm": 2} and game.count == 60
    for wrong in (command, [*command, "--rehearse", "outputs.1", "--canaries", "[1]"], [*command, "--rehearse", "other"]):
        assert app.answer(wrong) == 2
        capsys.readouterr()


@pytest.mark.slow
def test_choosing_on_rehearsals_leaves_the_level_of_the_audit(tmp_path: Path) -> None:
    """60 audits of a training that is all noise; docs/theory/choice.md has the count of 300."""
    above = 0
    for seed in range(60):
        resolution = config.parse(CONFIG.format(seed=2**70 + seed, steps=4, noise=1000))
        rows, refusals = try_forms(resolution, "outputs.1", FORMS[:2], rehearsals=1)
        assert not refusals
        chosen = settled(resolution, "outputs.1", rows[0].canaries, rows[0].count, resolution.config.seed)
        results, _ = run(assemble(chosen.config), Store.start(tmp_path / str(seed), chosen.sha256))
        above += max(bound.epsilon for bound in results[0].bounds) > results[0].claims[0].epsilon
    assert above <= 8, "more than that in one of 170 series at the stated 5 %"

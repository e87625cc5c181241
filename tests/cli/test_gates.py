"""Gates on the command line: the files that they read, the input that they refuse, and the exit code that they give."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from audit.cli import gates, output
from audit.cli.app import answer
from audit.core.errors import ConfigError
from audit.core.game import Inclusion
from audit.experiment.line import report as reporting
from tests.reports import sample


@pytest.mark.parametrize(
    ("text", "name", "limit"),
    [
        ("tpr@0.1%<=2%", "tpr@0.1%", 0.02),
        ("tpr@1% <= 0.05", "tpr@1%", 0.05),
        ("auc<=0.6", "max_auc", 0.6),
        ("proven_epsilon<=1", "max_proven_epsilon", 1.0),
        ("claimed_epsilon<=8.5", "max_claimed_epsilon", 8.5),
    ],
)
def test_a_gate_is_read(text: str, name: str, limit: float) -> None:
    ((read, gate),) = gates.read([text]).items()
    assert read == name and gate.limit == pytest.approx(limit)


@pytest.mark.parametrize("text", ["tpr@5%<=2%", "auc>=0.6", "auc", "accuracy<=1", "tpr@1%<=200%", "tpr@1<=2%", ""])
def test_what_is_no_gate_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match="--gate"):
        gates.read([text])


def test_one_figure_has_one_gate() -> None:
    with pytest.raises(ConfigError, match="already"):
        gates.read(["auc<=0.6", "auc<=0.7"])


def test_gates_find_the_largest_figure_and_an_unresolved_rate_is_not_met() -> None:
    report = sample.model()
    most = max(p.tpr or 0 for a in report.mechanisms[0].games[0].attacks for p in a.tpr_at if p.target_fpr == 0.01)
    (result,) = gates.gated(report, gates.read([f"tpr@1%<={most / 2:.6f}"])).policy
    assert result.found == most and not result.met
    few = {"tpr@0.0001%": gates.TprAt(rate=1e-6, limit=0.02)}
    (line,) = output.gate_lines(gates.gated(report, few))
    assert "not met: found no figure" in line and "measure no false positive rate below 1/" in line and "at least 1000" in line
    (met,) = gates.gated(report, gates.read(["tpr@1%<=99%"])).policy
    assert met.met
    assert gates.gated(report, {}) is report
    (absent,) = gates.gated(report, gates.read(["proven_epsilon<=5"])).policy
    assert absent.found is None and not absent.met


@pytest.mark.slow
def test_the_exit_code_is_that_of_the_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(3)
    member = np.arange(400) % 2
    table = tmp_path / "scores.csv"
    rows = [f"{score},{inside}" for score, inside in zip(generator.normal(size=400) + 2 * member, member, strict=True)]
    table.write_text("\n".join(["score,member", *rows]))
    common = ["scores", str(table), "--certificates", "0", "--json"]
    assert answer([*common, "--gate", "auc<=0.99"]) == 0
    assert json.loads(capsys.readouterr().out)["policy_met"] is True
    assert answer([*common, "--gate", "auc<=0.99", "--gate", "tpr@10%<=1%"]) == 1
    assert json.loads(capsys.readouterr().out)["policy_met"] is False
    assert answer([*common[:-1], "--gate", "auc<=0.99", "--gate", "tpr@10%<=1%"]) == 1
    plain = capsys.readouterr().out
    assert "policy gate tpr@10% not met: found 0." in plain and "policy gate max_auc met: found 0." in plain
    assert "holds only if membership was decided by independent coins" in plain
    assert answer([*common, "--gate", "auc"]) == 2


def test_records_of_a_split_are_no_canaries() -> None:
    (result,) = sample.model().mechanisms
    (game,) = result.games
    for inclusion, noun in ((Inclusion.SPLIT, "records"), (Inclusion.COINS, "canaries")):
        played = replace(result, games=(replace(game, game=replace(game.game, inclusion=inclusion)),))
        rows = reporting.coverage([played], reporting.attack_classes())
        assert any(f" {noun} over 1 training run" in row.done for row in rows)

"""Attacks side by side: your own beside the project's, on the same models."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import audit
from audit.cli import app
from audit.core.errors import ConfigError, DataError
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View

MODELS, RECORDS, CLASSES = 6, 240, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """An attack of a user: minus the loss, and the mean loss of the references."""

    @property
    def needs(self) -> Needs:
        from attacks.signals.logits import Losses

        return Needs(signals={Losses()}, references=1)

    def score(self, target: View, reference: View, seed: Seed) -> NDArray[Any]:
        """Scores `(m,)`."""
        return np.asarray(reference["losses"].mean(axis=0) - target["losses"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Crooked(Own):
    """An attack that gives one score too few."""

    def score(self, target: View, reference: View, seed: Seed) -> NDArray[Any]:
        """Scores `(m - 1,)`."""
        return np.asarray(-target["losses"][1:])


def drawn(shift: float = 2.0) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(3)
    labels = random.integers(0, CLASSES, RECORDS)
    included = random.random((MODELS, RECORDS)) < 0.5
    level = 2 * random.standard_normal((1, RECORDS, 1)) + shift * included[..., None]
    logits = random.standard_normal((MODELS, RECORDS, CLASSES)) + level * np.eye(CLASSES)[labels]
    return {"included": included, "logits": logits, "labels": labels}


def losses_of(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    from audit.stats.scoring import signals

    return {"included": arrays["included"], "losses": signals.cross_entropy(arrays["logits"], arrays["labels"])}


def test_figures_are_means_over_targets_and_gaps_are_paired() -> None:
    arrays = losses_of(drawn())
    result = audit.compare_attacks(arrays, [f"{__name__}:Own", "loss"], battery=False)
    assert not result.not_run and {row.figure for row in result.rows} == {"auc", "tpr at 1% fpr"}  # 0.1 % needs 1000 nonmembers
    best, plain = (row for row in result.rows if row.figure == "auc")
    aucs = []
    for target in range(MODELS):
        values = np.delete(arrays["losses"], target, axis=0).mean(axis=0) - arrays["losses"][target]
        coins = arrays["included"][target]
        pairs = values[coins][:, None] - values[~coins][None]
        aucs.append(np.mean(pairs > 0))
    assert best.mean == pytest.approx(np.mean(aucs)) and best.error == pytest.approx(np.std(aucs, ddof=1) / MODELS**0.5)
    assert best.gap == 0 and plain.gap == pytest.approx(plain.mean - best.mean) and plain.gap < -0.05
    assert result.rows.to_pandas().shape == (4, 9)


def test_the_battery_takes_part_and_what_cannot_run_says_why() -> None:
    result = audit.compare_attacks(drawn(), references=1, targets=2)
    attacks = {row.attack for row in result.rows}
    assert {"auto", "rmia", "entropy"} <= attacks and "learned_combination" not in attacks
    assert result.not_run["learned_combination"] == "needs 2 references and has 1"
    assert result.not_run["quantile_regression"] == "needs nonmember_medians, not recorded of these models", "logits it has"
    assert {(row.targets, row.references, row.canaries) for row in result.rows} == {(2, 1, RECORDS)}


def test_an_untouched_model_is_chance_in_every_figure_of_every_attack() -> None:
    """All outputs equal: an AUC of a half and no true positive without a false one."""
    arrays = drawn()
    constant = {**arrays, "logits": np.full_like(arrays["logits"], 1 / 3), "labels": np.zeros_like(arrays["labels"])}
    for row in audit.compare_attacks(constant, targets=2).rows:
        expected = 0.5 if row.figure == "auc" else 0.0
        assert row.mean == expected, row


def test_a_wrong_attack_is_named() -> None:
    with pytest.raises(ConfigError, match=r"Crooked: it gives scores of shape \(239,\)"):
        audit.compare_attacks(losses_of(drawn()), [f"{__name__}:Crooked"], battery=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logits": None}, "expected included and exactly one of logits, losses"),
        ({"labels": None}, "labels are missing"),
        ({"labels": np.full(RECORDS, 9)}, "labels go from 9 to 9"),
        ({"logits": np.zeros((MODELS, RECORDS))}, r"logits are float64 of shape \(6, 240\)"),
        ({"logits": np.full((MODELS, RECORDS, CLASSES), np.nan)}, "4320 of the logits are not finite"),
        ({"included": np.full((MODELS, RECORDS), 2)}, "expected true or false"),
        ({"included": np.ones((MODELS, RECORDS), bool)}, "model 0 trained on all of the records"),
    ],
)
def test_arrays_that_do_not_fit_are_named(change: dict[str, Any], message: str) -> None:
    arrays = {name: array for name, array in {**drawn(), **change}.items() if array is not None}
    with pytest.raises(DataError, match=message):
        audit.compare_attacks(arrays, ["loss"], battery=False)


def test_the_command_prints_draws_and_finds_an_attack_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("models.npz", **drawn())
    source = Path(__file__).read_text(encoding="utf-8").replace("signals={Losses()}", "signals={Losses()}")
    Path("my_attacks.py").write_text(source[: source.index("@dataclass(frozen=True, slots=True, kw_only=True)\nclass Crooked")])
    np.savez("losses.npz", **losses_of(drawn()))
    command = ["attack", "compare", "losses.npz", "--scorer", "my_attacks:Own", "--scorer", "loss", "--no-battery"]
    assert app.answer([*command, "--plot", "table.png", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {row["attack"] for row in printed["figures"]} == {"my_attacks:Own", "loss"}
    assert Path("table.png").read_bytes().startswith(b"\x89PNG")
    assert app.answer(command) == 0
    table = capsys.readouterr().out
    assert "6 targets, 5 references each, 240 records" in table and "my_attacks:Own" in table
    assert "not shown: tpr at 0.1% fpr: needs 1,000 nonmembers or more" in table and "not shown: tpr at 1% fpr" not in table
    assert app.answer([*command, "--plot", "table.pdf"]) == 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_any_layout_and_precision_of_outputs_gives_the_same_figures(dtype: type) -> None:
    arrays = drawn()
    rounded = arrays["logits"].astype(np.float16)
    odd = np.asfortranarray(rounded.astype(dtype))[:, ::-1][:, ::-1]
    tables = [
        audit.compare_attacks({**arrays, "logits": logits}, ["loss", "lira", "rmia"], battery=False).rows
        for logits in (rounded.astype(np.float64), odd)
    ]
    assert [row.mean for row in tables[0]] == [row.mean for row in tables[1]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"logits": np.full((MODELS, RECORDS, CLASSES), 1e200)}, "larger than 1e+100"),
        ({"logits": np.full((MODELS, RECORDS, CLASSES), np.inf, np.float32)}, "not finite"),
        ({"logits": np.full((MODELS, RECORDS, CLASSES), np.nan, np.float16)}, "not finite"),
        ({"logits": np.zeros((MODELS, RECORDS, 1)), "labels": np.zeros(RECORDS, int)}, "one class"),
    ],
    ids=["huge", "infinite", "not a number", "one class"],
)
def test_hostile_logits_are_refused_by_a_sentence(change: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=re.escape(words)):
        audit.compare_attacks({**drawn(), **change}, ["loss", "lira"], battery=False)


def test_losses_below_zero_are_no_cross_entropies() -> None:
    arrays = losses_of(drawn())
    with pytest.raises(DataError, match="of the losses are below 0"):
        audit.compare_attacks({**arrays, "losses": arrays["losses"] - 5}, ["loss", "lira"], battery=False)

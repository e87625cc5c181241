"""Tied and rounded outputs: ties mislead no choice between attacks, and certain answers count as they are resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import audit
from attacks.scorers import _contest
from attacks.scorers.auto import Auto
from attacks.signals.logits import Logits
from audit import plugins
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.external.model_answers import read_outputs
from audit.stats.bounds import roc
from audit.stats.scoring import resolution

MODELS, RECORDS, CLASSES = 9, 3000, 10


def top_labels(seed: int = 0) -> tuple[Array, Array, Array]:
    """Predicted classes alone, as probabilities, of models that learnt most mislabelled records by heart: coins, labels."""
    stream = np.random.default_rng(seed)
    coins = stream.random((MODELS, RECORDS)) < 0.5
    labels, likely = stream.integers(0, CLASSES, (2, RECORDS))
    learnt = coins & (stream.random((MODELS, RECORDS)) < 0.98)
    is_vague = stream.random((MODELS, RECORDS)) < 0.5
    guesses = np.where(is_vague, stream.integers(0, CLASSES, (MODELS, RECORDS)), likely)
    return np.eye(CLASSES)[np.where(learnt, labels, guesses)], coins, labels


def view_of(outputs: Array, coins: Array, labels: Array) -> tuple[View, View]:
    logits = np.stack([read_outputs(part, labels).values for part in outputs])
    return View.of(labels=labels, logits=logits[0]), View.of(included=coins[1:], logits=logits[1:])


def proven(coins: Array, scores: Array) -> float:
    return audit.lower_bound(scores[coins], scores[~coins], delta=1e-5).epsilon


@pytest.mark.slow
def test_the_same_coins_and_outputs_that_proved_nothing_prove_what_they_show(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs, coins, labels = top_labels()
    target, references = view_of(outputs, coins, labels)
    assert proven(coins[0], Auto().score(target, references, Seed(0))) > 2.9

    def with_half_of_ties(members: Array, nonmembers: Array, fpr: float) -> float:
        return roc.auc(members, np.sort(nonmembers)[-max(1, int(fpr * len(nonmembers))) :])

    monkeypatch.setattr(_contest, "partial_auc", with_half_of_ties)
    monkeypatch.setattr(_contest, "_ranks", lambda _: True)
    monkeypatch.setattr(_contest.Contest, "_is_tied", lambda _: False)
    monkeypatch.setattr(_contest, "_WINNERS", {})
    assert proven(coins[0], Auto().score(target, references, Seed(0))) == 0.0


@dataclass(frozen=True)
class Fixed:
    """An attack that gives the same scores for every model."""

    values: Array
    needs: ClassVar[Needs] = Needs(signals={Logits()}, references=1)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        return self.values


def test_a_constant_is_never_chosen_however_bad_the_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs, coins, labels = top_labels(1)
    coins[:] = coins[1]  # so that one order of the records is wrong for every model
    _, references = view_of(outputs, coins, labels)
    attacks = {"constant": Fixed(np.zeros(RECORDS)), "wrong": Fixed(-coins[0].astype(float))}
    monkeypatch.setattr(_contest, "candidates", lambda *_, **__: iter(attacks.items()))
    contest = _contest.Contest(views=references, labels=labels, targets=np.arange(4))
    winner = contest.winner()
    assert winner is not None
    assert winner.name == "wrong"
    attacks.pop("wrong")
    monkeypatch.setattr(_contest, "_WINNERS", {})
    assert contest.winner() is None


@pytest.mark.slow
def test_a_mixture_with_a_learned_score_has_to_lead_rmia_where_outputs_are_tied() -> None:
    outputs, coins, labels = top_labels(2)
    smooth = outputs + np.random.default_rng(2).random(outputs.shape)
    for shown, usual in ((outputs, "rmia"), (smooth / smooth.sum(-1, keepdims=True), "learned_combination with rmia")):
        _, references = view_of(shown, coins, labels)
        winner = _contest.Contest(views=references, labels=labels, targets=np.arange(4)).winner()
        assert winner is not None
        assert winner.usual == usual


def test_answers_in_steps_are_tied_without_a_certain_one() -> None:
    outputs, coins, labels = rounded(0.05)
    unsure = 0.3 + 0.4 * outputs
    smooth = unsure + 1e-3 * np.random.default_rng(5).random(outputs.shape)
    for shown, is_tied in ((unsure, True), (smooth, False)):
        _, references = view_of(shown / shown.sum(-1, keepdims=True), coins, labels)
        assert _contest.Contest(views=references, labels=labels, targets=np.arange(4))._is_tied() == is_tied


def test_the_area_decides_where_tied_outputs_leave_the_same_at_few_false_positives(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs, coins, labels = top_labels(3)
    coins[:] = coins[1]
    _, references = view_of(outputs, coins, labels)
    stream = np.random.default_rng(4)
    top = np.flatnonzero(~coins[0])[:200]  # nonmembers that both attacks rank first, in the same order
    scores = {"rmia": stream.standard_normal(RECORDS), "broad": stream.standard_normal(RECORDS) + coins[0]}
    for values in scores.values():
        values[top] = 10.0
    monkeypatch.setattr(
        _contest, "candidates", lambda *_, **__: iter((name, Fixed(fixed_scores)) for name, fixed_scores in scores.items())
    )
    winner = _contest.Contest(views=references, labels=labels, targets=np.arange(4)).winner()
    assert winner is not None
    assert (winner.name, winner.figure) == ("broad", _contest.AREA)


def rounded(step: float, seed: int = 3) -> tuple[Array, Array, Array]:
    """Probabilities in whole steps, members' higher, beside records that all models know or none does."""
    stream = np.random.default_rng(seed)
    coins = stream.random((MODELS, RECORDS)) < 0.5
    labels = stream.integers(0, CLASSES, RECORDS)
    odds = 3.0 * stream.standard_normal(RECORDS) + 1.5 * coins + 0.7 * stream.standard_normal((MODELS, RECORDS))
    steps = (1.0 / (1.0 + np.exp(-odds)) / step).round() * step
    outputs = np.zeros((MODELS, RECORDS, CLASSES))
    np.put_along_axis(outputs, np.broadcast_to((labels + 1) % CLASSES, steps.shape)[..., None], (1.0 - steps)[..., None], 2)
    np.put_along_axis(outputs, np.broadcast_to(labels, steps.shape)[..., None], steps[..., None], 2)
    return outputs, coins, labels


@pytest.mark.parametrize("step", [0.1, 0.02, 0.01])
@pytest.mark.parametrize("kind", ["lira", "offset"])
def test_certain_answers_count_as_much_as_they_are_resolved(kind: str, step: float) -> None:
    outputs, coins, labels = rounded(step)
    target, references = view_of(outputs, coins, labels)
    scores = plugins.build("attacks.scorers", {"kind": kind}).score(target, references, Seed(0))
    smooth = outputs[..., :, :] * (1 - CLASSES * step) + step
    by_hand = view_of(smooth / smooth.sum(-1, keepdims=True), coins, labels)
    reference = plugins.build("attacks.scorers", {"kind": kind}).score(*by_hand, Seed(0))
    area, expected = (roc.auc(values[coins[0]], values[~coins[0]]) for values in (scores, reference))
    assert area > expected - 0.02


def test_the_resolution_is_the_step_of_shares_and_of_rounding() -> None:
    stream = np.random.default_rng(0)
    for steps in (10, 15, 100):
        shares = stream.integers(0, steps + 1, (8, 500)) / steps
        with np.errstate(divide="ignore"):
            values = np.clip(np.log(shares) - np.log(1 - shares), -87.3, 85.1)
        assert resolution.resolution(values) == pytest.approx(1 / steps, rel=1e-6)


def test_outputs_without_steps_are_left_as_they_are() -> None:
    values = np.random.default_rng(0).standard_normal((8, 500)) * 40
    assert resolution.resolution(values) is None


def test_smoothing_keeps_the_order_and_what_is_far_from_the_ends() -> None:
    values = np.linspace(-90, 90, 2001)
    smooth = resolution.smooth(values, 1e-3)
    assert (np.diff(smooth) >= 0).all()
    assert np.abs(smooth).max() < 7
    np.testing.assert_allclose(smooth[np.abs(values) < 2], values[np.abs(values) < 2], atol=0.02)

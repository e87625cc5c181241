"""Every shape of output: the same verdict in every unit and form, chance of models that say nothing, sentences for misfits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor
from torch import nn

import audit
from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.lower_bounds import read_epsilon
from audit.core.views import View
from audit.experiment.external.inspection import References, Settings, draw_coins, examine, examine_outputs
from audit.experiment.external.model_answers import read_outputs
from audit.stats.bounds import roc
from audit.stats.scoring.resolution import error_confidences

N = 240
RANDOM = np.random.default_rng(8)
INPUTS = RANDOM.normal(size=(N, 4)).astype(np.float32)
COINS = draw_coins(N, 5)
SETTINGS = Settings(certificates=0, record_key=b"0" * 32, created="2026-01-01T00:00:00Z", coins=COINS, claim_epsilon=1.0)


def sides(labels: Array) -> tuple[Any, Any]:
    return (INPUTS[COINS], labels[COINS]), (INPUTS[~COINS], labels[~COINS])


def order() -> Array:
    return np.concatenate([np.flatnonzero(COINS), np.flatnonzero(~COINS)])


class Answer:
    """A model that answers a fixed row for each record."""

    def __init__(self, outputs: Array) -> None:
        self.rows = {row.tobytes(): output for row, output in zip(INPUTS, outputs, strict=True)}

    def __call__(self, inputs: Array) -> Array:
        return np.stack([self.rows[row.tobytes()] for row in inputs])


def regressions(models: int = 6) -> tuple[Array, Array, Array]:
    """True values, coins `(k, n)` and predictions `(k, n)`, nearer to the truth if a model holds the record."""
    random = np.random.default_rng(2)
    truths = 50 + 10 * random.normal(size=N)
    coins = np.stack([COINS, *(draw_coins(N, 30 + number) for number in range(1, models))])
    spread = np.exp(random.normal(size=N))
    return truths, coins, truths + spread * np.where(coins, 0.5, 3.0) * random.normal(size=coins.shape)


def regression_audit(unit: float, shift: float = 0.0) -> dict[str, Array]:
    truths, coins, predictions = regressions()
    models = [Answer(unit * row + shift) for row in predictions]
    references = References(included=coins[1:, order()], models=models[1:])
    settings = replace(SETTINGS, scorers=("lira", "rmia", "loss", "offset", "attack_r"), proven_by=("lira",))
    result = examine(models[0], *sides(unit * truths + shift), settings, references)
    (bound,) = {read_epsilon(bound) for attack in result.report.mechanisms[0].games[0].attacks for bound in attack.bounds}
    return {**result.scores, "epsilon": np.array(bound)}


@pytest.mark.slow
def test_a_regression_is_the_same_in_every_unit() -> None:
    euros = regression_audit(1.0)
    assert float(roc.auc(euros["lira"][: COINS.sum()], euros["lira"][COINS.sum() :])) > 0.7 and euros["epsilon"] > 0
    for unit, shift in ((1e-3, 0.0), (1.8, 32.0)):
        peer = regression_audit(unit, shift)
        assert set(peer) == set(euros)
        for name, scores in euros.items():
            np.testing.assert_allclose(peer[name], scores, rtol=1e-5, atol=1e-5, err_msg=f"{name} in units of {unit}")


def test_confidences_of_errors_are_those_of_loops() -> None:
    errors = np.random.default_rng(3).normal(size=(3, 5, 2)) * [1.0, 1000.0]
    scale = [np.mean([errors[k, i, j] ** 2 for k in range(3) for i in range(5)]) for j in range(2)]
    by_hand = np.array([[-np.log(sum(errors[k, i, j] ** 2 / scale[j] for j in range(2))) for i in range(5)] for k in range(3)])
    np.testing.assert_allclose(error_confidences(errors), by_hand - np.median(by_hand), atol=1e-12)
    assert np.isfinite(error_confidences(np.array([[[0.0], [1.0]]]))).all()
    assert not error_confidences(np.zeros((2, 3, 1))).any()


@pytest.mark.slow
def test_regressors_of_scikit_learn_and_torch_are_audited_as_they_are() -> None:
    truths = 3 * INPUTS[:, 0] + RANDOM.normal(size=N)
    members, nonmembers = sides(truths)
    tree = audit.check(DecisionTreeRegressor(random_state=0).fit(*members), members, nonmembers, quiet=True)
    assert tree.attacks[0].auc == 1.0 and any("a regression" in note for note in tree.report.notes)
    line = audit.check(LinearRegression().fit(*members), members, nonmembers, quiet=True)
    assert 0.3 < line.attacks[0].auc < 0.7
    net = nn.Linear(4, 1)
    assert {row.status[:7] for row in audit.check(net, members, nonmembers, quiet=True).attacks} == {"run", "not run"}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["logit", "column", "probability", "torch"])
def test_one_output_is_two_classes(form: str) -> None:
    labels = (INPUTS[:, 1] > 0).astype(np.int64)
    logits = (2.0 * labels - 1) * (0.5 + 2 * COINS) + RANDOM.normal(size=N)
    outputs = {"logit": logits, "column": logits[:, None], "probability": special.expit(logits), "torch": logits}[form]
    if form == "torch":
        model: Any = nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))
        with torch.no_grad():
            outputs = model(torch.from_numpy(INPUTS)).numpy()
    else:
        model = Answer(outputs)
    logits = special.logit(outputs) if form == "probability" else outputs.reshape(N)
    single = examine(model, *sides(labels), SETTINGS)
    pair = examine(Answer(np.stack([np.zeros(N), logits], axis=1)), *sides(labels), SETTINGS)
    assert set(single.scores) == set(pair.scores)
    for name, scores in pair.scores.items():
        np.testing.assert_allclose(single.scores[name], scores, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_several_labels_are_a_loss_and_so_are_tokens() -> None:
    random = np.random.default_rng(4)
    labels = random.integers(0, 2, (N, 5))
    logits = (2.0 * labels - 1) * (0.2 + 2 * COINS[:, None]) + random.normal(size=(N, 5))
    by_hand = [
        sum(-np.log(special.expit(z if y else -z)) for z, y in zip(*row, strict=True))
        for row in zip(logits, labels, strict=True)
    ]
    for outputs in (logits, special.expit(logits)):
        np.testing.assert_allclose(read_outputs(outputs, labels).values, by_hand, rtol=1e-9)
    result = examine(Answer(logits), *sides(labels), SETTINGS)
    assert float(roc.auc(result.scores["loss"][: COINS.sum()], result.scores["loss"][COINS.sum() :])) > 0.9
    tokens = random.integers(-1, 7, (N, 6))
    tokens[:, 0] = 3
    scores = random.normal(size=(N, 6, 7))
    means = [
        np.mean([special.logsumexp(row[place]) - row[place, token] for place, token in enumerate(line) if token >= 0])
        for row, line in zip(scores, tokens, strict=True)
    ]
    np.testing.assert_allclose(read_outputs(scores, tokens).values, means, rtol=1e-9)
    assert examine(Answer(scores), *sides(tokens), SETTINGS).scores["loss"].shape == (N,)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("labels", "answer"),
    [
        (np.arange(N) % 3, np.zeros(3)),
        (np.arange(N) % 2, np.zeros(())),
        (RANDOM.normal(size=N), np.full((), 0.37)),
        (np.stack([np.arange(N) % 2] * 3, axis=1), np.full(3, -0.2)),
    ],
    ids=["classes", "one logit", "regression", "several labels"],
)
def test_a_model_that_answers_one_thing_is_chance(labels: Array, answer: Array) -> None:
    result = examine(Answer(np.broadcast_to(answer, (N, *answer.shape))), *sides(labels), SETTINGS)
    attacks = result.report.mechanisms[0].games[0].attacks
    if labels.ndim == 2:  # its losses differ with the labels, which say nothing of membership
        assert all(abs(attack.auc - 0.5) < 0.15 for attack in attacks)
    else:
        assert all(attack.auc == 0.5 for attack in attacks)
    assert all(read_epsilon(bound) == 0 for attack in attacks for bound in attack.bounds)


@pytest.mark.parametrize(
    ("outputs", "labels", "message"),
    [
        (np.zeros((4, 2)), np.array([0, 1, 2, 0]), r"label 2 of record 3 .* is out of range: the target has 2 classes"),
        (np.zeros(4, np.int64), np.array([0, 1, 2, 0]), r"expected logits or probabilities, \(4, 3\); for a regression"),
        (np.zeros((3, 2)), np.array([0, 1, 1, 0]), r"shape \(3, 2\) for 4 records"),
        (np.zeros((4, 2)), np.array([0.5, 1, 1, 0]), "one prediction for each number"),
        (np.zeros((4, 3)), np.zeros((4, 2), np.int64), "one logit or probability for each label"),
        (np.zeros((4, 2), np.int64), np.full((4, 2), 3), "for a regression give predictions as real numbers"),
        (np.ones(4), np.array([1, 2, 2, 1]), "y holds the two values 1 and 2, as labels do"),
        (np.array([[0.9, 0.8], [0.1, 0.1]]), np.array([0, 1]), "rows sum to 0.2 to 1.7: neither logits nor probabilities"),
        (np.array([20.0, 90.0]), np.array([0, 1]), "percentages divided by 100"),
        (np.zeros((2, 2)), np.array([[0.9, 0.1], [0.2, 0.8]]), "soft labels"),
        (np.zeros((4, 2, 5)), np.full((4, 3), 3), r"expected \(n, tokens, vocabulary\)"),
        (np.zeros((4, 2, 5)), np.full((4, 2), -1), "record 1 .* has no token that is predicted"),
        (np.zeros((4, 2, 5)), np.array([0, 1, 1, 0]), "a token for each of 2 places"),
        (
            np.array([[0, -np.inf, 1]] * 4),
            np.array([0, 2, 2, 0]),
            r"class 1 for record 1 .* is minus infinity .*leave out the cl.*1",
        ),
        (np.array([[0, -np.inf], [0, 1]]), np.array([0, 1]), "answer with a finite number, as -1e4"),
        (np.array([["a"], ["b"]]), np.array([0, 1]), "expected logits or probabilities"),
    ],
)
def test_outputs_that_do_not_fit_are_explained(outputs: Array, labels: Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_outputs(outputs, labels)


def test_recorded_errors_are_a_regression() -> None:
    truths, coins, predictions = regressions()
    errors = (predictions - truths)[..., None]
    references = References(included=coins[1:], errors=errors[1:])
    settings = replace(SETTINGS, scorers=("lira", "rmia"), proven_by=("lira",))
    result = examine_outputs(View.of(errors=errors[0]), COINS, settings, references=references)
    again = examine_outputs(
        View.of(errors=1000 * errors[0]), COINS, settings, references=References(included=coins[1:], errors=1000 * errors[1:])
    )
    assert all(np.allclose(result.scores[name], again.scores[name]) for name in result.scores)
    with pytest.raises(DataError, match="the target shows losses of shape"):
        examine_outputs(View.of(losses=errors[0, :, 0] ** 2), COINS, SETTINGS, references=references)

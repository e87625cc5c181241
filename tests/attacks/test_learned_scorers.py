"""Scorers that learn on references, against loops over records and another library's logistic regression."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations_with_replacement
from statistics import NormalDist

import numpy as np
import pytest
from scipy import optimize, special, stats
from sklearn.linear_model import LogisticRegression, QuantileRegressor

from attacks.signals import _temperature
from audit import plugins
from audit.core.data import Array
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import logistic

RANDOM = np.random.default_rng(4)
M, K, CLASSES = 30, 8, 4
LABELS = RANDOM.integers(0, CLASSES, M)
INCLUDED = RANDOM.random((K, M)) < 0.5
INCLUDED[:6] = np.array([[True], [False]] * 3)  # three models on each side, whoever is left out
LOGITS = (RANDOM.standard_normal((K + 1, M, CLASSES)) + 2 * np.eye(CLASSES)[LABELS]).astype(np.float32)
LOGITS[1:] += (INCLUDED[..., None] * np.eye(CLASSES)[LABELS]).astype(np.float32)
LENGTHS = {name: RANDOM.random((K + 1, M)) + 0.1 for name in ("gradient_norms", "last_gradient_norms", "class_distances")}
TRAJECTORY = RANDOM.random((K + 1, M, 3)) + 0.1

Row = list[float]


def of(model: int, record: int) -> tuple[float, float]:
    """Logit-scaled confidence and log probability of the label; model 0 is the target."""
    values = [float(v) for v in LOGITS[model, record]]
    others = sum(math.exp(v) for j, v in enumerate(values) if j != LABELS[record])
    own = math.exp(values[LABELS[record]])
    return math.log(own / others), math.log(own / (own + others))


CONFIDENCE = [[of(model, i)[0] for i in range(M)] for model in range(K + 1)]


def mean(values: Row) -> float:
    return sum(values) / len(values)


def squares(values: Row) -> float:
    return sum((v - mean(values)) ** 2 for v in values)


def side(table: list[Row], record: int, member: bool, without: int) -> Row:
    """A signal of the references other than `without` (0: none) on one side of a record."""
    return [table[k + 1][record] for k in range(K) if INCLUDED[k, record] == member and k + 1 != without]


def fixed_std(table: list[Row], member: bool) -> float:
    groups = [side(table, i, member, 0) for i in range(M)]
    return math.sqrt(sum(squares(g) for g in groups) / sum(len(g) - 1 for g in groups))


def products(row: Row) -> Row:
    return row + [row[i] * row[j] for i, j in combinations_with_replacement(range(len(row)), 2)]


def learned(features: Callable[[int, int], Row], ridge: float, tail: bool = False) -> Array:
    """Log odds of the target's records by a fit on all (reference, record) pairs; `features(model, record)`.

    With `tail` a second fit counts pairs by how far the first puts them above four fifths of the nonmembers.
    """
    rows = np.array([features(k + 1, i) for k in range(K) for i in range(M)])
    wanted = np.array([features(0, i) for i in range(M)])
    level, spread = rows.mean(axis=0), rows.std(axis=0)
    model = LogisticRegression(C=1 / (ridge * len(rows)), tol=1e-10, max_iter=10_000)
    model.fit((rows - level) / spread, INCLUDED.ravel())
    if tail:
        odds = model.decision_function((rows - level) / spread)
        bar, width = np.quantile(odds[~INCLUDED.ravel()], 0.8), 0.25 * odds.std()
        weights = 0.01 + 1 / (1 + np.exp((bar - odds) / width))
        model.fit((rows - level) / spread, INCLUDED.ravel(), sample_weight=weights / weights.mean())
    return np.asarray(model.decision_function((wanted - level) / spread))


def score(kind: str, **seen: Array) -> Array:
    target = View.of(labels=LABELS, **{name: value[0] for name, value in seen.items()})
    reference = View.of(included=INCLUDED, **{name: value[1:] for name, value in seen.items()})
    return plugins.build("attacks.scorers", {"kind": kind}).score(target, reference, Seed(0))


def close(found: Array, naive: Array) -> None:
    np.testing.assert_allclose(found, naive, rtol=1e-3, atol=1e-3 * float(np.std(naive)))


def test_shadow_classifier_learns_what_predictions_for_members_look_like() -> None:
    def features(model: int, i: int) -> Row:
        values = [float(v) for v in LOGITS[model, i]]
        total = math.log(sum(math.exp(v) for v in values))
        falling = sorted((v - total for v in values), reverse=True)[:3]
        right = float(max(range(CLASSES), key=lambda j: values[j]) == LABELS[i])
        return products([*falling, values[LABELS[i]] - total, CONFIDENCE[model][i], right])

    close(score("shadow_classifier", logits=LOGITS), learned(features, ridge=1e-3))


def test_learned_combination_weighs_what_references_say_of_a_record() -> None:
    std = {member: fixed_std(CONFIDENCE, member) for member in (True, False)}
    target, reference = View.of(labels=LABELS, logits=LOGITS[0]), View.of(included=INCLUDED, logits=LOGITS[1:])
    degree = _temperature.fitted_temperature(target, reference, "learned_combination", online=True)

    def probability(model: int, i: int) -> float:
        cooled = [math.exp(float(v) / degree) for v in LOGITS[model, i]]
        return cooled[LABELS[i]] / sum(cooled)

    def log_density(value: float, values: Row, member: bool) -> float:
        n = len(values)
        dof = 8 + n - 1
        variance = (8 * std[member] ** 2 + squares(values)) / dof
        return float(stats.t(df=dof, loc=mean(values), scale=math.sqrt(variance * (1 + 1 / n))).logpdf(value))

    def spread(values: Row, member: bool) -> float:
        return math.sqrt(squares(values) / (len(values) - 1)) if len(values) > 1 else std[member]

    def features(model: int, i: int) -> Row:
        inside, outside = (side(CONFIDENCE, i, member, model) for member in (True, False))
        chance = {k: probability(k, i) for k in range(K + 1)}
        averages = [
            mean([chance[k + 1] for k in range(K) if INCLUDED[k, i] == member and k + 1 != model]) for member in (True, False)
        ]
        likelihood = log_density(CONFIDENCE[model][i], inside, True) - log_density(CONFIDENCE[model][i], outside, False)
        combinations = products(
            [
                CONFIDENCE[model][i] / std[False],
                mean(outside) / std[False],
                mean(inside) / std[False],
                math.log(chance[model] / mean(averages)),
                math.log(spread(outside, False) / std[False]),
                math.log(spread(inside, True) / std[False]),
            ]
        )
        return [*combinations, likelihood]

    close(score("learned_combination", logits=LOGITS), learned(features, ridge=10 / (K * M), tail=True))


def signal_features(tables: list[list[Row]], squared: bool) -> Callable[[int, int], Row]:
    units = [fixed_std(table, False) for table in tables]

    def features(model: int, i: int) -> Row:
        found: Row = []
        for table, unit in zip(tables, units, strict=True):
            value = table[model][i] / unit
            inside, outside = (mean(side(table, i, member, model)) / unit for member in (True, False))
            row = [value, inside, outside]
            found += products(row) if squared else [*row, (value - (inside + outside) / 2) * (inside - outside)]
        return found

    return features


@pytest.mark.parametrize("hidden", [False, True])
def test_white_box_classifier_weighs_outputs_gradients_and_representation(hidden: bool) -> None:
    names = ("gradient_norms", "last_gradient_norms", "class_distances")[: 3 if hidden else 1]
    tables = [CONFIDENCE, *(np.log(LENGTHS[name]).tolist() for name in names)]
    naive = learned(signal_features(tables, squared=True), ridge=10 / (K * M))
    close(score("white_box_classifier", logits=LOGITS, **{name: LENGTHS[name] for name in names}), naive)


def test_trajectory_weighs_every_checkpoint() -> None:
    tables = [(-TRAJECTORY[..., c] - np.log(-np.expm1(-TRAJECTORY[..., c]))).tolist() for c in range(3)]
    naive = learned(signal_features(tables, squared=False), ridge=10 / (K * M))
    close(score("trajectory", loss_trajectory=TRAJECTORY), naive)


def test_quantile_places_a_record_in_the_law_of_a_nonmember_of_which_as_much_is_known() -> None:
    std = fixed_std(CONFIDENCE, False)

    def features(i: int, without: int) -> Row:
        known = side(CONFIDENCE, i, False, without)
        own = math.sqrt(squares(known) / (len(known) - 1)) if len(known) > 1 else std
        return [1.0, mean(known) / std, (mean(known) / std) ** 2, math.log(max(own, std / 1000) / std)]

    pairs = [(k + 1, i) for k in range(K) for i in range(M) if not INCLUDED[k, i]]
    rows, seen = np.array([features(i, model) for model, i in pairs]), np.array([CONFIDENCE[model][i] for model, i in pairs])
    width = 0.05 * float(np.std(seen))  # of the kernel that smooths the pinball loss

    def weights(level: float) -> Array:
        def loss(weights: Array) -> float:
            short = (rows @ weights - seen) / width
            return float(np.mean(level * (seen - rows @ weights) + width * np.logaddexp(0.0, short)))

        start = QuantileRegressor(quantile=level, alpha=0.0, fit_intercept=False).fit(rows, seen).coef_
        return np.asarray(optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-9}).x)

    normal = [0.0, NormalDist().inv_cdf(0.9), NormalDist().inv_cdf(0.99)]
    fitted = [weights(level) for level in (0.5, 0.9, 0.99)]

    def place(i: int) -> float:
        low, high, top = (float(np.dot(features(i, 0), one)) for one in fitted)
        first, second = max(high - low, 0.05 * std), max(top - high, 0.05 * std)
        above = CONFIDENCE[0][i] - low
        if above <= first:
            return normal[1] * above / first
        return normal[1] + (normal[2] - normal[1]) * (above - first) / second

    close(score("reference_quantile", logits=LOGITS), np.array([place(i) for i in range(M)]))


@pytest.mark.parametrize("online", [True, False])
def test_confidences_at_temperatures_computed_once_are_those_that_attacks_compute(online: bool) -> None:
    shared = _temperature.with_tempered_confidences(
        View.of(included=np.concatenate([INCLUDED[:1], INCLUDED]), logits=LOGITS), LABELS
    )

    def parts(signals: dict[str, Array]) -> tuple[View, View]:
        own, others = ({key: array[rows] for key, array in signals.items()} for rows in (0, slice(1, None)))
        return View(signals=own, labels=LABELS), View(signals=others, included=INCLUDED)

    for degree in (None, 0.5, 2.0, 3.0):
        attack = plugins.build("attacks.scorers", {"kind": "rmia", "online": online, "temperature": degree})
        plain, once = (attack.score(*parts(signals), Seed(0)) for signals in ({"logits": LOGITS}, dict(shared.signals)))
        np.testing.assert_array_equal(plain, once)


@pytest.mark.parametrize("kind", ["learned_combination", "shadow_classifier", "reference_quantile"])
def test_fits_on_a_part_of_the_records_rank_like_fits_on_all(kind: str) -> None:
    random, count = np.random.default_rng(0), 3000
    labels, coins = random.integers(0, 3, count), random.random((9, count)) < 0.5
    coins[1], coins[2] = False, True  # the first two references say nothing of one side
    logits = random.standard_normal((9, count, 3)) + 2 * np.eye(3)[labels] * (1 + coins[..., None])
    target, reference = View.of(labels=labels, logits=logits[0]), View.of(included=coins[1:], logits=logits[1:])
    part, everything = (
        plugins.build("attacks.scorers", {"kind": kind, "rows": rows}).score(target, reference, Seed(0))
        for rows in (1000, 10**6)
    )
    assert stats.spearmanr(part, everything).statistic > 0.97


def test_a_fit_in_blocks_of_rows_ends_at_the_minimum() -> None:
    random = np.random.default_rng(1)
    features = random.standard_normal((20_001, 3))
    coins = random.random(len(features)) < special.expit(features @ [1.0, -2.0, 0.0] - 1)
    ours = logistic.fit(features, coins, ridge=1e-4)
    residual = special.expit(ours.log_odds(features)) - coins
    standardised = (features - features.mean(axis=0)) / features.std(axis=0)
    np.testing.assert_allclose(standardised.T @ residual / len(residual) + 1e-4 * ours.weights, 0, atol=1e-7)
    assert abs(residual.mean()) < 1e-7

"""Scorers that learn on references, against loops over records and another library's logistic regression."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
    peers = sum(math.exp(v) for j, v in enumerate(values) if j != LABELS[record])
    numerator = math.exp(values[LABELS[record]])
    return math.log(numerator / peers), math.log(numerator / (numerator + peers))


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


def learned(features: Callable[[int, int], Row], ridge: float, tail: bool = False, centred: Sequence[int] = ()) -> Array:
    """Log odds of the target's records by a fit on all (reference, record) pairs; `features(model, record)`.

    With `tail` a second fit counts pairs by how far the first puts them above four fifths of the nonmembers. The ridge draws to
    the mean of the features `centred`, with the weight that a fit of this mean alone gives it.
    """
    rows = np.array([features(k + 1, i) for k in range(K) for i in range(M)])
    level, spread = rows.mean(axis=0), rows.std(axis=0)
    rows = (rows - level) / spread
    wanted = (np.array([features(0, i) for i in range(M)]) - level) / spread
    coins, centre = INCLUDED.ravel().astype(float), np.zeros(rows.shape[1])
    if centred:
        average = rows[:, list(centred)].mean(axis=1, keepdims=True)
        alone = LogisticRegression(C=1 / (1e-6 * len(rows)), tol=1e-10, max_iter=10_000).fit(average, coins)
        centre[list(centred)] = alone.coef_[0, 0] / len(centred)

    def weights(counts: Array) -> Array:
        def loss(weights: Array) -> float:
            z = weights[0] + rows @ weights[1:]
            distance = weights[1:] - centre
            return float(np.mean(counts * (np.logaddexp(0.0, z) - coins * z)) + ridge / 2 * np.sum(distance**2))

        def slope(weights: Array) -> Array:
            errors = counts * (special.expit(weights[0] + rows @ weights[1:]) - coins) / len(rows)
            return np.append(errors.sum(), rows.T @ errors + ridge * (weights[1:] - centre))

        start = np.zeros(rows.shape[1] + 1)
        return np.asarray(optimize.minimize(loss, start, jac=slope, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}).x)

    fitted = weights(np.ones(len(rows)))
    if tail:
        odds = fitted[0] + rows @ fitted[1:]
        bar, width = np.quantile(odds[~INCLUDED.ravel()], 0.8), 0.25 * odds.std()
        counts = 0.01 + 1 / (1 + np.exp((bar - odds) / width))
        fitted = weights(counts / counts.mean())
    return np.asarray(fitted[0] + wanted @ fitted[1:])


def score(kind: str, **observed: Array) -> Array:
    target = View.of(labels=LABELS, **{name: value[0] for name, value in observed.items()})
    reference = View.of(included=INCLUDED, **{name: value[1:] for name, value in observed.items()})
    return plugins.build("attacks.scorers", {"kind": kind}).score(target, reference, Seed(0))


def close(actual: Array, naive: Array) -> None:
    np.testing.assert_allclose(actual, naive, rtol=1e-3, atol=1e-3 * float(np.std(naive)))


def test_shadow_classifier_learns_what_predictions_for_members_look_like() -> None:
    def features(model: int, i: int) -> Row:
        values = [float(v) for v in LOGITS[model, i]]
        total = math.log(sum(math.exp(v) for v in values))
        falling = sorted((v - total for v in values), reverse=True)[:3]
        right = float(max(range(CLASSES), key=lambda j: values[j]) == LABELS[i])
        return products([*falling, values[LABELS[i]] - total, CONFIDENCE[model][i], right])

    close(score("shadow_classifier", logits=LOGITS), learned(features, ridge=1e-3))


def shifts(models: Sequence[int]) -> dict[tuple[int, int], tuple[float, float]]:
    """Level without the record and shrunken shift by (model, record), each model against all references but itself."""
    variance = {member: fixed_std(CONFIDENCE, member) ** 2 for member in (True, False)}
    pairs = [(model, i) for model in models for i in range(M)]
    inside = {(model, i): side(CONFIDENCE, i, True, model) for model, i in pairs}
    outside = {(model, i): side(CONFIDENCE, i, False, model) for model, i in pairs}
    raw_shifts = {pair: mean(inside[pair]) - mean(outside[pair]) for pair in pairs}
    noise = {pair: variance[True] / len(inside[pair]) + variance[False] / len(outside[pair]) for pair in pairs}
    centre = mean(list(raw_shifts.values()))
    between = max(squares(list(raw_shifts.values())) / len(pairs) - mean(list(noise.values())), 0.0)
    estimates = {}
    for pair in pairs:
        shift = centre + between / (between + noise[pair]) * (raw_shifts[pair] - centre)
        weights = len(inside[pair]) / variance[True], len(outside[pair]) / variance[False]
        level = (weights[0] * (mean(inside[pair]) - shift) + weights[1] * mean(outside[pair])) / sum(weights)
        estimates[pair] = level, shift
    return estimates


def test_learned_combination_weighs_what_references_say_of_a_record() -> None:
    std = {member: fixed_std(CONFIDENCE, member) for member in (True, False)}
    sides = shifts([0]) | shifts(range(1, K + 1))

    def probability(model: int, i: int, temperature: float) -> float:
        cooled = [math.exp(float(v) / temperature) for v in LOGITS[model, i]]
        return cooled[LABELS[i]] / sum(cooled)

    def ratios(model: int, i: int, temperature: float) -> Row:
        chance = [probability(k, i, temperature) for k in range(K + 1)]
        with_record, without = (
            mean([chance[k + 1] for k in range(K) if INCLUDED[k, i] == member and k + 1 != model]) for member in (True, False)
        )
        return [
            math.log(chance[model] / ((with_record + without) / 2)),
            math.log(chance[model] / ((without + 0.3 * without + 0.7) / 2)),
        ]

    def law(values: Row, member: bool) -> tuple[float, float]:
        dof = 8 + len(values) - 1
        return dof, math.sqrt((8 * std[member] ** 2 + squares(values)) / dof * (1 + 1 / len(values)))

    def features(model: int, i: int) -> Row:
        level, shift = sides[model, i]
        value, density = CONFIDENCE[model][i], {}
        for member in (True, False):
            dof, scale = law(side(CONFIDENCE, i, member, model), member)
            density[member] = float(stats.t(df=dof, loc=level + member * shift, scale=scale).logpdf(value))
        outside = side(CONFIDENCE, i, False, model)
        return [
            *products([value / std[False], level / std[False], shift / std[False], *ratios(model, i, 2.0)]),
            *ratios(model, i, 1.0),
            *ratios(model, i, 4.0),
            density[True] - density[False],
            (value - mean(outside)) / law(outside, False)[1],
        ]

    close(score("learned_combination", logits=LOGITS), learned(features, ridge=10 / (K * M), tail=True, centred=(3, 20, 22)))


def signal_features(tables: list[list[Row]], squared: bool) -> Callable[[int, int], Row]:
    units = [fixed_std(table, False) for table in tables]

    def features(model: int, i: int) -> Row:
        result: Row = []
        for table, unit in zip(tables, units, strict=True):
            value = table[model][i] / unit
            inside, outside = (mean(side(table, i, member, model)) / unit for member in (True, False))
            row = [value, inside, outside]
            result += products(row) if squared else [*row, (value - (inside + outside) / 2) * (inside - outside)]
        return result

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
        spread = math.sqrt(squares(known) / (len(known) - 1)) if len(known) > 1 else std
        return [1.0, mean(known) / std, (mean(known) / std) ** 2, math.log(max(spread, std / 1000) / std)]

    pairs = [(k + 1, i) for k in range(K) for i in range(M) if not INCLUDED[k, i]]
    rows, observed = (
        np.array([features(i, model) for model, i in pairs]),
        np.array([CONFIDENCE[model][i] for model, i in pairs]),
    )
    width = 0.05 * float(np.std(observed))  # of the kernel that smooths the pinball loss

    def weights(level: float) -> Array:
        def loss(weights: Array) -> float:
            short = (rows @ weights - observed) / width
            return float(np.mean(level * (observed - rows @ weights) + width * np.logaddexp(0.0, short)))

        start = QuantileRegressor(quantile=level, alpha=0.0, fit_intercept=False).fit(rows, observed).coef_
        return np.asarray(optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-9}).x)

    normal = [0.0, NormalDist().inv_cdf(0.9), NormalDist().inv_cdf(0.99)]
    fitted = [weights(level) for level in (0.5, 0.9, 0.99)]

    def place(i: int) -> float:
        low, high, top = (float(np.dot(features(i, 0), item)) for item in fitted)
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
        target, peers = ({key: array[rows] for key, array in signals.items()} for rows in (0, slice(1, None)))
        return View(signals=target, labels=LABELS), View(signals=peers, included=INCLUDED)

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
    assert stats.spearmanr(part, everything).statistic > 0.96


def test_a_fit_in_blocks_of_rows_ends_at_the_minimum() -> None:
    random = np.random.default_rng(1)
    features = random.standard_normal((20_001, 3))
    coins = random.random(len(features)) < special.expit(features @ [1.0, -2.0, 0.0] - 1)
    ours = logistic.fit(features, coins, ridge=1e-4)
    residual = special.expit(ours.log_odds(features)) - coins
    standardised = (features - features.mean(axis=0)) / features.std(axis=0)
    np.testing.assert_allclose(standardised.T @ residual / len(residual) + 1e-4 * ours.weights, 0, atol=1e-7)
    assert abs(residual.mean()) < 1e-7

"""Every estimator for secrets of several values, present and future: what its protocol promises, on known mechanisms."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from audit import plugins
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.canaries import Secrets
from audit.core.data import Array
from audit.core.errors import AssumptionError, DataError, UnsupportedMechanism
from audit.core.events import dp_sgd
from audit.core.game import Assumption, Game, Inclusion
from audit.core.lower_bounds import LowerBound
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.curves import dp_sgd_curve, tradeoff
from audit.stats.scoring import normal

PACKAGE = "audit.bounds.estimators"
NAMES = [
    name for name in plugins.names(PACKAGE) if Assumption.INDEPENDENT_SECRETS in plugins.build(PACKAGE, {"kind": name}).assumes
]
SPECS: list[dict[str, Any]] = [*({"kind": name} for name in NAMES), {"kind": "reconstruction", "family": "gdp"}]
IDS = [str(spec.get("family", spec["kind"])) for spec in SPECS]
DELTA = 1e-5


def game(secrets: int, choices: int, **changes: Any) -> Game:
    rules = Game(
        adjacency=Adjacency.REPLACE_ONE,
        access=Access.ALL_STEPS,
        inclusion=Inclusion.COINS,
        canaries=secrets,
        independent_noise=True,
        choices=choices,
        secret="attribute",
    )
    return dataclasses.replace(rules, **changes)


def scores(values: Array, drawn: Array, prior: Array | None = None, **changes: Any) -> Scores:
    secrets, choices = values.shape
    chances = np.full(values.shape, 1 / choices) if prior is None else prior
    included = drawn[:, None] == np.arange(choices)
    rules = game(secrets, choices, **changes)
    return Scores(values=values.ravel(), included=included.ravel(), game=rules, attack="test", prior=chances.ravel())


def randomised(secrets: int, choices: int, epsilon: float, seed: int, prior: Array | None = None, **changes: Any) -> Scores:
    """k-ary randomised response, seen through noise that keeps the likelihoods' order."""
    draw = Seed(seed).child("secrets").numpy()
    chances = np.full((secrets, choices), 1 / choices) if prior is None else prior
    drawn = Secrets(kind="attribute", prior=chances).draw(draw.random(secrets)).reshape(secrets, choices).argmax(axis=1)
    retained = draw.random(secrets) < (math.exp(epsilon) - 1) / (math.exp(epsilon) + choices - 1)
    answer = np.where(retained, drawn, draw.integers(choices, size=secrets))
    return scores(np.eye(choices)[answer] * (1 + draw.random((secrets, 1))), drawn, chances, **changes)


def gaussian(secrets: int, choices: int, mu: float, seed: int, **changes: Any) -> Scores:
    draw = Seed(seed).child("gaussian secrets").numpy()
    drawn = draw.integers(choices, size=secrets)
    return scores(draw.normal(size=(secrets, choices)) + mu * np.eye(choices)[drawn], drawn, **changes)


def bound(spec: dict[str, Any], what: Scores, confidence: float = 0.95, delta: float = DELTA) -> LowerBound:
    return plugins.build(PACKAGE, spec).lower_bound(what, delta=delta, confidence=confidence, seed=Seed(0))


def allowed(trials: int, rate: float = 0.05, tail: float = 1e-4) -> int:
    draws = np.random.default_rng(0).binomial(trials, rate, 200_000)
    return int(np.quantile(draws, 1 - tail))


def test_there_are_such_estimators() -> None:
    assert {"one_run_secrets", "reconstruction"} <= set(NAMES)


@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_result_is_complete(spec: dict[str, Any]) -> None:
    result = bound(spec, gaussian(300, 5, 1.5, 1))
    assert result.estimator == spec["kind"]
    assert result.delta == DELTA and result.confidence == 0.95
    assert 0 < result.epsilon <= result.ceiling < np.inf
    assert set(result.assumes) == set(plugins.build(PACKAGE, spec).assumes)
    assert (result.family is None) == (result.parameter is None)
    assert result.selected


@pytest.mark.parametrize("spec", SPECS, ids=IDS)
@pytest.mark.parametrize("choices", [2, 10])
def test_strong_leakage_is_proved_and_nothing_proves_nothing(spec: dict[str, Any], choices: int) -> None:
    drawn = Seed(1).numpy().integers(choices, size=300)
    perfect = bound(spec, scores(np.eye(choices)[drawn], drawn))
    assert perfect.epsilon == perfect.ceiling > 3
    assert bound(spec, scores(-np.eye(choices)[drawn], drawn)).epsilon == 0
    assert bound(spec, scores(np.zeros((300, choices)), drawn)).epsilon == 0  # ties count against the attack


@pytest.mark.sampled(1)
@pytest.mark.parametrize("spec", SPECS, ids=IDS)
@pytest.mark.parametrize("choices", [2, 10])
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_coverage_on_randomised_response(spec: dict[str, Any], choices: int, epsilon: float) -> None:
    if spec.get("family") == "gdp" and epsilon:
        pytest.skip("randomised response is not in the family")
    trials, estimator = 30, plugins.build(PACKAGE, spec)
    bounds = [
        estimator.lower_bound(randomised(120, choices, epsilon, i), delta=1e-9, confidence=0.95, seed=Seed(0))
        for i in range(trials)
    ]
    assert sum(result.epsilon > epsilon for result in bounds) <= allowed(trials)


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_coverage_on_the_gaussian_mechanism_in_both_adjacencies(spec: dict[str, Any]) -> None:
    trials, truth = 30, {True: tradeoff.gdp_epsilon(math.sqrt(2), DELTA), False: tradeoff.gdp_epsilon(1.0, DELTA)}
    for adjacency in (Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE):
        chosen = {**spec, "conversion": "group"} if spec["kind"] == "one_run_secrets" else spec
        bounds = [bound(chosen, gaussian(80, 4, 1.0, i, adjacency=adjacency)).epsilon for i in range(trials)]
        assert sum(result > truth[adjacency is Adjacency.REPLACE_ONE] for result in bounds) <= allowed(trials)


def sampled(noise: float, seed: int, claimed: float = 0.8, **changes: Any) -> Scores:
    """Candidates along their own directions in DP-SGD of 40 steps at rate 0.1, scored by their likelihood."""
    draw, shape = np.random.default_rng(seed), (300, 10, 40)
    drawn = draw.integers(10, size=300)
    present = (np.arange(10) == drawn[:, None])[..., None] & (draw.random((300, 1, 40)) < 0.1)
    products = present + noise * draw.standard_normal(shape)
    values = normal.log_likelihood_ratio_subsampled_gaussian(products, claimed, 0.1).sum(axis=-1)
    mechanism = dp_sgd(noise_multiplier=claimed, clip_norm=1.0, sample_rate=0.1, steps=40)
    return dataclasses.replace(scores(values, drawn, **{"adjacency": Adjacency.ADD_REMOVE, **changes}), mechanism=mechanism)


@pytest.mark.slow
def test_the_curve_of_dp_sgd_is_refuted_by_less_noise_and_never_by_its_own() -> None:
    spec = {"kind": "reconstruction", "family": "dp_sgd"}
    honest = [bound(spec, sampled(0.8, seed)) for seed in range(3)]
    claim = dp_sgd_curve.epsilon_floor(0.8, 0.1, 40, DELTA)
    assert all(0 < result.epsilon < claim and result.family == "dp_sgd" for result in honest)
    assert all(result.parameter is not None and result.parameter > 0.8 for result in honest)
    plain = [bound({"kind": "reconstruction"}, sampled(0.8, seed)) for seed in range(3)]
    assert np.median([result.epsilon for result in honest]) > 1.3 * np.median([result.epsilon for result in plain])
    broken = bound(spec, sampled(0.4, 0))
    assert broken.epsilon > claim and broken.epsilon <= broken.ceiling


def test_the_curve_of_dp_sgd_asks_for_a_mechanism_and_for_add_remove() -> None:
    spec = {"kind": "reconstruction", "family": "dp_sgd"}
    with pytest.raises(UnsupportedMechanism, match="needs scores of a DP-SGD training"):
        bound(spec, gaussian(50, 4, 1.0, 0, adjacency=Adjacency.ADD_REMOVE))
    with pytest.raises(UnsupportedMechanism, match="not under replacing one"):
        bound(spec, sampled(0.8, 0, adjacency=Adjacency.REPLACE_ONE))


@pytest.mark.slow
@pytest.mark.parametrize("named", [3, 8])
@pytest.mark.parametrize("epsilon", [0.0, 0.7])
def test_coverage_of_guesses_of_several_values(named: int, epsilon: float) -> None:
    """On the mechanism that names a set of that size, which holds the value as often as epsilon allows."""
    trials, choices, secrets = 30, 16, 150
    rate, over = math.exp(epsilon) * named / (math.exp(epsilon) * named + choices - named), 0
    for seed in range(trials):
        draw = np.random.default_rng(seed)
        drawn = draw.integers(choices, size=secrets)
        order = draw.random((secrets, choices))
        order[np.arange(secrets), drawn] = np.where(draw.random(secrets) < rate, 2.0, -1.0)
        result = bound({"kind": "one_run_secrets", "named": named}, scores(order, drawn), delta=1e-9)
        over += result.epsilon > epsilon
        assert result.epsilon <= result.ceiling
    assert over <= allowed(trials)


def test_a_weak_signal_is_seen_by_guesses_of_several_values_and_a_strong_one_by_guesses_of_one() -> None:
    proofs = {
        (mu, named): np.median(
            [bound({"kind": "one_run_secrets", "named": named}, gaussian(400, 64, mu, seed)).epsilon for seed in range(3)]
        )
        for mu in (0.35, 3.0)
        for named in (1, 8)
    }
    assert proofs[0.35, 8] > 0.1 + proofs[0.35, 1] and proofs[3.0, 1] > 1 + proofs[3.0, 8]


def test_guesses_of_several_values_need_equal_priors_and_a_value_left() -> None:
    what = randomised(60, 4, 1.0, 0, np.tile([0.4, 0.2, 0.2, 0.2], (60, 1)))
    with pytest.raises(AssumptionError, match="equally likely"):
        bound({"kind": "one_run_secrets", "named": 2}, what)
    with pytest.raises(AssumptionError, match="4 of 4 values"):
        bound({"kind": "one_run_secrets", "named": 4}, what)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [5.0, 0.5])
def test_likelihood_guesses_under_strong_priors_prove_what_posterior_guesses_do_not(prior: float) -> None:
    """And accuracy says nothing of it: the posterior is right more often."""
    medians, right = {}, {}
    for name in ("likelihood", "posterior"):
        result, hits = [], []
        for seed in range(8):
            chances = np.maximum(np.random.default_rng(seed).dirichlet([prior] * 4, 300), 1e-9)
            chances /= chances.sum(axis=1, keepdims=True)
            plain = randomised(300, 4, 1.0, seed, chances)
            values, drawn, _ = plain.secrets
            likelihood = np.where(values > 0, math.e, 1.0)
            shown = np.log(likelihood * chances) if name == "posterior" else values
            what = scores(shown, drawn, chances)
            hits.append((shown.argmax(axis=1) == drawn).mean())
            result.append(bound({"kind": "one_run_secrets"}, what, delta=0.0).epsilon)
        medians[name], right[name] = np.median(result), np.mean(hits)
        assert sum(value > 1.0 for value in result) <= allowed(8)
    assert right["posterior"] > right["likelihood"]
    assert medians["likelihood"] > medians["posterior"] + 0.05
    assert medians["likelihood"] > 0.55


@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_order_of_secrets_and_of_values_does_not_matter(spec: dict[str, Any]) -> None:
    plain = gaussian(150, 4, 1.2, 4)
    values, drawn, _ = plain.secrets
    values = np.round(values, 1)
    order, columns = Seed(5).numpy().permutation(150), np.array([2, 0, 3, 1])
    moved = scores(values[order][:, columns], np.argsort(columns)[drawn[order]])
    assert bound(spec, moved) == bound(spec, scores(values, drawn))


@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_non_increasing_in_confidence_and_delta(spec: dict[str, Any]) -> None:
    drawn = gaussian(200, 4, 1.5, 6)
    by_confidence = [bound(spec, drawn, confidence=level).epsilon for level in (0.8, 0.9, 0.95, 0.99, 0.999)]
    assert by_confidence == sorted(by_confidence, reverse=True) and by_confidence[0] > by_confidence[-1]
    by_delta = [bound(spec, drawn, delta=delta).epsilon for delta in (1e-7, 1e-5, 1e-4, 1e-3)]
    assert by_delta == sorted(by_delta, reverse=True)


def test_one_run_is_refused_for_add_remove_without_a_conversion() -> None:
    what = gaussian(100, 4, 2.0, 1, adjacency=Adjacency.ADD_REMOVE)
    estimator = plugins.build(PACKAGE, {"kind": "one_run_secrets"})
    with pytest.raises(AssumptionError, match="replaced_values"):
        what.game.require(estimator.assumes, "OneRunSecrets")
    with pytest.raises(AssumptionError, match="conversion: group"):
        estimator.lower_bound(what, delta=DELTA, confidence=0.95, seed=Seed(0))
    converted = bound({"kind": "one_run_secrets", "conversion": "group"}, what)
    direct = bound({"kind": "one_run_secrets"}, gaussian(100, 4, 2.0, 1))
    assert 0 < converted.epsilon <= direct.epsilon / 2 + 1e-3


@pytest.mark.parametrize("name", [name for name in plugins.names(PACKAGE) if name not in NAMES])
def test_estimators_for_coins_refuse_secrets(name: str) -> None:
    with pytest.raises(AssumptionError, match="does not grant"):
        game(100, 4).require(plugins.build(PACKAGE, {"kind": name}).assumes, name)


def test_scores_of_secrets_are_checked() -> None:
    rules = game(2, 3)
    one_each = np.array([True, False, False, False, True, False])
    with pytest.raises(DataError, match="one true value"):
        Scores(values=np.zeros(6), included=np.ones(6, bool), game=rules, prior=np.full(6, 1 / 3))
    with pytest.raises(DataError, match="chances"):
        Scores(values=np.zeros(6), included=one_each, game=rules)
    with pytest.raises(DataError, match="with sum 1"):
        Secrets(kind="attribute", prior=np.array([[0.5, 0.6]]))

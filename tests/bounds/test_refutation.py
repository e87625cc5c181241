"""A claim put to the test alone: the same answer as the whole bound gives, and what follows from it for delta."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import numpy as np
import pytest

from audit import plugins
from audit.bounds import claim_test, group_privacy
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import Repeated, dp_sgd
from audit.core.game import Assumption, Game, Inclusion
from audit.core.lower_bounds import LowerBound
from audit.core.protocols import Refuter
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import guess_split, one_run_guesses, rank_exact, ranks
from audit.stats.curves import dp_sgd_curve, tradeoff

PACKAGE, DELTA = "audit.bounds.estimators", 1e-5
FULL = dp_sgd(noise_multiplier=2.0, clip_norm=1.0, sample_rate=1.0, steps=4)
SAMPLED = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.5, steps=8)
NAMES = [  # of canaries that are in or out; secrets of several values have their own tests
    name
    for name in plugins.names(PACKAGE)
    if Assumption.INDEPENDENT_SECRETS not in plugins.build(PACKAGE, {"kind": name}).assumes
]
SPECS: list[Any] = [
    *[({"kind": name}, FULL) for name in NAMES],
    ({"kind": "one_run", "calibration": "each"}, FULL),
    ({"kind": "rank_exact", "family": "gdp"}, FULL),
    ({"kind": "gaussian", "statistic": "paired"}, FULL),
    ({"kind": "fdp_rank", "statistic": "rank"}, FULL),
    pytest.param({"kind": "fdp_rank"}, SAMPLED, marks=pytest.mark.slow),
    pytest.param({"kind": "one_run_fdp", "family": "dp_sgd"}, SAMPLED, marks=pytest.mark.slow),
    ({"kind": "product_channel", "family": "any"}, FULL),
    pytest.param({"kind": "product_channel", "family": "dp_sgd"}, SAMPLED, marks=pytest.mark.slow),
]


def label(value: Any) -> str:
    return "-".join(map(str, value.values())) if isinstance(value, dict) else "full" if value is FULL else "sampled"


def scores(mu: float, seed: int, count: int = 160, mechanism: Repeated | None = FULL, **changes: Any) -> Scores:
    rules = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.ALL_STEPS,
        inclusion=Inclusion.COINS,
        canaries=count,
        independent_noise=True,
        **changes,
    )
    included = np.arange(count) % 2 == 0
    values = Seed(seed).child("normals").numpy().normal(size=count) + mu * included
    return Scores(values=values, included=included, game=rules, mechanism=mechanism)


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "mechanism"), SPECS, ids=label)
def test_a_claim_is_refuted_where_the_bound_lies_above_it(spec: dict[str, Any], mechanism: Repeated) -> None:
    estimator = plugins.build(PACKAGE, spec)
    for seed, mu in enumerate((0.0, 1.5, 3.0)):
        drawn = scores(mu, seed, mechanism=mechanism)
        requested: dict[str, Any] = {"delta": DELTA, "confidence": 0.95, "seed": Seed(seed)}
        bound = estimator.lower_bound(drawn, **requested).epsilon
        tried = [0.0, 0.9 * bound - 0.02, 1.1 * bound + 0.05, 6.0]
        for epsilon in [item for item in tried if item >= 0]:
            assert claim_test.refutes(estimator, drawn, epsilon=epsilon, **requested) == (bound > epsilon), (mu, bound, epsilon)
        assert not claim_test.refutes(estimator, drawn, epsilon=math.inf, **requested)
    assert bound > 0.5


def test_audits_that_are_tested_together_are_judged_as_alone() -> None:
    """Bets of audits with sides of other lengths are not mixed, and none profits from another's."""
    estimator, question = plugins.build(PACKAGE, {"kind": "sequential"}), {"epsilon": 0.2, "delta": DELTA, "confidence": 0.95}
    many = [scores(mu, seed, count) for seed, mu in enumerate((0.0, 1.0, 1.5, 3.0)) for count in (40, 61, 100)]
    seeds = [Seed(0)] * len(many)
    alone = [estimator.lower_bound(one, delta=DELTA, confidence=0.95, seed=Seed(0)).epsilon > 0.2 for one in many]
    assert claim_test.refutes_tables(estimator, many, seeds=seeds, **question) == alone
    assert any(alone) and not all(alone)
    assert not any(claim_test.refutes_tables(estimator, many, seeds=seeds, **{**question, "epsilon": math.inf}))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "fdp_rank"])
def test_simulated_audits_share_what_is_simulated(kind: str) -> None:
    """With one stream for the estimator a claim is tested in a small part of the time that a bound takes."""
    estimator, shared = plugins.build(PACKAGE, {"kind": kind}), Seed(1).child("shared")
    drawn = [scores(2.0, seed, 600) for seed in range(8)]
    requested: dict[str, Any] = {"delta": DELTA, "confidence": 0.95, "seed": shared}
    result = [claim_test.refutes(estimator, item, epsilon=3.0, **requested) for item in drawn]
    started = time.process_time()
    again = [claim_test.refutes(estimator, item, epsilon=3.0, **requested) for item in drawn]
    middle = time.process_time()
    bounds = [estimator.lower_bound(item, **requested).epsilon > 3.0 for item in drawn]
    assert result == again == bounds and any(result)
    assert time.process_time() - middle > 5 * (middle - started)


@pytest.mark.parametrize("name", NAMES)
def test_estimators_that_search_or_simulate_can_be_asked_for_one_claim(name: str) -> None:
    closed_form = ("clopper_pearson",)
    if name not in closed_form:
        assert isinstance(plugins.build(PACKAGE, {"kind": name}), Refuter)


# ---------------------------------------------------------------------------------------- copies


@pytest.mark.sampled(1)
@pytest.mark.parametrize("spec", [{"kind": "one_run"}, {"kind": "rank_exact"}, {"kind": "gaussian"}], ids=label)
def test_copies_are_judged_as_the_converted_bound_judges_them(spec: dict[str, Any]) -> None:
    estimator, drawn = plugins.build(PACKAGE, spec), scores(4.0, 3, 400, copies=2)
    requested: dict[str, Any] = {"delta": DELTA, "confidence": 0.95, "seed": Seed(0)}
    bound = group_privacy.bound(estimator, drawn, **requested).epsilon
    assert bound > 0.5
    for epsilon in (0.0, 0.95 * bound, 1.05 * bound, 20.0):
        assert claim_test.refutes(estimator, drawn, epsilon=epsilon, **requested) == (epsilon < bound)


def test_as_many_copies_count_as_there_are() -> None:
    """Of the Gaussian, whose group of three is known: a record's epsilon is refuted up to that of a third of the group's mu."""
    estimator, drawn = plugins.build(PACKAGE, {"kind": "gaussian"}), scores(4.0, 3, 160, copies=3)
    group = estimator.lower_bound(drawn, delta=DELTA, confidence=0.95, seed=Seed(0)).parameter
    for share, refuted in ((0.98, True), (1.02, False)):
        epsilon = tradeoff.gdp_epsilon(share * group / 3, DELTA)
        judged = claim_test.refutes(estimator, drawn, epsilon=epsilon, delta=DELTA, confidence=0.95, seed=Seed(0))
        assert judged == refuted


def test_groups_of_a_gaussian_are_gaussian_and_of_dp_sgd_unknown() -> None:
    epsilon, delta = group_privacy.of_group("gdp", 1.5, DELTA, 3)
    assert delta == DELTA
    assert tradeoff.gdp_mu(epsilon, delta) == pytest.approx(3 * tradeoff.gdp_mu(1.5, DELTA), rel=1e-9)
    with pytest.raises(UnsupportedMechanism, match="3 copies"):
        group_privacy.of_group("dp_sgd", 1.5, DELTA, 3)


# ---------------------------------------------------------------------------------------- delta at epsilon


def delta_at(spec: dict[str, Any], drawn: Scores, epsilon: float) -> float:
    return claim_test.delta_refuted(plugins.build(PACKAGE, spec), drawn, epsilon=epsilon, confidence=0.95, seed=Seed(0))


def test_delta_of_the_defaults_is_that_of_their_closed_forms() -> None:
    drawn = scores(3.0, 4, 400)
    ranked = ranks.by_rank(drawn.values, drawn.included)
    guesses = guess_split.guess_numbers(400, guess_split.shares_for(400))
    correct = guess_split.correct_guesses(ranked, guesses, guess_split.cut_between_sides(drawn.values))
    for epsilon in (0.5, 1.5):
        expected = one_run_guesses.delta_bound(guesses, correct, coins=400, epsilon=epsilon, significance=0.05)
        assert delta_at({"kind": "one_run", "calibration": "each"}, drawn, epsilon) == pytest.approx(expected, rel=1e-4)
    tests = rank_exact.precedence_tests(ranked, 3.0)
    result = delta_at({"kind": "rank_exact"}, drawn, 1.0)
    assert 0 < result < 1
    assert rank_exact.refutes(tests, tradeoff.epsilon_delta(1.0, result), significance=0.05)
    assert not rank_exact.refutes(tests, tradeoff.epsilon_delta(1.0, 1.001 * result), significance=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "mechanism"), SPECS, ids=label)
def test_delta_falls_with_epsilon_and_turns_back_into_it(spec: dict[str, Any], mechanism: Repeated) -> None:
    if spec["kind"] == "sequential":
        pytest.skip("bets on a grid of epsilon")
    drawn = scores(3.0, 5, 200, mechanism)
    result = [delta_at(spec, drawn, epsilon) for epsilon in (0.0, 0.8, 60.0)]
    assert result[0] > 0 and result[1] > 1e-6 and result[2] < 1e-14
    assert result[0] > result[1] or spec == {"kind": "one_run"}  # what delta adds to its walk falls with epsilon
    bound = plugins.build(PACKAGE, spec).lower_bound(drawn, delta=result[1], confidence=0.95, seed=Seed(0))
    assert bound.epsilon == pytest.approx(0.8, abs=0.02)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"kind": "both_ends"}, marks=pytest.mark.slow),
        {"kind": "rank_exact"},
        {"kind": "one_run"},
        {"kind": "clopper_pearson"},
        {"kind": "product_channel", "family": "any"},
    ],
    ids=label,
)
def test_delta_is_overstated_no_more_often_than_promised(spec: dict[str, Any]) -> None:
    """Perfectly revealed with chance 0.1, else nothing: (0, 0.1)-DP and no better."""
    over, trials = 0, 60
    for draw in range(trials):
        stream = Seed(9).child("reveal", draw).numpy()
        included = np.arange(200) < 100
        shown = stream.random(200) < 0.1
        values = np.where(shown, np.where(included, 10.0, -10.0), 0.0) + stream.normal(size=200)
        drawn = dataclasses.replace(scores(0.0, 0, 200), values=values, included=included)
        over += delta_at(spec, drawn, 0.0) > 0.1 + 1e-9
    assert over <= 10  # a binomial of 60 at 5 % exceeds that less than one time in ten thousand


def test_delta_that_cannot_be_stated_is_refused() -> None:
    with pytest.raises(ConfigError, match="split"):
        delta_at({"kind": "clopper_pearson", "threshold_by": "split"}, scores(1.0, 0), 1.0)
    with pytest.raises(UnsupportedMechanism, match="copies"):
        delta_at({"kind": "one_run"}, scores(1.0, 0, copies=2), 1.0)
    with pytest.raises(ConfigError, match="epsilon"):
        delta_at({"kind": "one_run"}, scores(1.0, 0), -1.0)


@dataclasses.dataclass(frozen=True)
class Elsewhere:
    """A third party's estimator: bounds only, inside a family that no one here knows."""

    assumes: frozenset = frozenset()

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        return LowerBound(
            epsilon=1.0,
            delta=delta,
            confidence=confidence,
            estimator="elsewhere",
            comparisons=1,
            ceiling=2.0,
            assumes=(),
            family="laplace",
            parameter=1.0,
        )


def test_estimators_from_elsewhere_are_asked_for_their_bound() -> None:
    requested: dict[str, Any] = {"delta": DELTA, "confidence": 0.95, "seed": Seed(0)}
    assert claim_test.refutes(Elsewhere(), scores(0.0, 0), epsilon=0.9, **requested)
    assert not claim_test.refutes(Elsewhere(), scores(0.0, 0), epsilon=1.0, **requested)
    with pytest.raises(UnsupportedMechanism, match="laplace"):
        claim_test.delta_refuted(Elsewhere(), scores(0.0, 0), epsilon=1.0, confidence=0.95, seed=Seed(0))


@pytest.mark.slow
def test_the_signal_of_an_epsilon_has_just_more_than_that() -> None:
    for rate, steps in ((1.0, 4), (0.5, 8)):
        signal = dp_sgd_curve.signal_of(2.0, rate, steps, DELTA)
        assert dp_sgd_curve.epsilon_floor(1 / signal, rate, steps, DELTA) > 2.0
        assert dp_sgd_curve.epsilon_floor(1 / (signal - 2e-3), rate, steps, DELTA) <= 2.0
    assert math.isinf(dp_sgd_curve.signal_of(1e9, 1.0, 4, DELTA))

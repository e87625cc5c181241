from __future__ import annotations

import math
import subprocess
import sys
import time

import numpy as np
import pytest

import audit
from audit import plugins
from audit.bounds import claim_test, group_privacy, power
from audit.bounds import simulation as certificates
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import AssumptionError, ConfigError, DataError, UnsupportedMechanism
from audit.core.events import dp_sgd
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.curves import tradeoff
from tests.bounds.powers import power_at

DRAW = np.random.default_rng(0)
MEMBERS, NONMEMBERS = DRAW.normal(2, 1, 300), DRAW.normal(0, 1, 300)
SGD = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.9, steps=4)


def game(**changes: object) -> Game:
    rules: dict = {
        "adjacency": Adjacency.ADD_REMOVE,
        "access": Access.FINAL_MODEL,
        "inclusion": Inclusion.COINS,
        "canaries": 1,
        "runs": 200,
    }
    return Game(**{**rules, **changes})


@pytest.mark.slow
def test_the_game_decides_the_default_estimator() -> None:
    assert audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5).estimator == "one_run"
    trials = audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, game="independent_trials")
    assert trials.estimator == "both_ends"
    assert trials.epsilon > 2
    assert trials == audit.lower_bound(list(MEMBERS), tuple(NONMEMBERS), delta=1e-5, game=game(runs=600))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "family", "name"),
    [
        ("independent_trials", "gdp", "gaussian"),
        ("independent_trials", "dp_sgd", "fdp_rank"),
        ("one_run", "gdp", "one_run_fdp"),
    ],
)
def test_a_claimed_family_decides_the_default_too(rules: str, family: str, name: str) -> None:
    result = audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, game=rules, family=family, mechanism=SGD)
    free = audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, game=rules)
    assert (result.estimator, result.family, free.family) == (name, family, None)
    assert result.epsilon > free.epsilon
    with pytest.raises(ConfigError, match="expected one of gdp, dp_sgd"):
        audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, game=rules, family="fdp")


@pytest.mark.slow
def test_options_reach_the_estimator() -> None:
    chosen = {"kind": "rank_exact", "family": "gdp"}
    result = audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, game="independent_trials", estimator=chosen)
    assert result.family == "gdp" and result.parameter > 1.3
    inside = audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, game="independent_trials", estimator="fdp_rank", mechanism=SGD)
    assert inside.family == "dp_sgd" and inside.parameter < 1.6


def test_misuse_is_refused_in_words() -> None:
    with pytest.raises(AssumptionError, match="independent_trials"):
        audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, estimator="rank_exact")
    with pytest.raises(AssumptionError, match="an epsilon cannot"):
        audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, game=game(inclusion=Inclusion.SPLIT))
    with pytest.raises(ConfigError, match="rank_exact"):
        audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, estimator="rank_exakt")
    with pytest.raises(ConfigError, match="expected one of one_run"):
        audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, game="poker")
    with pytest.raises(UnsupportedMechanism, match="fdp_rank"):
        audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, game="independent_trials", estimator="fdp_rank")
    with pytest.raises(DataError, match="0 member"):
        audit.lower_bound([], NONMEMBERS, delta=1e-5)
    with pytest.raises(DataError, match="NaN"):
        audit.lower_bound([1.0, math.nan], NONMEMBERS, delta=1e-5)
    with pytest.raises(DataError, match="one dimension"):
        audit.lower_bound(MEMBERS.reshape(3, 100), NONMEMBERS, delta=1e-5)
    with pytest.raises(ConfigError, match="confidence"):
        audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, confidence=1.0)
    with pytest.raises(ConfigError, match="delta"):
        audit.lower_bound(MEMBERS, NONMEMBERS, delta=-0.1)
    with pytest.raises(ConfigError, match="delta"):
        audit.lower_bound(MEMBERS, NONMEMBERS, delta=0.0, game="independent_trials", estimator="gaussian")


@pytest.mark.parametrize("kind", [bool, int, float])
def test_memberships_in_the_place_of_scores_are_refused(kind: type) -> None:
    draw = np.random.default_rng(0)
    scores, included = draw.normal(size=40), (draw.random(40) < 0.5).astype(kind)
    for sides in ((scores, included), (included, scores), (scores[:25], included), (included, scores[:25])):
        with pytest.raises(DataError, match="as memberships are"):
            audit.lower_bound(*sides, delta=1e-5)
    assert audit.lower_bound(np.ones(40), np.arange(40) % 2, delta=1e-5, certificates=0).epsilon >= 0  # answers yes or no


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("clopper_pearson", {"threshold_by": "best"}),
        ("clopper_pearson", {"ratio": 1.0}),
        ("rank_exact", {"family": "laplace"}),
        ("one_run", {"guess_fractions": []}),
        ("one_run", {"calibration": "all"}),
        ("one_run_fdp", {"guess_fractions": [1.5]}),
        ("product_channel", {"family": "all"}),
        ("gaussian", {"statistic": "t"}),
        ("fdp_rank", {"statistic": "t"}),
    ],
)
def test_bad_options_are_config_errors(kind: str, options: dict) -> None:
    with pytest.raises(ConfigError, match="expected"):
        plugins.build("audit.bounds.estimators", {"kind": kind, **options})


@pytest.mark.slow
def test_delta_zero_is_accepted_where_it_makes_sense() -> None:
    for name in ("one_run", "rank_exact", "clopper_pearson", "sequential"):
        assert audit.lower_bound(MEMBERS, NONMEMBERS, delta=0.0, game="independent_trials", estimator=name).epsilon > 1


@pytest.mark.slow
@pytest.mark.parametrize("threshold_by", ["rank", "split", "fixed"])
def test_every_way_to_a_threshold(threshold_by: str) -> None:
    chosen = {"kind": "clopper_pearson", "threshold_by": threshold_by, "threshold": 1.0}
    members, nonmembers = (np.random.default_rng(1).permutation(side) for side in (MEMBERS, NONMEMBERS))
    result = audit.lower_bound(members, nonmembers, delta=1e-5, game="independent_trials", estimator=chosen)
    assert 1 < result.epsilon <= result.ceiling
    backwards = audit.lower_bound(
        -nonmembers, -members, delta=1e-5, game="independent_trials", estimator={**chosen, "threshold": -1.0}
    )
    assert backwards.epsilon > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one_run_fdp", "product_channel"])
def test_families_of_sampled_training(name: str) -> None:
    mechanism = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.5, steps=10)
    draw = np.random.default_rng(1)
    rules = game(canaries=400, runs=1, independent_noise=True)
    included = draw.random(400) < 0.5
    observed = draw.normal(size=(400, 10)) + (included[:, None] & (draw.random((400, 10)) < 0.5))
    values = np.log(0.5 + 0.5 * np.exp(observed - 0.5)).sum(axis=1)
    scores = Scores(values=values, included=included, game=rules, mechanism=mechanism)
    estimator = plugins.build("audit.bounds.estimators", {"kind": name, "family": "dp_sgd"})
    result = estimator.lower_bound(scores, delta=1e-5, confidence=0.95, seed=Seed(0))
    assert result.family == "dp_sgd"
    assert 1.0 < result.parameter < 3.0  # the truth is 1; less noise is refuted only by chance
    assert 0.5 < result.epsilon <= result.ceiling


def test_roc_has_counts_and_a_band() -> None:
    curve = audit.roc(MEMBERS, NONMEMBERS)
    assert (curve.members, curve.nonmembers) == (300, 300)
    assert (curve.fpr[0], curve.tpr[0], curve.fpr[-1], curve.tpr[-1]) == (0, 0, 1, 1)
    assert all(low <= tpr <= high for low, tpr, high in zip(curve.lower, curve.tpr, curve.upper, strict=True))


@pytest.mark.slow
def test_public_functions_need_no_torch() -> None:
    code = "import sys, audit; audit.lower_bound([1.0, 2.0], [0.0, 1.0], delta=1e-5); "
    code += "assert not {'torch', 'sklearn', 'matplotlib', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_ten_thousand_scores_by_every_estimator_and_a_million_by_the_default() -> None:
    draw, spent = np.random.default_rng(2), {}
    rules = game(canaries=10_000, runs=1, independent_noise=True)
    scores = Scores(
        values=draw.normal(size=10_000) + (np.arange(10_000) < 5000),
        included=np.arange(10_000) < 5000,
        game=rules,
        mechanism=SGD,
    )
    for name in plugins.names("audit.bounds.estimators"):
        estimator = plugins.build("audit.bounds.estimators", {"kind": name})
        if not estimator.assumes <= rules.grants:  # of secrets with several values
            continue
        started = time.process_time()
        estimator.lower_bound(scores, delta=1e-5, confidence=0.95, seed=Seed(0))
        spent[name] = time.process_time() - started
    assert sum(spent.values()) < 2 * 5, spent  # four seconds on a free core; this one may be shared
    started = time.process_time()
    result = audit.lower_bound(draw.normal(1, 1, 500_000), draw.normal(0, 1, 500_000), delta=1e-5, game="independent_trials")
    assert result.epsilon > 2.5
    assert time.process_time() - started < 5 * 2


# ---------------------------------------------------------------------------------------- planning


def test_power_grows_with_the_truth_and_the_ceiling_is_honest() -> None:
    estimator = plugins.build("audit.bounds.estimators", {"kind": "rank_exact"})
    question = power.Question(delta=1e-5, claim=0.5, draws=20)
    rules = game(runs=200)
    powers = [power_at(estimator, rules, truth, question) for truth in (0.5, 3.0, 8.0)]
    assert powers[0] <= 0.2 and powers[-1] == 1 and powers == sorted(powers)
    top = power.ceiling(estimator, rules, question)
    assert max(power.bounds_at(estimator, rules, 40.0, question)) <= top * 1.1
    result = power.detectable(estimator, rules, question)
    assert power_at(estimator, rules, result, question) >= 0.8
    assert power_at(estimator, rules, 0.6 * result, question) < 0.8


CELLS = [
    *[("one_run", 100, 3.0), ("one_run", 100, 3.4), ("one_run", 1000, 5.7), ("rank_exact", 100, 1.0)],
    *[("sequential", 200, 0.5), ("gaussian", 200, 3.0), ("both_ends", 100, 0.5)],
    *[("fdp_rank", 200, 2.0), ("fdp_rank", 200, 3.0), ("fdp_rank", 100, 1.0)],
    *[("one_run_fdp", 200, 2.0), ("one_run_fdp", 300, 1.0)],
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scores", "claim"), CELLS)
def test_the_promised_power_is_that_of_fresh_games_with_coins_of_their_own(name: str, scores: int, claim: float) -> None:
    """Near the ceiling, too: half of the coins on either side, to the one, is what coins hardly ever give."""
    rules = Game.of_scores("one_run" if name.startswith("one_run") else "independent_trials", scores)
    options, mechanism = ({"family": "dp_sgd"}, SGD) if name == "one_run_fdp" else ({}, SGD if name == "fdp_rank" else None)
    estimator = plugins.build("audit.bounds.estimators", {"kind": name, **options})
    row = power.plan({name: estimator}, [rules], power.Question(delta=1e-5, claim=claim), mechanism=mechanism)[0]
    mu, draw, played = tradeoff.gdp_mu(row.detectable, 1e-5), np.random.default_rng(scores), []
    for _ in range(400):
        coins = draw.random(scores) < 0.5
        values = draw.normal(size=scores) + mu * coins
        played.append(Scores(values=values, included=coins, game=rules, mechanism=mechanism))
    question = {"delta": 1e-5, "confidence": 0.95}
    caught = claim_test.refutes_tables(estimator, played, epsilon=claim, seeds=[Seed(0)] * len(played), **question)
    assert 0.75 <= np.mean(caught) <= 0.85


def test_a_plan_tosses_the_coins_of_the_game() -> None:
    rules = game(canaries=100, runs=1)
    sides = [int(power.ideal_scores(rules, 1.0, Seed(draw)).included.sum()) for draw in range(200)]
    assert 4 < np.std(sides) < 6 and 49 < np.mean(sides) < 51
    few = {int(power.ideal_scores(rules, 1.0, Seed(draw), each_coin=False).included.sum()) for draw in range(200)}
    assert few == {44, 47, 50, 53, 56}


def test_a_claim_above_the_ceiling_is_out_of_reach() -> None:
    estimator = plugins.build("audit.bounds.estimators", {"kind": "one_run"})
    question = power.Question(delta=1e-6, claim=8.0, draws=3)
    assert power.detectable(estimator, game(canaries=50, runs=1), question) == math.inf
    assert power.scores_needed(estimator, game(canaries=50, runs=1), 4.0, power.Question(delta=0.2, draws=3)) is None


def test_scores_needed_suffice_and_far_fewer_do_not() -> None:
    estimator = plugins.build("audit.bounds.estimators", {"kind": "rank_exact"})
    question = power.Question(delta=1e-5, claim=0.5, draws=20)
    needed = power.scores_needed(estimator, game(), 6.0, question)
    assert needed is not None and 20 < needed < 400
    assert power_at(estimator, power.with_scores(game(), needed // 3), 6.0, question) < 0.8


@pytest.mark.slow
def test_a_plan_leaves_out_what_the_game_does_not_grant() -> None:
    rows = audit.plan(delta=1e-5, claim=0.0, scores=60, estimators=("one_run", "rank_exact"))
    assert [row.estimator for row in rows] == ["one_run"]
    with pytest.raises(ConfigError, match="coins"):
        power.plan({}, [game(inclusion=Inclusion.SPLIT)], power.Question(delta=1e-5))
    with pytest.raises(ConfigError, match="power"):
        power.Question(delta=1e-5, power=1.0)


def test_hours_follow_from_the_cost_of_a_model() -> None:
    estimator = plugins.build("audit.bounds.estimators", {"kind": "one_run"})
    rules = game(canaries=40, runs=1, references=9)
    (row,) = power.plan({"one_run": estimator}, [rules], power.Question(delta=1e-5, draws=2), seconds_per_model=720)
    assert row.hours == pytest.approx(2.0)


@pytest.mark.slow
def test_any_path_can_be_certified_without_a_config() -> None:
    nothing, flat, steep = audit.certify(delta=1e-5, scores=200, attacks=3, game="independent_trials", repetitions=30)
    assert (nothing.epsilon, flat.epsilon, steep.epsilon) == (0.0, 1.0, 2.5)
    assert nothing.kept and flat.kept and steep.kept and nothing.repetitions == 30
    assert nothing.nominal == pytest.approx(0.05)
    with pytest.raises(AssumptionError, match="independent_trials"):
        audit.certify(delta=1e-5, scores=200, estimators=("rank_exact",))


@pytest.mark.parametrize(
    "spec", [{"kind": "fdp_rank"}, {"kind": "one_run_fdp", "family": "dp_sgd"}, {"kind": "product_channel", "family": "dp_sgd"}]
)
def test_the_curve_of_sampled_training_is_not_used_for_replacement(spec: dict) -> None:
    rules = game(canaries=100, runs=1, independent_noise=True, adjacency=Adjacency.REPLACE_ONE)
    scores = Scores(values=np.arange(100.0), included=np.arange(100) >= 50, game=rules, mechanism=SGD)
    with pytest.raises(UnsupportedMechanism, match="replacing"):
        plugins.build("audit.bounds.estimators", spec).lower_bound(scores, delta=1e-5, confidence=0.95, seed=Seed(0))


# ---------------------------------------------------------------------------------------- certificates of single bounds


@pytest.mark.slow
def test_a_bound_carries_its_game_and_its_own_error_rate() -> None:
    result = audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, game="independent_trials")
    assert result.game.runs == 600 and result.game.adjacency is Adjacency.ADD_REMOVE
    assert [item.epsilon for item in result.certificates] == [0.0, 1.0, 2.5]
    assert all(item.kept and item.repetitions >= 20 and item.nominal == pytest.approx(0.05) for item in result.certificates)
    inside = audit.lower_bound(
        MEMBERS, NONMEMBERS, delta=1e-5, game="independent_trials", estimator="gaussian", certificates=20
    )
    assert [item.repetitions for item in inside.certificates] == [20, 20]
    assert inside.certificates[0].epsilon == 0.0 < inside.certificates[1].epsilon  # the family is tried at mu 1 too
    assert audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, certificates=0).certificates == ()
    requested = audit.lower_bound(MEMBERS[:50], NONMEMBERS[:50], delta=1e-5, certificates=300)
    assert {item.repetitions for item in requested.certificates} == {300}


def test_the_certificate_is_of_these_numbers_of_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    observed = []
    monkeypatch.setattr(certificates, "certify", lambda path, repetitions: observed.append(path) or ())
    audit.lower_bound(MEMBERS[:30], NONMEMBERS, delta=1e-5, confidence=0.9, game=game(runs=7))
    audit.lower_bound(MEMBERS[:150], NONMEMBERS[:180], delta=1e-5, game=game(canaries=1000, runs=1))
    lopsided, coins = observed
    assert (lopsided.scores, lopsided.level, lopsided.members) == (330, 0.9, 30)
    assert (coins.scores, coins.game.inclusion_probability, coins.members) == (330, 0.5, None)


@pytest.mark.slow
def test_a_certificate_does_not_hold_up_a_large_table() -> None:
    draw = np.random.default_rng(4)
    started = time.process_time()
    result = audit.lower_bound(draw.normal(1, 1, 250_000), draw.normal(0, 1, 250_000), delta=1e-5)
    assert result.certificates == () and time.process_time() - started < 12  # certificates of this size take minutes


def test_delta_of_any_estimator() -> None:
    free = audit.delta_lower_bound(MEMBERS, NONMEMBERS, epsilon=1.0)
    trials = audit.delta_lower_bound(MEMBERS, NONMEMBERS, epsilon=1.0, game="independent_trials")
    inside = audit.delta_lower_bound(MEMBERS, NONMEMBERS, epsilon=1.0, game="independent_trials", family="gdp")
    assert 1e-4 < free.delta < trials.delta < inside.delta < 0.6  # of mu 2 it is 0.523
    assert (free.family, trials.family, inside.family) == (None, None, "gdp") and inside.estimator == "gaussian"
    assert all(item.delta < item.ceiling and item.epsilon == 1.0 for item in (free, trials, inside))
    assert free.ceiling < 0.01 and trials.ceiling > 0.9 and trials.game.runs == len(MEMBERS) + len(NONMEMBERS)
    with pytest.raises(AssumptionError, match="independent_trials"):
        audit.delta_lower_bound(MEMBERS, NONMEMBERS, epsilon=1.0, estimator="rank_exact")
    with pytest.raises(ConfigError, match="epsilon"):
        audit.delta_lower_bound(MEMBERS, NONMEMBERS, epsilon=-1.0)


def test_a_family_beside_a_named_estimator_is_refused() -> None:
    for ask in (
        lambda: audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, estimator="rank_exact", family="gdp"),
        lambda: audit.delta_lower_bound(MEMBERS, NONMEMBERS, epsilon=1.0, estimator={"kind": "one_run"}, family="gdp"),
    ):
        with pytest.raises(ConfigError, match="beside the estimator"):
            ask()


def test_an_error_rate_in_place_of_a_confidence_is_questioned() -> None:
    with pytest.raises(ConfigError, match=r"give confidence 0\.95"):
        audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, confidence=0.05)
    with pytest.raises(ConfigError, match="confidence"):
        audit.certify(delta=1e-5, confidence=0.05)
    assert audit.lower_bound(MEMBERS, NONMEMBERS, delta=1e-5, confidence=0.5).epsilon > 0


def test_a_claim_for_a_group_asserts_no_family() -> None:
    claim = Claim(epsilon=0.5, delta=0.0, adjacency=Adjacency.ADD_REMOVE, unit="example", source="a test", family="dp_sgd")
    several = group_privacy.claim(claim, 3)
    assert (several.epsilon, several.family, several.unit) == (pytest.approx(1.5), None, "group of 3")

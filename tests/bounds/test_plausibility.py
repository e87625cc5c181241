"""Stated assumptions that the scores contradict, scores that are no numbers, and error rates that are shared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from audit import lower_bound, plugins
from audit.bounds import plausibility
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.errors import AssumptionError, ConfigError, DataError
from audit.core.game import Assumption, Game, Inclusion
from audit.core.seeds import Seed
from audit.core.views import Scores
from tests.marks import slow

ANY = ("one_run", "both_ends", "rank_exact", "clopper_pearson", "sequential")


def sides(members: int, nonmembers: int, seed: int = 0, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return draw.normal(shift, 1, members), draw.normal(0, 1, nonmembers)


def bound_scores(members: np.ndarray, nonmembers: np.ndarray, game: str = "one_run", **more: object):
    return lower_bound(members, nonmembers, delta=1e-5, game=game, certificates=0, **more)


@pytest.mark.slow
def test_coins_that_cannot_be_fair_are_refused_where_the_bound_needs_them() -> None:
    members, nonmembers = sides(950, 50)
    with pytest.raises(AssumptionError, match="950 of 1000 are members"):
        bound_scores(members, nonmembers)
    assert bound_scores(members, nonmembers, "independent_trials").remarks == ()
    assert "560 of 1000" in bound_scores(*sides(560, 440)).remarks[0]
    assert bound_scores(*sides(510, 490)).remarks == ()


def test_coins_that_the_audit_drew_miss_no_row() -> None:
    members, nonmembers = sides(41, 79)
    game, included = Game.of_scores("one_run", 120), np.arange(120) < 41
    table = Scores(values=np.concatenate([members, nonmembers]), included=included, game=game)
    coins = frozenset({Assumption.INDEPENDENT_COINS})
    assert "is in the table" in plausibility.remarks(table, coins)[0]
    (remark,) = plausibility.remarks(table, coins, own_coins=True)
    assert "41 of 120 are members" in remark and "this is chance" in remark and "table" not in remark


def test_copied_rows_are_refused_and_some_copies_remarked_on() -> None:
    members, nonmembers = sides(50, 50)
    with pytest.raises(AssumptionError, match="copies"):
        bound_scores(np.repeat(members, 10), np.repeat(nonmembers, 10))
    some = bound_scores(np.concatenate([members, members[:20]]), np.concatenate([nonmembers, nonmembers[:20]]))
    assert "40 of 140 rows repeat" in some.remarks[0]


def test_scores_of_few_values_are_no_copies_but_tied() -> None:
    draw = np.random.default_rng(1)
    result = bound_scores(draw.integers(0, 3, 100), draw.integers(0, 3, 100))
    assert result.epsilon == 0 and "equal one of the other side" in result.remarks[0]


@pytest.mark.slow
def test_neighbours_that_follow_each_other_are_no_independent_trials() -> None:
    draw = np.random.default_rng(2)
    drift = np.repeat(draw.normal(0, 5, 20), 10)  # 20 runs of ten canaries, each with its own offset
    result = bound_scores(drift + draw.normal(size=200), drift + draw.normal(size=200), "independent_trials")
    assert any("do not look like independent trials" in item for item in result.remarks)
    assert bound_scores(np.sort(draw.normal(size=200)), draw.normal(size=200), "independent_trials").remarks == ()


def test_honest_games_are_hardly_ever_remarked_on() -> None:
    odd = 0
    for seed in range(400):
        draw = np.random.default_rng(seed)
        included = draw.random(300) < 0.5
        rules = Game(adjacency=Adjacency.ADD_REMOVE, access=Access.FINAL_MODEL, inclusion=Inclusion.COINS, canaries=1, runs=300)
        scores = Scores(values=draw.normal(size=300) + included, included=included, game=rules)
        odd += bool(plausibility.remarks(scores, rules.grants))
    assert odd <= 4  # at 0.1 % each


def test_adjacency_is_what_the_caller_states() -> None:
    assert bound_scores(*sides(20, 20), adjacency="replace_one").game.adjacency is Adjacency.REPLACE_ONE
    with pytest.raises(ConfigError, match="adjacency is 'swap'"):
        bound_scores(*sides(20, 20), adjacency="swap")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("estimator", ["auto", "both_ends", "one_run", "clopper_pearson"])
def test_presence_proves_nothing_of_replacement(estimator: str) -> None:
    """A release of the number of records shows every coin of presence and nothing of a record that is replaced."""
    coins = np.random.default_rng(0).random(400) < 0.5
    released = 1000.0 + coins
    rules = Game(adjacency=Adjacency.ADD_REMOVE, access=Access.FINAL_MODEL, inclusion=Inclusion.COINS, canaries=1, runs=400)
    sides_of = {"member_scores": released[coins], "nonmember_scores": released[~coins], "delta": 1e-5, "certificates": 0}
    assert lower_bound(**sides_of, game=rules, estimator=estimator).epsilon > 3
    with pytest.raises(AssumptionError, match="nothing about replacing a record"):
        lower_bound(**sides_of, game=replace(rules, adjacency=Adjacency.REPLACE_ONE), estimator=estimator)
    planted = replace(rules, adjacency=Adjacency.REPLACE_ONE, substitutes=True)
    assert lower_bound(**sides_of, game=planted, estimator=estimator).epsilon > 3


def test_several_attacks_share_the_error_rate() -> None:
    members, nonmembers = sides(100, 100, shift=1.0)
    assert bound_scores(members, nonmembers, attacks=5).epsilon == bound_scores(members, nonmembers, confidence=0.99).epsilon
    with pytest.raises(ConfigError, match="attacks is 0"):
        bound_scores(members, nonmembers, attacks=0)


@pytest.mark.slow
def test_the_best_of_five_columns_of_nothing_keeps_five_per_cent() -> None:
    alarms = 0
    for seed in range(200):
        draw = np.random.default_rng([3, seed])
        result = [bound_scores(draw.normal(size=60), draw.normal(size=60), attacks=5).epsilon for _ in range(5)]
        alarms += max(result) > 0
    assert alarms <= 21  # a binomial of 200 at 5 % exceeds that one time in a thousand


def test_scores_that_are_no_plain_numbers_are_refused_and_large_ones_kept_apart() -> None:
    nonmembers = np.arange(50.0)
    for bad, word in ((np.ones(50) * 1j, "complex"), (["a"] * 50, "type"), (np.ma.masked_less(np.arange(50.0), 3), "masked")):
        with pytest.raises(DataError, match=word):
            bound_scores(bad, nonmembers)
    base = 2**60
    perfect = bound_scores(np.arange(base + 100, base + 200), np.arange(base, base + 100))
    assert perfect.epsilon == bound_scores(np.arange(100, 200), np.arange(100)).epsilon > 3
    with pytest.raises(DataError, match="2\\^53"):
        bound_scores(np.arange(base, base + 50), nonmembers)


def test_a_bound_reads_as_one_line() -> None:
    text = str(bound_scores(*sides(100, 100, shift=2.0)))
    assert text.startswith("epsilon >= ") and "at delta 1e-05" in text and len(text) < 160


# ---------------------------------------------------------------------------------------- ties and seeds


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [*ANY, "gaussian"])
def test_no_seed_changes_a_bound(name: str) -> None:
    draw = np.random.default_rng(4)
    included = np.arange(160) % 2 == 0
    values = np.round(draw.normal(size=160) + 1.5 * included)
    rules = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=160,
        independent_noise=True,
    )
    scores = Scores(values=values, included=included, game=rules)
    estimator = plugins.build("audit.bounds.estimators", {"kind": name})
    result = {estimator.lower_bound(scores, delta=1e-5, confidence=0.95, seed=Seed(seed)).epsilon for seed in range(6)}
    assert len(result) == 1


@pytest.mark.parametrize("game", slow(["one_run", "independent_trials"], ["independent_trials"]))
def test_trying_seeds_on_tied_scores_of_nothing_keeps_five_per_cent(game: str) -> None:
    alarms = 0
    for audit in range(60):
        draw = np.random.default_rng([5, audit])
        members, nonmembers = draw.integers(0, 3, 50), draw.integers(0, 3, 50)
        alarms += max(bound_scores(members, nonmembers, game, seed=seed).epsilon for seed in range(10)) > 0
    assert alarms <= 9  # a binomial of 60 at 5 % exceeds that one time in a thousand


def test_neighbours_are_remarked_on_from_one_in_a_billion_on() -> None:
    draw = np.random.default_rng(0)
    values = draw.normal(size=80)
    for place in range(1, 80):
        values[place] += 0.75 * values[place - 1]
    assert "(6.5 standard errors)" in plausibility._neighbours(values, np.ones(80, bool))  # chance gives 6e-11

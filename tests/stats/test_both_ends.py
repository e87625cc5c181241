"""Right guesses at both ends: against whole samples, the exact law of few scores, and the bounds that it has to beat."""

from __future__ import annotations

import csv
import functools
import importlib
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from scipy import special

from audit.stats.arrays import Array, Counts
from audit.stats.bounds import both_ends, merged_draws, one_run_all_counts, one_run_guesses, pair_draws, ranks
from audit.stats.bounds.pair_draws import Curve
from audit.stats.bounds.score_distributions import ScoreLaw
from audit.stats.curves import tradeoff
from audit.stats.curves.tradeoff import GroupPairs

SHARES = (0.01, 0.018, 0.032, 0.056, 0.1, 0.18, 0.32, 0.56, 1.0)


def design(members: int, nonmembers: int) -> both_ends.Design:
    return both_ends.Design(members=members, nonmembers=nonmembers)


def blocks(shape: both_ends.Design, epsilon: float, delta: float, count: int) -> Counts:
    return np.concatenate([both_ends.simulate(shape, epsilon, delta, block) for block in range(count)])


def drawn(law: ScoreLaw, members: int, nonmembers: int, seed: int) -> ranks.Memberships:
    included = np.arange(members + nonmembers) < members
    return ranks.by_rank(law.draw(included, np.random.default_rng([seed, members])), included)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (0.5, 0.1)])
def test_simulated_counts_have_the_law_of_whole_samples(epsilon: float, delta: float) -> None:
    """Means and spreads of the right guesses at every count, against placing 9 members and 15 nonmembers one by one."""
    generator, rows = np.random.default_rng(1), 4000
    fast = blocks(design(9, 15), epsilon, delta, 2)
    curve = tradeoff.epsilon_delta(epsilon, delta)
    grid = np.linspace(0, 1, 20_001)
    slow = []
    for _ in range(rows):
        uniform = generator.random(9)
        places = np.where(uniform < delta, -1.0, np.interp(uniform, curve.tpr(grid), grid))
        values = -np.concatenate([places, generator.random(15)])
        slow.append(both_ends.right_guesses(ranks.by_rank(values, np.arange(24) < 9)))
    full = np.array(slow)
    error = 5 * full.std(axis=0) / math.sqrt(rows) + 1e-9
    assert (np.abs(fast.mean(axis=0) - full.mean(axis=0)) < 1.5 * error).all()
    assert fast.std(axis=0) == pytest.approx(full.std(axis=0), rel=0.07)


def test_the_exact_law_of_six_scores_of_nothing() -> None:
    """All 20 orders of 3 members and 3 nonmembers are alike, so each chance is known."""
    shape = design(3, 3)
    orders = [np.isin(np.arange(6), chosen) for chosen in itertools.combinations(range(6), 3)]
    exact = np.sort([both_ends.excess(both_ends.right_guesses(order), 0.0, shape).max() for order in orders])
    result = both_ends.excess(blocks(shape, 0.0, 0.0, 10), 0.0, shape).max(axis=1)
    for value in exact:
        assert np.mean(result >= value - 1e-9) == pytest.approx(np.mean(exact >= value - 1e-9), abs=0.015)


@pytest.mark.parametrize("sides", [(50, 50), (5, 500), (500, 5)])
def test_the_excess_grows_with_right_guesses_and_falls_with_epsilon(sides: tuple[int, int]) -> None:
    shape = design(*sides)
    each = both_ends.counts(shape.scores)
    right = np.minimum(np.arange(2 * each[-1] + 1)[:, None], 2 * each)
    result = np.array([both_ends.excess(right, epsilon, shape) for epsilon in (0.0, 0.1, 1.0, 5.0, 20.0)])
    assert (np.diff(result, axis=1) >= -1e-9).all() and (np.diff(result, axis=0) <= 1e-9).all()


def test_a_member_that_moves_up_raises_no_count_of_wrong_guesses() -> None:
    generator = np.random.default_rng(3)
    for _ in range(200):
        ranked = generator.permutation(np.arange(30) < 13)
        place = generator.choice(np.flatnonzero(ranked[1:])) + 1
        moved = ranked.copy()
        moved[[place - 1, place]] = moved[[place, place - 1]]
        assert (both_ends.right_guesses(moved) >= both_ends.right_guesses(ranked)).all()


@pytest.mark.slow
def test_a_true_epsilon_is_refuted_as_seldom_as_promised() -> None:
    """Fast version; `pytest -m calibration tests/bounds/test_coverage.py` has the full one."""
    for law in (
        ScoreLaw(kind="null"),
        ScoreLaw(kind="flat", parameter=1.0),
        ScoreLaw(kind="gaussian", parameter=1.0, delta=0.1),
    ):
        wrong = sum(both_ends.refutes(drawn(law, 30, 50, seed), law.epsilon, law.delta, 0.05) for seed in range(150))
        assert wrong <= 17, law  # a binomial of 150 at 5 % exceeds that one time in a thousand


def test_no_bound_of_finished_scores_is_a_coin_toss_of_the_caller() -> None:
    ranked = drawn(ScoreLaw(kind="gaussian", parameter=2.0), 40, 40, 1)
    first = both_ends.bound(ranked, GroupPairs(delta=1e-5), 0.05)
    both_ends.simulate.cache_clear()
    merged_draws.stored.cache_clear()
    assert both_ends.bound(ranked, GroupPairs(delta=1e-5), 0.05) == first


@pytest.mark.slow
def test_bounds_fall_with_confidence_and_the_test_agrees_with_them() -> None:
    ranked, pairs = drawn(ScoreLaw(kind="gaussian", parameter=2.0), 60, 60, 5), GroupPairs(delta=1e-5)
    result = [both_ends.bound(ranked, pairs, significance)[0] for significance in (0.2, 0.05, 0.004)]
    assert result == sorted(result, reverse=True) and result[-1] > 0.5
    for epsilon in (0.0, 0.9 * result[1], 1.02 * result[1], 1.3 * result[1]):
        assert both_ends.refutes(ranked, epsilon, 1e-5, 0.05) == (epsilon < result[1])


@pytest.mark.parametrize("shape", [design(12, 20), design(40, 9)])
def test_more_epsilon_or_delta_lowers_no_draw(shape: both_ends.Design) -> None:
    pairs = [(0.0, 0.0), (0.0, 1e-3), (0.3, 1e-3), (0.3, 0.2), (2.0, 0.2), (2.0, 0.9), (25.0, 0.9), (25.0, 1.0)]
    drawn = [both_ends.simulate(shape, *pair, 0) for pair in pairs]
    for less, more in itertools.pairwise(drawn):
        assert (more >= less).all()
    everything = both_ends.right_guesses(np.arange(shape.scores) < shape.members)
    assert (drawn[-1] == everything).all()


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.booleans(), min_size=12, max_size=60), st.lists(st.floats(0.0, 1.0), min_size=2, max_size=4), st.integers(0, 99)
)
def test_a_bound_never_rises_with_delta(memberships: list[bool], deltas: list[float], place: int) -> None:
    """Not even in its last digit, at tiny deltas and large ones, nor if a member moves down."""
    ranked = np.array([True, False, *memberships])
    result = [both_ends.bound(ranked, GroupPairs(delta=delta), 0.2)[0] for delta in sorted([0.0, 1e-9, 1e-5, *deltas])]
    assert result == sorted(result, reverse=True)
    falls = np.flatnonzero(ranked[:-1] & ~ranked[1:])
    at = int(falls[place % len(falls)])
    ranked[[at, at + 1]] = ranked[[at + 1, at]]
    assert both_ends.bound(ranked, GroupPairs(delta=1e-5), 0.2)[0] <= result[2]


def test_ranks_that_are_left_out_add_guesses_and_take_none_away(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, cuts = design(300, 200), np.array([1, 3, 30, 250, 470, 499])
    members, nonmembers = pair_draws.block(shape.members, shape.nonmembers, 0)
    monkeypatch.setattr(pair_draws, "RANKS", 60)

    def thinned(side: pair_draws.OrderStatistics) -> pair_draws.OrderStatistics:
        ranks_left = pair_draws.kept_ranks(side.size)
        return pair_draws.OrderStatistics(size=side.size, ranks=ranks_left, values=side.values[:, ranks_left - 1])

    curve = tradeoff.epsilon_delta(1.0, 0.01).tpr
    exact = pair_draws.members_on_top(members, nonmembers, cuts, curve)
    fewer = pair_draws.members_on_top(thinned(members), thinned(nonmembers), cuts, curve)
    assert (fewer >= exact).all()
    assert (fewer - exact).max() <= 2 * np.diff(pair_draws.kept_ranks(300)).max()


def test_thinned_order_statistics_have_the_law_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_draws, "RANKS", 10)
    side = pair_draws.draw(5000, np.random.default_rng(4))
    assert len(side.ranks) == 10 and side.ranks[0] == 1 and side.ranks[-1] == 5000
    for index in (0, 4, 8):
        rank = int(side.ranks[index])
        assert scipy.stats.kstest(side.values[:, index], scipy.stats.beta(rank, 5001 - rank).cdf).pvalue > 1e-3


def laplace_roc(rate: ArrayLike) -> Array:
    """The curve of Laplace noise of scale 1 on a difference of 1."""
    fpr = np.asarray(rate, dtype=np.float64)
    middle = 1 - math.exp(-1) / (4 * np.maximum(fpr, 1e-300))
    return np.where(fpr < math.exp(-1) / 2, math.e * fpr, np.where(fpr < 0.5, middle, 1 - math.exp(-1) * (1 - fpr)))


CURVES = {
    "flat 1": (functools.partial(tradeoff.tpr_allowed, 1.0, 0.0), 0.0),
    "flat 3": (functools.partial(tradeoff.tpr_allowed, 3.0, 0.0), 0.0),
    "laplace 1": (laplace_roc, 0.0),
    "gaussian 1": (functools.partial(tradeoff.gdp_tpr, 1.0), 1e-5),
}


def guessed(curve: Curve, shape: both_ends.Design, each: Counts) -> Counts:
    """Right guesses of 4,000 samples from a ROC, `each` at either end; draws that the estimator never uses."""
    cuts = np.concatenate([each, shape.scores - each])
    samples = (pair_draws.block(shape.members, shape.nonmembers, index) for index in (100, 101))
    above = np.concatenate([pair_draws.members_on_top(*sample, cuts, curve) for sample in samples])
    return above[:, : len(each)] + each - (shape.members - above[:, len(each) :])


def median_of_one_run(curve: Curve, shape: both_ends.Design, delta: float) -> float:
    """The epsilon that one_run proves from the sample that is its median."""
    guesses = one_run_guesses.guess_counts(shape.scores, SHARES)
    right, low, high = guessed(curve, shape, guesses // 2), 0.0, 6.0
    for _ in range(11):
        epsilon = (low + high) / 2
        surprise = special.bdtrc(right - 1.0, guesses, special.expit(epsilon)).min(axis=1)
        median = right[np.argsort(surprise)[len(surprise) // 2]]
        walk = one_run_all_counts.Walk(guesses=guesses, correct=median, coins=shape.scores, delta=delta)
        low, high = (epsilon, high) if one_run_all_counts.refutes(walk, epsilon, 0.05) else (low, epsilon)
    return low


@pytest.mark.sampled(2)
@pytest.mark.parametrize("law", CURVES)
@pytest.mark.parametrize("side", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_median_sample_refutes_what_one_run_proves_from_its_own_but_for_a_hundredth(law: str, side: int) -> None:
    """On the laws and sizes of docs/theory/independent-trials.md; the hundredth pays for a level that holds at each size."""
    (curve, delta), shape = CURVES[law], design(side, side)
    epsilon = 0.99 * median_of_one_run(curve, shape, delta)
    edges = both_ends.ladder(shape)
    step = int(np.searchsorted(edges, epsilon, side="right")) - 1
    right = guessed(curve, shape, both_ends.counts(shape.scores))
    largest = both_ends.excess(right, float(edges[step]), shape).max(axis=1)
    median = right[np.argsort(largest)[len(largest) // 2]]
    limits = both_ends._limits(shape, median, range(step, step + 1))
    assert epsilon > 0.5
    assert both_ends._rejects(shape, limits, (epsilon, delta), (1 - both_ends.RANKS) * 0.05)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("level", "streams"), [(0.05, 8), pytest.param(0.02, 8, marks=pytest.mark.slow)])
def test_the_luck_of_no_stream_of_draws_lifts_the_level(level: float, streams: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All 3,432 orders of 7 members and 7 nonmembers are alike if nothing leaks, so the chance of each stream is known."""
    shape = design(7, 7)
    orders = [np.isin(np.arange(14), chosen) for chosen in itertools.combinations(range(14), 7)]
    right, weights = np.unique([both_ends.right_guesses(order) for order in orders], axis=0, return_counts=True)
    limits = [both_ends._limits(shape, each, range(0, 1)) for each in right]
    surprise = both_ends.excess(right, float(both_ends.ladder(shape)[1]) / 2, shape).max(axis=1)
    tails = np.array([weights[surprise >= value - 1e-9].sum() for value in surprise]) / len(orders)
    original, chances = merged_draws.draw, []
    for stream in range(streams):
        blocks = functools.lru_cache(lambda *sizes, at=stream: original(*sizes[:2], 1000 * (at + 1) + sizes[2]))
        monkeypatch.setattr(merged_draws, "block", blocks)
        both_ends.simulate.cache_clear()
        refuted = np.array([both_ends._rejects(shape, limit, (0.0, 0.0), level) for limit in limits])
        chances.append(weights[refuted].sum() / len(orders))
    both_ends.simulate.cache_clear()
    assert max(chances) <= level
    # paying for the luck costs a step between values at most
    assert min(chances) >= max(tails[tails <= 0.8 * level], default=0.0) > 0


@pytest.mark.parametrize(
    ("sides", "pair"), [((100, 100), (3.0, 0.0)), pytest.param((500, 500), (1.0, 0.0), marks=pytest.mark.slow)]
)
def test_sizes_that_were_unlucky_keep_their_level(sides: tuple[int, int], pair: tuple[float, float]) -> None:
    """The exact claim at sizes at which 2,000 draws gave 5.5 %, against 40,000 samples that the estimator never draws."""
    shape, (epsilon, delta) = design(*sides), pair
    edges = both_ends.ladder(shape)
    step = int(np.searchsorted(edges, epsilon, side="right")) - 1
    right = np.concatenate([both_ends.simulate(shape, epsilon, delta, block) for block in range(1000, 1020)])
    both_ends.simulate.cache_clear()
    surprise = both_ends.excess(right, float(edges[step] + edges[step + 1]) / 2, shape).max(axis=1)
    # the largest surprise that is not refuted, by bisection: the test grows with it
    order = np.argsort(surprise)
    low, high = 0, len(order) - 1
    while high - low > 1:
        middle = (low + high) // 2
        limits = both_ends._limits(shape, right[order[middle]], range(step, step + 1))
        refuted = both_ends._rejects(shape, limits, pair, (1 - both_ends.RANKS) * 0.05)
        low, high = (low, middle) if refuted else (middle, high)
    wrong = int((surprise >= surprise[order[high]] - 1e-9).sum())
    assert scipy.stats.binom.sf(wrong - 1, len(order), 0.05) > 1e-4
    assert scipy.stats.binom.cdf(wrong, len(order), 0.8 * 0.05) > 1e-4


def test_both_ways_of_drawing_have_one_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples merged by one sort, and order statistics compared by bisection."""
    shape = design(60, 45)
    merged = blocks(shape, 1.0, 0.01, 3)
    monkeypatch.setattr(merged_draws, "MOST_SCORES", 0)
    both_ends.simulate.cache_clear()
    by_order = blocks(shape, 1.0, 0.01, 3)
    both_ends.simulate.cache_clear()
    error = merged.std(axis=0) * math.sqrt(2 / len(merged))
    assert (np.abs(merged.mean(axis=0) - by_order.mean(axis=0)) < 4.5 * error).all()
    assert (np.abs(merged.std(axis=0) / by_order.std(axis=0) - 1) < 0.07).all()


def test_no_stored_level_of_a_size_is_above_the_nominal_one() -> None:
    path = Path(__file__).parents[2] / "docs" / "evidence" / "tables" / "levels-combined.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    drawing = {"both_ends", "gaussian", "fdp_rank"}
    assert {row["estimator"] for row in rows} == {*drawing, "sequential", "clopper_pearson by split"} and len(rows) > 200
    for name in drawing:  # from few scores to many, of which the default and both families' estimators draw
        members = [int(row["members"]) for row in rows if row["estimator"] == name]
        assert min(members) <= 21 and max(members) == 500 and len(set(members)) >= 13
    for row in rows:
        count = float(row["samples"]) * float(row["nominal"].rstrip(" %")) / 100
        assert float(row["refuted"]) <= count, row


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("clopper_pearson by split", 127),
        ("clopper_pearson by split", 391),
        pytest.param("sequential", 43, marks=pytest.mark.slow),
        pytest.param("both_ends", 97, marks=pytest.mark.slow),
        pytest.param("gaussian", 43, marks=pytest.mark.slow),
        pytest.param("fdp_rank", 43, marks=pytest.mark.slow),
    ],
)
def test_stored_levels_are_those_of_the_tests_in_use(name: str, members: int, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    table = importlib.import_module("levels_combined")
    with table.STORE.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["estimator"], int(row["members"])) == (name, members)]
    assert rows
    row = rows[0]
    sides, epsilon, share = (
        (members, int(row["nonmembers"])),
        float(row["epsilon"]),
        round(5 / float(row["nominal"].rstrip(" %"))),
    )
    rng = np.random.default_rng([41, *sides, round(10 * epsilon), share])
    count = table.count(name)(sides, epsilon, 0.05 / share, rng)
    assert f"{count:g}" == row["refuted"]

"""The split of guesses between both ends: chosen from scores alone, valid at worst, and without loss if it cannot gain."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy import optimize, sparse, stats

from audit.bounds.estimators.one_run import OneRun
from audit.core.game import Game
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import guess_split, one_run_all_counts, one_run_guesses, ranks
from audit.stats.curves.tradeoff import GroupPairs

LEVEL = 0.05
JUST_BELOW = 1e-9


def proved(values: np.ndarray, included: np.ndarray, delta: float = 1e-5) -> float:
    scores = Scores(values=values, included=included, game=Game.of_scores("one_run", len(values)))
    return OneRun().lower_bound(scores, delta=delta, confidence=1 - LEVEL, seed=Seed(0)).epsilon


def squares_within(values: np.ndarray) -> dict[int, float]:
    """The sum of squares within two groups of consecutive scores, for each cut between distinct scores."""
    falling = np.sort(values)[::-1]
    outermost = {8: 0, 41: 7, 100: 25}[len(values)]
    clipped = np.clip(falling, falling[-1 - outermost], falling[outermost])
    return {
        cut: float(sum(((part - part.mean()) ** 2).sum() for part in (clipped[:cut], clipped[cut:])))
        for cut in range(1, len(values))
        if falling[cut - 1] > falling[cut]
    }


@pytest.mark.parametrize("size", [8, 41, 100])
def test_the_cut_leaves_the_least_variance_within_both_groups(size: int) -> None:
    draw = np.random.default_rng(size)
    for _ in range(20):
        values = draw.normal(size=size) + 3 * (draw.random(size) < 0.5)
        within = squares_within(values)
        assert within[guess_split.cut_between_sides(values)] == pytest.approx(min(within.values()))


def naive_right(ranking: np.ndarray, guesses: int, cut: int) -> int:
    """Guess one by one: from the top and from the bottom in turn, until the scores above or below the cut are used up."""
    above, below = list(range(cut)), list(range(len(ranking) - 1, cut - 1, -1))
    order = []
    while above or below:
        order += [(below.pop(0), False)] if below else []
        order += [(above.pop(0), True)] if above else []
    return sum(bool(ranking[place]) == guess for place, guess in order[:guesses])


def test_right_guesses_equal_those_taken_one_by_one() -> None:
    draw = np.random.default_rng(1)
    for size in (2, 5, 12, 31):
        for cut in range(1, size):
            ranking = draw.random(size) < 0.5
            counts = np.arange(2, size + 1)
            expected = [naive_right(ranking, count, cut) for count in counts.tolist()]
            assert guess_split.correct_guesses(ranking, counts, cut).tolist() == expected


def test_half_of_the_coins_on_either_side_is_what_it_was() -> None:
    ranking = np.random.default_rng(2).random(60) < 0.5
    counts = np.arange(2, 62, 2)
    old = one_run_guesses.correct_guesses(ranking, counts)
    assert guess_split.correct_guesses(ranking, counts, 30).tolist() == old.tolist()


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e307])
def test_scores_of_any_size_are_cut_at_their_gap(scale: float) -> None:
    values = scale * np.concatenate([np.linspace(5.0, 6.0, 30), np.linspace(-2.0, -1.0, 23)])
    assert guess_split.cut_between_sides(values) == 30
    values[0], values[-1] = np.inf, -np.inf
    assert guess_split.cut_between_sides(values) == 30


def test_a_few_huge_scores_do_not_move_the_cut() -> None:
    values = np.random.default_rng(3).normal(size=200) + 8 * (np.arange(200) < 90)
    assert guess_split.cut_between_sides(values) == 90
    values[:5] = 1e12
    assert guess_split.cut_between_sides(values) == 90


@pytest.mark.parametrize("coins", [2, 3, 10, 25, 101, 400, 1000])
def test_perfect_scores_prove_the_ceiling_at_every_balance_of_the_coins(coins: int) -> None:
    reach = 3.1 * math.sqrt(coins)  # 6.2 standard deviations: games further out are refused
    sides = sorted({max(1, round(coins / 2 + share * reach)) for share in (-1, -0.4, -0.1, 0, 0.03, 0.5, 1)})
    every = np.array([coins])
    alone = one_run_guesses.bound_along(GroupPairs(delta=1e-5), every, every, coins=coins, significance=LEVEL)[0]
    for members in (side for side in sides if side < coins):
        included = np.arange(coins) < members
        usual = abs(2 * members - coins) < guess_split.USUAL * math.sqrt(coins) - 2
        spread = np.linspace(0, 0.5, coins) if usual else np.zeros(coins)
        for values in (included.astype(float), included + spread, 7 - np.where(included, 0.0, 3.0)):
            scores = Scores(values=values, included=included, game=Game.of_scores("one_run", coins))
            result = OneRun().lower_bound(scores, delta=1e-5, confidence=1 - LEVEL, seed=Seed(0))
            assert result.epsilon == result.ceiling, (members, result)
            assert result.epsilon > 0.98 * alone - 0.01


def test_perfect_scores_without_a_gap_prove_nearly_the_ceiling_which_no_cut_of_theirs_could() -> None:
    """The same evenly spaced values serve every balance, so one cut serves one balance; others lose little."""
    values = np.arange(1000.0)
    assert guess_split.cut_between_sides(values) == 500
    proofs = {}
    for members in (465, 499, 500, 501, 535):
        included = values >= 1000 - members
        scores = Scores(values=values, included=included, game=Game.of_scores("one_run", 1000))
        result = OneRun().lower_bound(scores, delta=1e-5, confidence=1 - LEVEL, seed=Seed(0))
        proofs[members] = result.epsilon / result.ceiling
        assert proved(values + 100 * included, included) == result.ceiling  # a gap of a tenth of the range suffices
    assert proofs.pop(500) == 1
    assert all(0.97 < share < 1 for share in proofs.values()), proofs


LAWS = {
    "gaussian, mu 1": lambda draw, coins: draw.normal(size=len(coins)) + coins,
    "gaussian, mu 2": lambda draw, coins: draw.normal(size=len(coins)) + 2 * coins,
    "lognormal": lambda draw, coins: np.exp(draw.normal(size=len(coins)) + 1.5 * coins),
    "losses": lambda draw, coins: -np.exp(draw.normal(size=len(coins)) - 1.5 * coins),
    "cauchy": lambda draw, coins: draw.standard_cauchy(size=len(coins)) + 4 * coins,
    "few members show": lambda draw, coins: draw.normal(size=len(coins)) + 6 * (coins & (draw.random(len(coins)) < 0.3)),
}


@pytest.mark.slow
@pytest.mark.parametrize("coins", [100, 390, 1000])
@pytest.mark.parametrize("name", LAWS)
def test_no_law_loses_more_than_a_hundredth_to_the_split(name: str, coins: int) -> None:
    """Compared with half of the guesses from either end at the nine counts, on the same scores."""
    split, half = [], []
    for trial in range(120):
        draw = np.random.default_rng([coins, trial])
        included = draw.random(coins) < 0.5
        values = LAWS[name](draw, included)
        counts = one_run_guesses.guess_counts(coins, guess_split.SHARES)
        right = one_run_guesses.correct_guesses(ranks.by_rank(values, included), counts)
        walk = one_run_all_counts.Walk(guesses=counts, correct=right, coins=coins, delta=1e-5)
        half.append(one_run_all_counts.bound(walk, LEVEL)[0])
        split.append(proved(values, included))
    assert np.mean(split) >= 0.99 * np.mean(half) - 0.002


def errors_under_response(coins: int, confidence: float) -> list[tuple[float, float]]:
    """The exact chance of a bound above the truth under randomised response, at each truth just below a bound.

    Scores have two values, so a game is decided by its members, and by those of either side that score high.
    """
    bounds, laws = [], []
    for members in range(1, coins):
        for high in range(members + 1):
            for high_others in range(coins - members + 1):
                included = np.arange(coins) < members
                values = np.concatenate([np.arange(members) < high, np.arange(coins - members) < high_others]).astype(float)
                scores = Scores(values=values, included=included, game=Game.of_scores("one_run", coins))
                bounds.append(OneRun().lower_bound(scores, delta=0.0, confidence=confidence, seed=Seed(0)).epsilon)
                laws.append((members, high, high_others))
    result, (union_members, high_of, others_of) = np.array(bounds), np.array(laws).T
    errors = []
    for value in np.unique(result[result > 0]):
        truth = value - JUST_BELOW
        rate = 1 / (1 + math.exp(-truth))
        chances = stats.binom.pmf(union_members, coins, 0.5) * stats.binom.pmf(high_of, union_members, rate)
        chances *= stats.binom.pmf(others_of, coins - union_members, 1 - rate)
        errors.append((float(chances[result > truth].sum()), float(truth)))
    return errors


@pytest.mark.parametrize("coins", [8, pytest.param(20, marks=pytest.mark.slow), pytest.param(40, marks=pytest.mark.slow)])
def test_the_estimator_is_wrong_as_rarely_as_stated_for_randomised_response(coins: int) -> None:
    confidence = 0.8 if coins < 20 else 0.95
    errors = errors_under_response(coins, confidence)
    assert 0.2 * (1 - confidence) < max(errors)[0] <= 1 - confidence + 1e-9, max(errors)


def worst_chance(refuted: np.ndarray, coins: int, epsilon: float, delta: float) -> float:
    """The largest chance of refuted numbers of right guesses, for any (epsilon, delta)-DP release.

    Args:
        refuted: one axis a block of guesses between two counts; which numbers of right ones in each block refute the pair.

    A release is worst when it treats the coins of a block alike: a linear program over the law of these numbers, in which
    (epsilon, delta)-DP limits the sum over coins and patterns of `[p(a) - e^epsilon p(a with one coin flipped)]_+`.
    """
    shape = refuted.shape
    place = np.arange(refuted.size).reshape(shape)
    rows, columns, entries, row = [], [], [], 0
    for axis, length in enumerate(shape):
        size = length - 1
        ways = np.arange(length).reshape([-1 if item == axis else 1 for item in range(len(shape))]) * np.ones(shape)
        low, high = (np.take(place, np.arange(first, first + size), axis=axis).ravel() for first in (0, 1))
        right, wrong = np.take(ways, np.arange(1, length), axis=axis).ravel(), np.take(ways, np.arange(size), axis=axis).ravel()
        for first, per_first, second, per_second in ((high, right, low, size - wrong), (low, size - wrong, high, right)):
            at = row + np.arange(len(first))
            rows += [at, at, at]
            columns += [first, second, refuted.size + at]
            entries += [per_first, -math.exp(epsilon) * per_second, -np.ones(len(first))]
            row += len(first)
    excess = sparse.coo_matrix((np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))))
    spent = sparse.coo_matrix(np.concatenate([np.zeros(refuted.size), np.ones(row)])[None])
    full = sparse.coo_matrix(np.concatenate([np.ones(refuted.size), np.zeros(row)])[None])
    solved = optimize.linprog(
        -np.concatenate([refuted.ravel().astype(float), np.zeros(row)]),
        A_ub=sparse.vstack([excess, spent]).tocsr(),
        b_ub=np.concatenate([np.zeros(row), [coins * delta]]),
        A_eq=full.tocsr(),
        b_eq=[1.0],
        method="highs",
    )
    assert solved.status == 0
    return float(-solved.fun)


@functools.lru_cache(maxsize=8)
def refuted_numbers(counts: tuple[int, ...], coins: int, epsilon: float, delta: float) -> np.ndarray:
    """Which numbers of right guesses in each block refute the pair, by the estimator's own test."""
    blocks = np.diff([0, *counts])
    refuted = np.zeros(blocks + 1, dtype=bool)
    for gains in np.ndindex(refuted.shape):
        walk = one_run_all_counts.Walk(guesses=np.array(counts), correct=np.cumsum(gains), coins=coins, delta=delta)
        refuted[gains] = one_run_all_counts.refutes(walk, epsilon, LEVEL)
    return refuted


@pytest.mark.parametrize(
    ("coins", "counts"),
    [
        (9, (5, 9)),
        pytest.param(24, (8, 13, 24), marks=pytest.mark.slow),
        pytest.param(33, (11, 18, 33), marks=pytest.mark.slow),
        pytest.param(40, (13, 22, 40), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.0, 1e-3), (0.3, 3e-4), (0.9, 2e-3)])
def test_no_release_of_up_to_forty_coins_is_refuted_too_often(
    coins: int, counts: tuple[int, ...], epsilon: float, delta: float
) -> None:
    """Whatever an output says of which coins to guess, in which order and how."""
    refuted = refuted_numbers(counts, coins, epsilon, delta)
    assert refuted.any() == (coins > 9 or epsilon < 0.5) and not refuted.all()
    assert worst_chance(refuted, coins, epsilon, delta) <= LEVEL + 1e-7


def test_guesses_by_distance_prove_nothing_from_the_order_of_rows() -> None:
    """Rows of equal scores are sorted by coin: a stable sort would guess them right."""
    above = 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        included = np.arange(100) < draw.binomial(100, 0.5)
        values = np.where(draw.random(100) < 0.6, 0.0, draw.normal(size=100)) if seed else np.zeros(100)
        scores = Scores(values=values, included=included, game=Game.of_scores("one_run", 100))
        bound = OneRun(order="distance").lower_bound(scores, delta=1e-5, confidence=1 - LEVEL, seed=Seed(0)).epsilon
        above += bound > 0
        assert seed or bound == 0
    assert above <= 6, "more with probability 0.014 at 5 %"


@pytest.mark.parametrize("share", [0.55, 0.8, 0.97])
def test_answers_of_which_most_are_the_highest_have_no_long_tail(share: float) -> None:
    """Right or wrong labels of a good model: the few wrong ones show most."""
    values = np.where(np.arange(1000) < 1000 * share, 1.0, 0.0)
    assert not guess_split.has_long_lower_tail(values)
    assert guess_split.has_long_lower_tail(-np.random.default_rng(0).exponential(size=1000))


@pytest.mark.slow
def test_guesses_by_distance_hold_against_a_release_that_is_sure_of_some_members() -> None:
    """Members are named with probability 0.1 e^1.5, nonmembers with 0.1: epsilon 1.5, or nearly 0 from the other end."""
    epsilon, wrong, bounds = 1.5, 0, []
    for seed in range(60):
        draw = np.random.default_rng(seed)
        included = draw.random(200) < 0.5
        named = draw.random(200) < np.where(included, 0.1 * np.exp(epsilon), 0.1)
        values = np.where(named, 20.0, -0.5) + draw.normal(0, 0.1, 200)
        scores = Scores(values=values, included=included, game=Game.of_scores("one_run", 200), attack="named")
        bound = OneRun(order="distance").lower_bound(scores, delta=0.0, confidence=1 - LEVEL, seed=Seed(0)).epsilon
        wrong, bounds = wrong + (bound > epsilon), [*bounds, bound]
    assert wrong <= 8, "more with probability 0.007 at 5 %"
    assert np.median(bounds) > 0.4

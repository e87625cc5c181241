"""All counts of one run at once: exact crossing chances, and the worst mechanism of few coins by linear programming."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from audit.stats.bounds import bernoulli_sums, one_run_guesses, ranks
from audit.stats.bounds import one_run_all_counts as guess_walk
from audit.stats.bounds.one_run_all_counts import Walk
from audit.stats.curves.tradeoff import GroupPairs

FRACTIONS = (0.01, 0.018, 0.032, 0.056, 0.1, 0.18, 0.32, 0.56, 1.0)


def rate_of(epsilon: float) -> float:
    return 1 / (1 + math.exp(-epsilon))


def gaussian_counts(coins: int, mu: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of guesses and of right ones for scores of a Gaussian release."""
    draw = np.random.default_rng(seed)
    included = draw.random(coins) < 0.5
    ranked = included[np.argsort(-(draw.normal(size=coins) + mu * included))]
    guesses = one_run_guesses.guess_counts(coins, FRACTIONS)
    return guesses, one_run_guesses.correct_guesses(ranked, guesses)


def naive_crossing(guesses: list[int], limits: list[int], rate: float) -> float:
    """Over every path of the walk."""
    total = 0.0
    for path in itertools.product((0, 1), repeat=guesses[-1]):
        sums = np.cumsum(path)
        if any(sums[count - 1] >= limit for count, limit in zip(guesses, limits, strict=True)):
            total += rate ** sums[-1] * (1 - rate) ** (guesses[-1] - sums[-1])
    return total


@pytest.mark.parametrize(("guesses", "limits"), [([3], [3]), ([2, 5, 9], [2, 5, 8]), ([1, 4, 10], [2, 4, 9]), ([6], [0])])
@pytest.mark.parametrize("rate", [0.5, 0.77, 0.98])
def test_crossing_equals_enumeration(guesses: list[int], limits: list[int], rate: float) -> None:
    assert guess_walk.crossing(np.array(guesses), limits, rate) == pytest.approx(
        naive_crossing(guesses, limits, rate), abs=1e-12
    )


def test_long_walks_are_convolved_as_short_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    guesses, limits = np.array([100, 2000, 20_000]), [82, 1520, 14_800]
    fast = guess_walk.crossing(guesses, limits, 0.73)
    monkeypatch.setattr(bernoulli_sums, "DIRECT", 10**12)
    assert fast == pytest.approx(guess_walk.crossing(guesses, limits, 0.73), rel=1e-9)
    assert 0.001 < fast < 0.5


def test_what_delta_adds_is_never_below_the_largest_binomial_probabilities() -> None:
    for rate in (0.5, 0.6, 0.75, 0.9, 0.99):
        modes = [1.0] + [stats.binom.pmf(np.arange(t + 1), t, rate).max() for t in range(1, 300)]
        for guesses in ([1], [2, 7], [30, 120, 300]):
            exact = (1 - rate) * sum(np.mean(modes[:count]) for count in guesses)
            result = guess_walk.escape(np.array(guesses), rate, coins=50, delta=1e-3) / 0.05
            assert exact - 1e-12 <= result <= 1.35 * exact + 1e-12
    falling = [
        guess_walk.escape(np.array([10, 400]), rate_of(epsilon), coins=1000, delta=1e-5) for epsilon in np.linspace(0, 8, 200)
    ]
    assert (np.diff(falling) < 0).all()
    assert guess_walk.escape(np.array([10]), 0.7, 1000, 0.0) == 0.0


def worst_mechanism(coins: int, guesses: list[int], limits: list[int], epsilon: float, delta: float) -> float:
    """The largest chance to cross of any release with right guesses in a pattern of a law that (epsilon, delta)-DP allows.

    The release states a guess at every coin; flipping one coin turns one right guess wrong. A linear program over all laws.
    """
    patterns = list(itertools.product((0, 1), repeat=coins))
    place = {pattern: i for i, pattern in enumerate(patterns)}
    size = len(patterns)
    crossed = [any(sum(p[:count]) >= limit for count, limit in zip(guesses, limits, strict=True)) for p in patterns]
    rows, limit_of_row = [], []
    for coin in range(coins):
        spent = np.zeros(size * (coins + 1))
        spent[size * (coin + 1) : size * (coin + 2)] = 1
        rows.append(spent)
        limit_of_row.append(delta)
        for i, pattern in enumerate(patterns):
            flipped = tuple(1 - bit if at == coin else bit for at, bit in enumerate(pattern))
            row = np.zeros(size * (coins + 1))
            row[i], row[place[flipped]], row[size * (coin + 1) + i] = 1, -math.exp(epsilon), -1
            rows.append(row)
            limit_of_row.append(0.0)
    total = np.concatenate([np.ones(size), np.zeros(size * coins)])
    cost = np.concatenate([-np.array(crossed, dtype=float), np.zeros(size * coins)])
    return -optimize.linprog(cost, A_ub=np.array(rows), b_ub=limit_of_row, A_eq=total[None], b_eq=[1], method="highs").fun


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.2])
@pytest.mark.parametrize(
    ("coins", "guesses", "limits"), [(1, [1], [1]), (3, [2], [2]), (4, [1, 4], [1, 4]), (4, [2, 4], [2, 3]), (5, [5], [4])]
)
def test_no_mechanism_of_few_coins_beats_the_theorem(coins: int, guesses: list[int], limits: list[int], delta: float) -> None:
    for epsilon in (0.0, 0.8, 1.7):
        rate, counts = rate_of(epsilon), np.array(guesses)
        stated = guess_walk.crossing(counts, limits, rate) + guess_walk.escape(counts, rate, coins, delta)
        worst = worst_mechanism(coins, guesses, limits, epsilon, delta)
        assert worst <= min(stated, 1.0) + 1e-9
        if coins == 1 or delta == 0:
            assert worst == pytest.approx(min(stated, 1.0), abs=1e-9)  # and there it is reached


def test_the_p_value_is_the_chance_of_a_walk_as_surprising() -> None:
    guesses, epsilon = np.array([2, 6, 10]), 0.7
    walk, rate = Walk(guesses=guesses, correct=np.array([2, 5, 9]), coins=10, delta=0.0), rate_of(epsilon)
    surprise = min(stats.binom.sf(c - 1, n, rate) for c, n in zip([2, 5, 9], guesses.tolist(), strict=True))
    expected = 0.0
    for path in itertools.product((0, 1), repeat=10):
        sums = np.cumsum(path)
        tails = [stats.binom.sf(sums[n - 1] - 1, n, rate) for n in guesses.tolist()]
        if min(tails) <= surprise * (1 + 1e-12):
            expected += rate ** sums[-1] * (1 - rate) ** (10 - sums[-1])
    assert walk.chance(epsilon) == pytest.approx(expected, abs=1e-9)
    assert walk.most_surprising(epsilon) == 2


def test_a_stretch_of_epsilons_is_refuted_only_where_each_of_them_is() -> None:
    for seed in range(5):
        guesses, correct = gaussian_counts(500, 1.0, seed)
        walk = Walk(guesses=guesses, correct=correct, coins=500, delta=1e-5)
        for low, high in ((0.0, 0.4), (0.5, 0.6), (0.9, 1.0)):
            inside = [walk.chance(epsilon) for epsilon in np.linspace(low, high, 15)]
            assert walk.chance(low, high) >= max(inside) - 1e-12


@pytest.mark.slow
def test_the_bound_is_the_end_of_the_refuted_interval() -> None:
    for seed, mu in enumerate((0.0, 1.0, 2.5)):
        guesses, correct = gaussian_counts(600, mu, seed)
        walk = Walk(guesses=guesses, correct=correct, coins=600, delta=1e-5)
        grid = np.arange(0.0, 6.0, 0.005)
        refuted = np.array([walk.chance(epsilon) + walk.escape(epsilon) <= 0.05 for epsilon in grid])
        expected = grid[int(np.argmin(refuted)) - 1] if refuted[0] else 0.0
        assert (
            expected - 0.03 < guess_walk.bound(walk, 0.05)[0] < expected + 0.006
        )  # p-values jump, so an interval may end between two points


def test_all_counts_together_prove_more_than_each_at_a_share() -> None:
    together, apart = [], []
    for seed in range(15):
        guesses, correct = gaussian_counts(1000, 1.0, seed)
        together.append(guess_walk.bound(Walk(guesses=guesses, correct=correct, coins=1000, delta=1e-5), 0.05)[0])
        apart.append(one_run_guesses.bound_along(GroupPairs(delta=1e-5), guesses, correct, coins=1000, significance=0.05)[0])
    assert np.median(together) > 1.05 * np.median(apart)


@pytest.mark.slow
def test_counts_on_their_own_stand_in_where_delta_leaves_no_room() -> None:
    guesses, correct = gaussian_counts(1_000_000, 1.0, 0)
    walk = Walk(guesses=guesses, correct=correct, coins=1_000_000, delta=1e-5)
    assert walk.escape(0.0) > 0.05  # more than the whole error rate
    result, at = guess_walk.bound(walk, 0.05)
    assert result > 1.5 and at in (0, 2, 4, 6, 8)
    assert guess_walk.refutes(walk, result - 0.01, 0.05) and not guess_walk.refutes(walk, result + 0.01, 0.05)
    nothing = Walk(guesses=guesses, correct=guesses // 2, coins=1_000_000, delta=1e-5)
    assert guess_walk.bound(nothing, 0.05) == (0.0, -1) and not guess_walk.refutes(nothing, 0.0, 0.05)


@pytest.mark.slow
def test_the_bound_falls_with_confidence_and_delta() -> None:
    for seed in range(4):
        guesses, correct = gaussian_counts(3000, 1.0, seed)
        levels = [0.5, 0.2, 0.05, 0.01, 1e-3, 1e-5]
        by_level = [
            guess_walk.bound(Walk(guesses=guesses, correct=correct, coins=3000, delta=1e-5), item)[0] for item in levels
        ]
        deltas = [0.0, 1e-7, 1e-5, 1e-4, 1e-3, 1e-2, 0.1]
        by_delta = [
            guess_walk.bound(Walk(guesses=guesses, correct=correct, coins=3000, delta=item), 0.05)[0] for item in deltas
        ]
        for result in (by_level, by_delta):
            assert (np.diff(result) <= 2 * guess_walk.PRECISION).all() and result[0] > result[-1]


def revealed(coins: int, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """Memberships by falling score: each coin shown with chance `delta`, else through randomised response."""
    draw = np.random.default_rng(seed)
    included = draw.random(coins) < 0.5
    right = draw.random(coins) < rate_of(epsilon)
    size = np.where(draw.random(coins) < delta, 10.0, np.abs(draw.normal(size=coins)) * np.where(right, 1, -1))
    return included[np.argsort(-np.where(included, size, -size))]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (1.0, 2e-3), (0.5, 5e-3)])
def test_a_true_pair_is_refuted_no_more_often_than_promised(epsilon: float, delta: float) -> None:
    coins, trials, over = 300, 300, 0
    guesses = one_run_guesses.guess_counts(coins, FRACTIONS)
    for seed in range(trials):
        ranked = revealed(coins, epsilon, delta, seed)
        walk = Walk(guesses=guesses, correct=one_run_guesses.correct_guesses(ranked, guesses), coins=coins, delta=delta)
        over += guess_walk.refutes(walk, epsilon, 0.05)
    assert over <= stats.binom.ppf(1 - 1e-3, trials, 0.05)
    assert over > 0 or delta > 0


def test_one_coin_gives_no_guess() -> None:
    walk = Walk(guesses=np.array([0]), correct=np.array([0]), coins=1, delta=1e-5)
    assert guess_walk.bound(walk, 0.05) == (0.0, -1) and not guess_walk.refutes(walk, 0.0, 0.05)
    ranked = ranks.by_rank(np.zeros(1), np.array([True]))
    assert one_run_guesses.correct_guesses(ranked, np.array([0])).tolist() == [0]


def test_sums_of_tails_decide_many_stretches_and_change_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []
    crossing = guess_walk.crossing

    def counted(guesses: np.ndarray, limits: list[int], rate: float) -> float:
        calls.append(rate)
        return crossing(guesses, limits, rate)

    monkeypatch.setattr(guess_walk, "crossing", counted)
    draws, used = np.random.default_rng(5), []
    walks = []
    for coins in (20, 300, 4000):
        guesses = np.unique(np.geomspace(4, coins, 6).astype(np.int64))
        walks += [
            Walk(guesses=guesses, correct=np.floor(guesses * share).astype(np.int64), coins=coins, delta=delta)
            for share, delta in zip(draws.uniform(0.6, 1.0, 4), (0.0, 1e-5, 1e-3, 1e-2), strict=True)
        ]
    bounds = []
    for sure in (0.0, guess_walk._SURE):
        monkeypatch.setattr(guess_walk, "_SURE", sure)
        calls.clear()
        bounds.append([guess_walk.bound(walk, 0.05) for walk in walks])
        used.append(len(calls))
    assert bounds[0] == bounds[1] and max(bounds[0])[0] > 1
    assert 3 * used[1] < 2 * used[0]

"""Secrets of several values in one run: the sharp term of one count, unequal rates, worst releases by linear programs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, sparse, stats

from audit.stats.bounds import bernoulli_sums, one_count, one_run_all_counts, secret_guesses
from audit.stats.bounds.secret_guesses import Guesses, SecretWalk, likeliest_values
from audit.stats.curves.tradeoff import GroupPairs
from tests.marks import slow


def rate_of(epsilon: float, choices: int) -> float:
    return math.exp(epsilon) / (math.exp(epsilon) + choices - 1)


def worst_of_one_count(secrets: int, guesses: int, correct: int, rate: float, delta: float) -> float:
    """The largest chance of `correct` right guesses of any release: a linear program over the law of their number.

    Releases may be taken symmetric, so the law of the number of right guesses and what its steps spend of delta are all.
    """
    odds, size = rate / (1 - rate), guesses + 1
    rows, limits = [np.concatenate([np.zeros(size), np.ones(guesses)])], [secrets * delta]
    for j in range(guesses):
        row = np.zeros(size + guesses)
        row[j + 1], row[j], row[size + j] = j + 1, -odds * (guesses - j), -1
        rows.append(row)
        limits.append(0.0)
    gain = np.concatenate([-(np.arange(size) >= correct).astype(float), np.zeros(guesses)])
    total = np.concatenate([np.ones(size), np.zeros(guesses)])
    return -optimize.linprog(gain, A_ub=np.array(rows), b_ub=limits, A_eq=total[None], b_eq=[1], method="highs").fun


def slow_stein(correct: int, guesses: int, rate: float) -> float:
    """The largest value of Stein's solution, by its recursion from both ends."""
    odds = rate / (1 - rate)
    full = stats.binom.sf(correct - 1, guesses, rate)
    forward = [full / (odds * guesses)]  # j g_{j-1} - odds (r - j) g_j = 1[j >= c] - T at j = 0
    for j in range(1, correct):
        forward.append((j * forward[-1] + full) / (odds * (guesses - j)))
    return max(forward)


@pytest.mark.parametrize(("guesses", "correct"), [(1, 1), (3, 3), (10, 7), (10, 10), (30, 21), (200, 150)])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.73])
def test_the_sharp_term_is_the_largest_value_of_steins_solution(guesses: int, correct: int, rate: float) -> None:
    assert one_count.stein_factor(correct, guesses, rate) == pytest.approx(slow_stein(correct, guesses, rate), rel=1e-6)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("secrets", "guesses"), [(3, 3), (5, 2), (10, 10), (30, 15)])
@pytest.mark.parametrize("choices", [2, 3, 10])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.05])
def test_one_count_is_the_worst_release_exactly(secrets: int, guesses: int, choices: int, delta: float) -> None:
    for epsilon in (0.0, 1.0, 2.0):
        rate = rate_of(epsilon, choices)
        for correct in {max(1, guesses // 2), max(1, round(0.8 * guesses)), guesses}:
            stated = one_count.p_value(correct, guesses, rate, escapes=secrets * delta)
            worst = worst_of_one_count(secrets, guesses, correct, rate, delta)
            assert worst <= stated + 1e-8
            if stated < 1:
                assert worst == pytest.approx(stated, abs=1e-7)


def test_figures_of_the_exact_worst_case() -> None:
    assert one_count.p_value(3, 3, rate_of(1, 3), escapes=0.3) == pytest.approx(0.27210, abs=1e-5)
    assert one_count.p_value(83, 300, rate_of(1, 10), escapes=0.03) == pytest.approx(0.04209, abs=1e-5)
    assert one_count.p_value(499, 1000, rate_of(2, 10), escapes=0.01) == pytest.approx(0.00136, abs=1e-5)


def test_tails_too_small_for_floats_keep_a_bound() -> None:
    direct = one_count.stein_factor(900, 1000, 0.5)
    assert direct < 1 / 900 * 901 * 0.5 / (901 - 1001 * 0.5) * 1.001
    assert 0 < one_count.stein_factor(9900, 10_000, 0.3) < 1e-3  # the probability is below 1e-4000
    assert one_count.p_value(9900, 10_000, 0.3, escapes=0.1) < 1e-3
    assert one_count.p_value(1, 10_000, 0.9, escapes=0.1) == 1.0


@pytest.mark.parametrize("escapes", [0.0, 0.01, 0.3, 5.0])
@pytest.mark.parametrize(("correct", "guesses"), [(1, 2), (9, 10), (85, 100), (330, 400)])
def test_one_count_rises_with_the_rate_below_one(correct: int, guesses: int, escapes: float) -> None:
    values = np.array([one_count.p_value(correct, guesses, rate, escapes=escapes) for rate in np.linspace(0.01, 0.99, 500)])
    assert (np.diff(values) >= -1e-12).all()


def test_sums_of_unequal_trials_equal_enumeration() -> None:
    rates = np.array([0.1, 0.5, 0.5, 0.9, 0.3])
    law = np.zeros(6)
    for pattern in itertools.product((0, 1), repeat=5):
        law[sum(pattern)] += np.prod(np.where(pattern, rates, 1 - rates))
    assert bernoulli_sums.bernoulli_sum_law(rates) == pytest.approx(law)


def walk_of(right: list[int], odds: list[float], counts: list[int], secrets: int, delta: float) -> SecretWalk:
    correct = np.concatenate([[0], np.cumsum(right)])[counts]
    return SecretWalk(counts=np.array(counts), correct=correct, odds=np.array(odds), secrets=secrets, delta=delta)


def slow_chance(walk: SecretWalk, epsilon: float) -> float:
    """Over every path."""
    rates = walk.odds * math.exp(epsilon) / (1 + walk.odds * math.exp(epsilon))
    paths = [
        (np.cumsum(path), np.prod(np.where(path, rates, 1 - rates))) for path in itertools.product((0, 1), repeat=len(rates))
    ]

    def surprise(sums: np.ndarray) -> float:
        return min(sum(p for peer, p in paths if peer[n - 1] >= sums[n - 1]) for n in walk.counts.tolist())

    observed = min(
        sum(p for sums, p in paths if sums[n - 1] >= right)
        for n, right in zip(walk.counts.tolist(), walk.correct.tolist(), strict=True)
    )
    return sum(p for sums, p in paths if surprise(sums) <= observed * (1 + 1e-9))


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_chance_of_a_walk_with_unequal_priors_equals_enumeration(epsilon: float) -> None:
    walk = walk_of([1, 1, 0, 1, 1, 0], [1 / 3, 1 / 3, 0.1, 1.0, 2.0, 0.5], [2, 4, 6], 8, 0.0)
    assert walk.chance(epsilon) == pytest.approx(slow_chance(walk, epsilon), abs=1e-9)


def test_fair_coins_are_secrets_of_two_values() -> None:
    draw = np.random.default_rng(1)
    right = np.sort(draw.random(400))[::-1] < 0.9 * np.linspace(1, 0.6, 400)
    counts = np.array([40, 100, 400])
    secret = SecretWalk.of(Guesses(right=right, odds=np.ones(400)), counts, 1e-5)
    coins = one_run_all_counts.Walk(guesses=counts, correct=secret.correct, coins=400, delta=1e-5)
    for epsilon in (0.0, 0.5, 1.0):
        assert secret.chance(epsilon) == pytest.approx(coins.chance(epsilon), rel=1e-6)
        assert secret.escape(epsilon) == pytest.approx(coins.escape(epsilon), rel=0.15)
    pairs = GroupPairs(delta=1e-5)
    assert secret_guesses.bound_along(secret, pairs, 0.05) == pytest.approx(
        one_run_all_counts.bound_along(coins, pairs, 0.05), abs=0.01
    )


def test_what_delta_adds_holds_for_every_subset_and_stretch() -> None:
    odds = [0.2, 1.0, 0.05, 3.0, 0.5]
    walk = walk_of([1] * 5, odds, [2, 5], 6, 0.01)
    for epsilon in (0.0, 0.7, 1.5):
        rates = walk.rates(epsilon)
        exact = 0.0
        for count in (2, 5):  # the worst of the steps, the others replaced in a random order
            chances = []
            for step in range(count):
                peers = [i for i in range(count) if i != step]
                modes = [
                    np.mean([bernoulli_sums.bernoulli_sum_law(rates[list(subset)]).max() for subset in subsets]) if t else 1.0
                    for t in range(count)
                    for subsets in [list(itertools.combinations(peers, t))]
                ]
                chances.append(np.mean(modes))
            exact += max(chances)
        assert 6 * 0.01 * (1 - rates).max() * exact <= walk.escape(epsilon) + 1e-12
        assert walk.escape(epsilon) <= walk.escape(epsilon - 0.1, epsilon + 0.1) + 1e-12
        assert walk.chance(epsilon) <= walk.chance(max(0.0, epsilon - 0.1), epsilon + 0.1) + 1e-12


def test_ties_count_against_the_attack_and_order_does_not_matter() -> None:
    prior = np.array([[0.5, 0.3, 0.2]] * 4)
    values = np.array([[1.0, 1.0, 0.0], [2.0, 0.0, 0.0], [-np.inf, -np.inf, 0.0], [0.0, 3.0, 1.0]])
    drawn = np.array([0, 0, 2, 0])
    guesses = likeliest_values(values, drawn, prior)
    assert guesses.right.tolist() == [True, True, False, False]  # leads: infinite, 2 with prior 0.5, 2 with prior 0.3, 0
    order = np.array([2, 0, 3, 1])
    assert likeliest_values(values[order], drawn[order], prior).right.tolist() == guesses.right.tolist()
    columns = [2, 0, 1]
    moved = likeliest_values(values[:, columns], np.array([columns.index(v) for v in drawn]), prior[:, columns])
    assert (moved.right == guesses.right).all() and moved.odds == pytest.approx(guesses.odds)


def worst_release(priors: list[list[float]], epsilon: float, delta: float, is_refuted: np.ndarray) -> float:
    """The largest chance of an unjust refutation by any release that guesses every secret: a linear program over all of them.

    `is_refuted[y, x]`: whether guesses y refute the pair if x was drawn. Neighbours differ in one secret's value.
    """
    values = list(itertools.product(*[range(len(prior)) for prior in priors]))
    size = len(values)
    weight = np.array([np.prod([prior[v] for prior, v in zip(priors, x, strict=True)]) for x in values])
    pairs = [
        (a, b) for a in range(size) for b in range(size) if sum(u != v for u, v in zip(values[a], values[b], strict=True)) == 1
    ]
    width = size * size + len(pairs) * size
    gain = np.zeros(width)
    gain[: size * size] = -(is_refuted * weight[None, :]).ravel()
    rows, limits = [], []
    for index, (a, b) in enumerate(pairs):
        first = size * size + index * size
        spent = np.zeros(width)
        spent[first : first + size] = 1
        rows.append(spent)
        limits.append(delta)
        for y in range(size):
            row = np.zeros(width)
            row[y * size + a], row[y * size + b], row[first + y] = 1, -math.exp(epsilon), -1
            rows.append(row)
            limits.append(0.0)
    total = np.zeros((size, width))
    for x in range(size):
        total[x, x : size * size : size] = 1
    solved = optimize.linprog(gain, A_ub=np.array(rows), b_ub=limits, A_eq=total, b_eq=np.ones(size), method="highs")
    return -float(solved.fun)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "priors", [[[0.5, 0.5], [0.5, 0.5]], [[1 / 3] * 3, [1 / 3] * 3], [[0.7, 0.3], [0.4, 0.6]], [[0.6, 0.3, 0.1], [0.5, 0.5]]]
)
@pytest.mark.parametrize("delta", [0.0, 0.01])
@pytest.mark.parametrize("counts", [[2], [1, 2]])
def test_no_release_refutes_a_true_pair_too_often(priors: list[list[float]], delta: float, counts: list[int]) -> None:
    values = list(itertools.product(*[range(len(prior)) for prior in priors]))
    for epsilon, level in ((0.0, 0.3), (0.7, 0.5), (1.5, 0.7)):
        is_refuted = np.zeros((len(values), len(values)))
        for at, guess in enumerate(values):
            odds = [prior[g] / (1 - prior[g]) for prior, g in zip(priors, guess, strict=True)]
            for of, drawn in enumerate(values):
                right = [int(g == d) for g, d in zip(guess, drawn, strict=True)]
                walk = walk_of(right, odds, counts, 2, delta)
                is_refuted[at, of] = walk.chance(epsilon) + walk.escape(epsilon) <= level
        worst = worst_release(priors, epsilon, delta, is_refuted)
        assert worst <= level + 1e-9


def worst_under_add_remove(secrets: int, choices: int, correct: int, epsilon: float) -> float:
    """The largest chance of `correct` right guesses if only a record's removal is bounded (delta 0): a linear program.

    A symmetric release gives one probability to all outputs with r secrets guessed right, w guessed wrong and a taken away.
    """
    states = [(r, w, secrets - r - w) for r in range(secrets + 1) for w in range(secrets + 1 - r)]
    place = {state: i for i, state in enumerate(states)}
    rows, allowed = [], math.exp(epsilon)
    for r, w, a in states:
        for present in ((r - 1, w, a + 1), (r, w - 1, a + 1)):
            if present[0] >= 0 and present[1] >= 0:
                for larger, smaller in (((r, w, a), present), (present, (r, w, a))):
                    row = np.zeros(len(states))
                    row[place[larger]], row[place[smaller]] = 1, -allowed
                    rows.append(row)
    totals = np.zeros((secrets + 1, len(states)))
    for r, w, a in states:
        totals[a, place[r, w, a]] = math.comb(r + w, r) * float(choices - 1) ** w * float(choices) ** a
    gain = np.zeros(len(states))
    for r in range(correct, secrets + 1):
        gain[place[r, secrets - r, 0]] = -totals[0, place[r, secrets - r, 0]]
    scale = totals.max(axis=0)  # probabilities of whole classes of outputs, so that all variables are of one size
    solved = optimize.linprog(
        gain / scale, A_ub=np.array(rows) / scale, b_ub=np.zeros(len(rows)), A_eq=totals / scale, b_eq=np.ones(secrets + 1)
    )
    return -float(solved.fun)


def test_one_run_under_add_remove_is_not_binomial() -> None:
    """Why the claim has to be about replacing a value: a removal lets one output be shared by many wrong values."""
    for secrets, correct, reached in ((2, 1, 0.516), (8, 4, 0.2062)):
        naive = stats.binom.sf(correct - 1, secrets, math.e / 10)
        worst = worst_under_add_remove(secrets, 10, correct, 1.0)
        assert worst == pytest.approx(reached, abs=1e-3)
        assert worst > 1.09 * naive
        assert worst <= stats.binom.sf(correct - 1, secrets, rate_of(2.0, 10))  # two steps, a removal and an addition: valid


def reveal_or_randomise(secrets: int, choices: int, epsilon: float, delta: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and values of k-ary randomised response that in addition to gives each secret away with chance delta."""
    draw = np.random.default_rng(seed)
    drawn = draw.integers(choices, size=secrets)
    retained = draw.random(secrets) < (math.exp(epsilon) - 1) / (math.exp(epsilon) + choices - 1)
    message = np.where(retained | (draw.random(secrets) < delta), drawn, draw.integers(choices, size=secrets))
    return np.eye(choices)[message], drawn


@pytest.mark.sampled(1)
@pytest.mark.parametrize("choices", [2, 10])
@pytest.mark.parametrize("delta", [1e-5, 1e-4])
def test_coverage_on_randomised_response_with_reveal(choices: int, delta: float) -> None:
    secrets, trials = 300, 150
    over, bounds = 0, []
    counts = secret_guesses.guess_counts(secrets, (0.1, 0.32, 1.0))
    for seed in range(trials):
        values, drawn = reveal_or_randomise(secrets, choices, 1.0, delta, seed)
        walk = SecretWalk.of(likeliest_values(values, drawn, np.full((secrets, choices), 1 / choices)), counts, delta)
        over += secret_guesses.refutes(walk, 1.0, 0.05)
        if seed < 5:
            bounds.append(secret_guesses.bound_along(walk, GroupPairs(delta=delta), 0.05))
    assert over <= stats.binom.ppf(1 - 1e-4, trials, 0.05)
    assert np.median(bounds) > 0.4


def worst_of_sets(shape: tuple[int, int, int], epsilon: float, delta: float, correct: int) -> float:
    """The largest chance of `correct` right guesses of `size` values each, over all releases: a linear program."""
    secrets, choices, size = shape
    values = list(itertools.product(range(choices), repeat=secrets))
    outputs = list(itertools.product(itertools.combinations(range(choices), size), repeat=secrets))
    place = {value: number * len(outputs) for number, value in enumerate(values)}
    pairs = [(x, (*x[:i], v, *x[i + 1 :])) for x in values for i in range(secrets) for v in range(choices) if v != x[i]]
    width = len(values) * len(outputs)
    gain = np.zeros(width * (1 + secrets * (choices - 1)))
    for x in values:
        for column, sets in enumerate(outputs):
            right = sum(value in named for value, named in zip(x, sets, strict=True))
            gain[place[x] + column] = -(right >= correct) / len(values)
    slack = sparse.identity(len(pairs) * len(outputs), format="csr")
    blocks = []
    for x, y in pairs:
        block = sparse.lil_matrix((len(outputs), width))
        for column in range(len(outputs)):
            block[column, place[x] + column], block[column, place[y] + column] = 1, -math.exp(epsilon)
        blocks.append(block)
    over = sparse.hstack([sparse.vstack(blocks), -slack])
    sums = sparse.kron(sparse.identity(len(pairs)), np.ones((1, len(outputs))))
    limits = sparse.vstack([over, sparse.hstack([sparse.csr_matrix((len(pairs), width)), sums])]).tocsr()
    bounds = np.concatenate([np.zeros(over.shape[0]), np.full(len(pairs), delta)])
    one_law = sparse.kron(sparse.identity(len(values)), np.ones((1, len(outputs))))
    full = sparse.hstack([one_law, sparse.csr_matrix((len(values), slack.shape[0]))])
    solved = optimize.linprog(gain, A_ub=limits, b_ub=bounds, A_eq=full.tocsr(), b_eq=np.ones(len(values)))
    return -float(solved.fun)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", slow([(1, 3, 2), (1, 4, 2), (1, 5, 3), (2, 3, 2), (2, 4, 2)], [(2, 4, 2)]))
@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_guesses_of_several_values_stay_below_the_theorem(shape: tuple[int, int, int], delta: float) -> None:
    """And without delta they reach it."""
    secrets, choices, size = shape
    for epsilon, correct in itertools.product((0.3, 1.0), range(1, secrets + 1)):
        rate = math.exp(epsilon) * size / (math.exp(epsilon) * size + choices - size)
        worst = worst_of_sets((secrets, choices, size), epsilon, delta, correct)
        escapes = secrets * delta * (choices - 1) / (choices - size)
        limit = one_count.p_value(correct, secrets, rate, escapes=escapes)
        assert worst <= limit + 1e-7
        if delta == 0:
            assert worst == pytest.approx(stats.binom.sf(correct - 1, secrets, rate), abs=1e-7)


def test_sets_of_values_are_named_by_their_scores_alone() -> None:
    draw = np.random.default_rng(0)
    values, drawn = np.round(draw.normal(size=(200, 7)), 1), draw.integers(7, size=200)
    prior = np.full((200, 7), 1 / 7)
    for size in (1, 3, 6):
        guesses = secret_guesses.likeliest_sets(values, drawn, prior, size)
        naive = [sum(peer >= row[own] for peer in row) <= size for row, own in zip(values, drawn, strict=True)]
        assert guesses.right.sum() == sum(naive)
        assert (guesses.odds == size / (7 - size)).all()
    single = likeliest_values(values, drawn, prior)
    assert (secret_guesses.likeliest_sets(values, drawn, prior, 1).right == single.right).all()
    with pytest.raises(ValueError, match="sets of 7 of 7"):
        secret_guesses.likeliest_sets(values, drawn, prior, 7)

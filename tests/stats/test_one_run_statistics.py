from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from audit.stats.bounds import one_run_fdp, one_run_guesses, product_channel, ranks, roots
from audit.stats.curves import tradeoff
from audit.stats.curves.tradeoff import GroupPairs


def naive_p_value(epsilon: float, guesses: int, correct: int, coins: int, delta: float) -> float:
    """The tail, and the largest value of Stein's solution by its recursion up to the number of right guesses."""
    rate = math.exp(epsilon) / (1 + math.exp(epsilon))
    full = stats.binom.sf(correct - 1, guesses, rate)
    value = 0.0
    for j in range(correct):
        value = (j * value + full) * (1 - rate) / (rate * (guesses - j))
    return min(1.0, full + coins * delta * value)


def published_p_value(epsilon: float, guesses: int, correct: int, coins: int, delta: float) -> float:
    """Steinke, Nasr and Jagielski's formula, term by term."""
    law = stats.binom(guesses, math.exp(epsilon) / (1 + math.exp(epsilon)))
    mass = law.pmf(np.arange(guesses + 1))
    windows = [mass[correct - i : correct].sum() / i for i in range(1, correct + 1)]
    return min(1.0, law.sf(correct - 1) + 2 * coins * delta * max(windows))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize(("guesses", "correct", "coins"), [(10, 9, 40), (100, 80, 1000), (200, 200, 200), (300, 190, 1000)])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
def test_p_value_equals_the_formula(epsilon: float, guesses: int, correct: int, coins: int, delta: float) -> None:
    result = one_run_guesses.p_value(epsilon, guesses=guesses, correct=correct, coins=coins, delta=delta)
    assert result == pytest.approx(naive_p_value(epsilon, guesses, correct, coins, delta), rel=1e-8, abs=1e-13)
    published = published_p_value(epsilon, guesses, correct, coins, delta)
    assert result <= published * (1 + 1e-9) or published > 0.9


@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize(("guesses", "correct"), [(20, 19), (100, 85), (400, 330)])
def test_p_value_is_monotone(delta: float, guesses: int, correct: int) -> None:
    result = np.array(
        [one_run_guesses.p_value(e, guesses=guesses, correct=correct, coins=1000, delta=delta) for e in np.linspace(0, 6, 400)]
    )
    assert (np.diff(result) >= -1e-12).all()


@pytest.mark.parametrize(("coins", "expected"), [(100, 3.493), (1000, 5.809), (10_000, 8.113)])
def test_perfect_guesses_prove_the_known_ceiling(coins: int, expected: float) -> None:
    counts = np.array([coins])
    assert one_run_guesses.bound_along(GroupPairs(delta=0.0), counts, counts, coins=coins, significance=0.05)[
        0
    ] == pytest.approx(expected, abs=1e-3)


def test_the_delta_penalty_is_a_hundredth_of_the_coins_that_may_escape() -> None:
    """A release may give 100 of 100,000 coins away together with chance 1/100 at delta 1e-5; the published term says 0.809."""
    counts = np.array([100])
    assert one_run_guesses.bound_along(GroupPairs(delta=1e-5), counts, counts, coins=100_000, significance=0.05)[
        0
    ] == pytest.approx(3.423, abs=1e-3)


def test_right_guesses_by_brute_force() -> None:
    draw = np.random.default_rng(0)
    values, included = draw.normal(size=50), draw.random(50) < 0.5
    ranked = ranks.by_rank(values, included)
    order = np.argsort(values)
    for guesses in (2, 10, 50):
        half = guesses // 2
        expected = included[order[-half:]].sum() + (~included[order[:half]]).sum()
        assert one_run_guesses.correct_guesses(ranked, np.array([guesses]))[0] == expected


# ---------------------------------------------------------------------------------------- trade-off functions


def naive_recursion(mu: float, guesses: int, correct: int, coins: int, level: float) -> bool:
    """Mahloujifar, Melis and Chaudhuri's procedure with plain floats."""
    r, h = level * correct / coins, level * (guesses - correct) / coins
    for i in range(correct - 1, -1, -1):
        following = max(h, float(special.ndtr(special.ndtri(min(r, 1.0)) - mu)))
        r, h = r + i / (guesses - i) * (following - h), following
    return r + h > guesses / coins


@pytest.mark.parametrize(("guesses", "correct", "coins"), [(100, 85, 1000), (50, 50, 100), (300, 240, 1000)])
def test_recursion_equals_the_plain_one(guesses: int, correct: int, coins: int) -> None:
    grid = np.linspace(0.05, 3, 60)
    result = one_run_fdp.refutes_parameters(
        grid, one_run_fdp.gdp_inverse, guesses=guesses, correct=correct, coins=coins, significance=0.05
    )
    expected = [naive_recursion(mu, guesses, correct, coins, 0.05) for mu in grid]
    assert result.tolist() == expected
    assert any(expected) and not all(expected)


def test_golden_one_run_fdp() -> None:
    """The published example m=100000, c'=1500, c=1429 at delta 1e-5, as their printed code evaluates it."""
    mu, at = one_run_fdp.bound(one_run_fdp.gdp_inverse, np.array([1500]), np.array([1429]), coins=100_000, significance=0.05)
    assert at == 0
    assert tradeoff.gdp_epsilon(mu, 1e-5) == pytest.approx(3.298, abs=3e-3)


# ---------------------------------------------------------------------------------------- product channel


@pytest.mark.parametrize(
    ("coins", "guesses", "wrong", "expected"),
    [(1000, 100, 10, 3.1645), (1000, 1000, 309, 3.6700), (10_000, 2500, 364, 4.1371), (100_000, 50_000, 10_343, 4.3144)],
)
def test_golden_product_channel(coins: int, guesses: int, wrong: int, expected: float) -> None:
    mu, _ = product_channel.bound(
        tradeoff.gdp, np.array([guesses]), np.array([guesses - wrong]), coins=coins, significance=0.05
    )
    assert tradeoff.gdp_epsilon(mu, 1e-5) == pytest.approx(expected, abs=2e-4)


def test_product_channel_law_against_simulation() -> None:
    draw = np.random.default_rng(3)
    mu, coins, guesses = 1.0, 60, 20
    included = draw.random((20_000, coins)) < 0.5
    values = draw.normal(size=included.shape) + mu * included
    surest = np.argsort(-np.abs(values - mu / 2), axis=1)[:, :guesses]
    guess = np.take_along_axis(values > mu / 2, surest, axis=1)
    right = (guess == np.take_along_axis(included, surest, axis=1)).sum(axis=1)
    for correct in (14, 16, 18):
        expected = product_channel.p_value(tradeoff.gdp(mu), guesses=guesses, correct=correct, coins=coins)
        assert (right >= correct).mean() == pytest.approx(expected, abs=4 * math.sqrt(expected / 20_000))


def test_without_independence_only_one_run_methods_hold() -> None:
    """A 1-GDP and (2, 0)-DP mechanism: with chance 0.162 all bits leak at once through randomised response."""
    draw, coins, reveal, trials = np.random.default_rng(4), 1000, 0.162, 80
    guesses, level = np.array([1000]), 0.05
    over = {"product": 0, "one_run": 0}
    for _ in range(trials):
        included = draw.random(coins) < 0.5
        if draw.random() < reveal:
            values = np.where(draw.random(coins) < 1 / (1 + math.exp(-2.0)), 1.0, -1.0) * np.where(included, 1, -1)
        else:
            values = draw.normal(size=coins)
        ranked = ranks.by_rank(values, included)
        right = one_run_guesses.correct_guesses(ranked, guesses)
        over["product"] += product_channel.bound(tradeoff.gdp, guesses, right, coins=coins, significance=level)[0] > 1.0
        over["one_run"] += (
            one_run_guesses.bound_along(GroupPairs(delta=1e-9), guesses, right, coins=coins, significance=level)[0] > 2.0
        )
    assert over["product"] > 0.1 * trials
    assert over["one_run"] <= 0.1 * trials


def test_search_returns_the_rejected_end() -> None:
    end = roots.last_rejected(lambda x: x <= math.pi, resolution=1e-6)
    assert math.pi - 1e-5 < end <= math.pi
    assert roots.last_rejected(lambda x: False) == 0
    assert roots.last_rejected(lambda x: True, largest=12.0) == 12.0


@pytest.mark.parametrize("end", [-1.0, 0.0, 0.3, math.pi, 20.0])
@pytest.mark.parametrize("power", [1, 5])
def test_a_search_that_is_foreseen_ends_where_the_plain_one_does_in_fewer_steps(end: float, power: int) -> None:
    """Along a line, along a curve that is flat where it crosses, and up to a wall at 8."""
    plainly: list[float] = []
    asked: list[float] = []

    def excess(x: float) -> float:
        asked.append(x)
        return math.copysign(abs(x - end) ** power, x - end) if x < 8 else math.inf

    grid = {"largest": 12.0, "resolution": 1e-6}
    plain = roots.last_rejected(lambda x: plainly.append(x) or x <= min(end, math.nextafter(8, 0)), **grid)
    assert roots.last_rejected(roots.foresee(excess, resolution=1e-6), **grid) == plain
    assert len(asked) <= (14 if power == 1 and end < 8 else len(plainly))

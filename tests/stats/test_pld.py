"""The brackets contain what is known exactly, are narrow, and stay valid on grids that are far too coarse."""

from __future__ import annotations

import math
import time
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from audit.stats.curves import composition, discretise, pld
from audit.stats.curves.loss_pairs import Direction, LossPair, finite_pair, subsampled_gaussian, subsampled_laplace
from audit.stats.curves.pld import (
    REPLACE,
    epsilon_bracket,
    subsampled_gaussian_epsilon,
    subsampled_gaussian_losses,
)
from audit.stats.curves.tilting import log_sum_exp
from audit.stats.curves.tradeoff import gdp_delta, gdp_epsilon


def gaussian(noise: float, rate: float, direction: Direction, log_tail: float) -> LossPair:
    return subsampled_gaussian(noise, rate, direction, log_tail=log_tail)


def laplace(scale: float, rate: float, direction: Direction, log_tail: float) -> LossPair:
    return subsampled_laplace(scale, rate, direction)


def one_step_delta(noise: float, rate: float, epsilon: float, direction: Direction) -> float:
    """Closed form of one subsampled release, by pulling the shared part out of both hypotheses."""
    if direction == "remove":
        return rate * gdp_delta(1 / noise, math.log1p(math.expm1(epsilon) / rate))
    retained = 1 - math.exp(epsilon) * (1 - rate)
    return retained * gdp_delta(1 / noise, max(0.0, epsilon + math.log(rate / retained))) if retained > 0 else 0.0


@pytest.mark.sampled(12)
@pytest.mark.parametrize("noise", [0.3, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("steps", [1, 7, 1000])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12, 1e-15])
def test_the_unsampled_gaussian_is_bracketed_narrowly(noise: float, steps: int, delta: float) -> None:
    true = gdp_epsilon(math.sqrt(steps) / noise, delta)
    low, high = epsilon_bracket([(partial(gaussian, noise, 1.0), steps)], delta, directions=("remove",))
    assert low <= true * (1 + 1e-12) and true <= high * (1 + 1e-12)
    assert high - low <= 2e-4 * high


def test_replacing_a_record_is_half_the_noise() -> None:
    low, high = epsilon_bracket([(partial(gaussian, 2.0, 1.0), 10)], 1e-6, directions=REPLACE)
    assert low <= gdp_epsilon(math.sqrt(10), 1e-6) <= high
    assert high - low <= 2e-4 * high


@pytest.mark.sampled(2)
@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("noise", "rate"), [(0.5, 0.01), (1.0, 0.3), (4.0, 1e-3), (0.8, 0.999)])
def test_one_subsampled_release_is_bracketed(noise: float, rate: float, direction: Direction) -> None:
    for share in (0.02, 0.3, 0.7):
        reach = math.log1p(rate * math.expm1(3 / noise)) if direction == "remove" else -math.log1p(-rate)
        epsilon = share * reach
        delta = one_step_delta(noise, rate, epsilon, direction)
        low, high = epsilon_bracket([(partial(gaussian, noise, rate), 1)], delta, directions=(direction,))
        assert low <= epsilon * (1 + 1e-9) and epsilon <= high * (1 + 1e-9)
        assert high - low <= 1e-3 * high


@pytest.mark.slow
@given(
    noise=st.floats(0.3, 20),
    rate=st.floats(1e-3, 1),
    coarse=st.floats(0.3, 20),
    share=st.floats(0.0, 1.0),
    direction=st.sampled_from(["remove", "add"]),
)
@settings(max_examples=150, deadline=None)
def test_any_grid_is_on_its_side(noise: float, rate: float, coarse: float, share: float, direction: Direction) -> None:
    """The proofs do not need a fine grid, so neither does this."""
    pair = subsampled_gaussian(noise, rate, direction)
    step = pair.spread / coarse
    reach = math.log1p(rate * math.expm1(min(4 / noise, 700))) if direction == "remove" else -math.log1p(-min(rate, 0.99))
    epsilon = share * reach
    true = one_step_delta(noise, rate, epsilon, direction)
    for grid, sign in ((discretise.upper(pair, step), 1), (discretise.lower(pair, step), -1)):
        result = grid.infinite + float(grid.mass @ np.maximum(0, -np.expm1(epsilon - grid.loss)))
        assert sign * (result - true) >= -1e-9 * true - 1e-14
    assert discretise.upper(pair, step).mass.sum() <= 1 + 1e-12


@pytest.mark.parametrize(("scale", "steps", "delta", "known"), [(1.0, 1, 1e-5, 0.999980), (2.0, 10, 1e-6, 4.998978)])
def test_laplace(scale: float, steps: int, delta: float, known: float) -> None:
    low, high = epsilon_bracket([(partial(laplace, scale, 1.0), steps)], delta)
    assert low <= known * (1 + 2e-6) and known <= high * (1 + 2e-6)
    assert high - low <= 2e-4 * high


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("direction", "epsilon"), [("remove", 0.1), ("remove", 0.4), ("add", 0.1)])
def test_one_subsampled_laplace_release(direction: Direction, epsilon: float) -> None:
    rate, scale = 0.3, 0.8
    x = np.linspace(-40, 41, 4_000_001)
    nonmember = np.exp(-np.abs(x) / scale) / (2 * scale)
    member = (1 - rate) * nonmember + rate * np.exp(-np.abs(x - 1) / scale) / (2 * scale)
    first, second = (member, nonmember) if direction == "remove" else (nonmember, member)
    true = float(np.trapezoid(np.maximum(first - math.exp(epsilon) * second, 0), x))
    low, high = epsilon_bracket([(partial(laplace, scale, rate), 1)], true, directions=(direction,))
    assert low <= epsilon * (1 + 1e-4) and epsilon * (1 - 1e-4) <= high
    assert high - low <= 1e-3 * high


def test_randomised_response_equals_binomial_sums() -> None:
    truth, steps, delta = 0.75, 40, 1e-6
    loss = math.log(truth / (1 - truth))
    heads = np.arange(steps + 1)
    losses = loss * (2 * heads - steps)
    masses = stats.binom.pmf(heads, steps, truth)

    def pair(direction: Direction, log_tail: float) -> LossPair:
        return finite_pair((-loss, loss), (1 - truth, truth))

    low, high = epsilon_bracket([(pair, steps)], delta, directions=REPLACE)
    deltas = [float(masses @ np.maximum(0, -np.expm1(end - losses))) for end in (low, high)]
    assert deltas[0] >= delta * (1 - 1e-6) and deltas[1] <= delta * (1 + 1e-6)
    assert high - low < 1e-6 * high


def test_an_infinite_loss_is_paid_from_delta() -> None:
    def pair(direction: Direction, log_tail: float) -> LossPair:
        return finite_pair((0.0, math.inf), (1 - 1e-3, 1e-3))

    assert epsilon_bracket([(pair, 2)], 1e-2) == (0.0, 0.0)
    assert epsilon_bracket([(pair, 20)], 1e-2)[1] == math.inf
    infinite = 1 - 0.999**20
    assert epsilon_bracket([(pair, 20)], infinite * (1 + 1e-8)) == (0.0, 0.0)
    assert epsilon_bracket([(pair, 20)], infinite * (1 - 1e-8))[1] == math.inf


# (rate, noise, steps, delta): brackets published elsewhere for the same cases
PUBLISHED = [
    (0.01, 1.0, 1000, 1e-5, 1.82816, 1.82824),
    (0.01, 1.0, 1000, 1e-12, 3.91422, 3.91430),
    (256 / 60000, 1.1, 14062, 1e-5, 2.38126, 2.38161),
    (1e-3, 0.6, 10_000, 1e-6, 3.15015, 3.15219),
    (0.01, 0.3, 1000, 1e-5, 69.8131, 69.8157),
    (0.5, 0.3, 10, 1e-5, 75.4986, 75.5071),
    (0.9, 2.0, 100, 1e-6, 31.3007, 31.3043),
    (0.25, 10.0, 1000, 1e-12, 5.672855, 5.672900),
    (0.01, 2.0, 10_000, 1e-10, 3.37310, 3.37320),
    (0.01, 1.0, 1000, 0.1, 0.170253, 0.170259),
    (1e-3, 50.0, 10**6, 1e-6, 0.07095, 0.07097),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", PUBLISHED, ids=str)
def test_brackets_meet_the_published_ones(case: tuple[float, float, int, float, float, float]) -> None:
    rate, noise, steps, delta, low, high = case
    started = time.process_time()
    ours = epsilon_bracket([(partial(gaussian, noise, rate), steps)], delta)
    assert ours[0] <= high * (1 + 1e-5) and low * (1 - 1e-5) <= ours[1]
    assert ours[1] - ours[0] <= 2e-4 * ours[1]
    assert time.process_time() - started < 10


@pytest.mark.slow
def test_small_rates_and_long_runs_keep_both_ends() -> None:
    low, high = epsilon_bracket([(partial(gaussian, 1.0, 1e-5), 10**6)], 1e-9)
    assert 0.0552 < low <= high < 0.06516 and high - low < 3e-4 * high


@pytest.mark.slow
def test_order_and_splitting_do_not_matter() -> None:
    first, second = partial(gaussian, 1.0, 0.01), partial(laplace, 10.0, 1.0)
    full = epsilon_bracket([(first, 100), (second, 20)], 1e-6)
    turned = epsilon_bracket([(second, 20), (first, 60), (first, 40)], 1e-6)
    assert max(full[0], turned[0]) <= min(full[1], turned[1])
    assert turned == pytest.approx(full, rel=1e-9)


def test_heterogeneous_composition_of_the_reference() -> None:
    steps = [(partial(gaussian, 5.0, 1.0), 20), (partial(laplace, 10.0, 1.0), 20), (partial(gaussian, 1.0, 0.01), 1000)]
    low, high = epsilon_bracket(steps, 1e-6)
    assert low <= 5.35766 and high >= 5.35741
    assert high - low < 4e-4 * high


def test_nothing_released_costs_nothing() -> None:
    assert epsilon_bracket([], 1e-5) == (0.0, 0.0)
    assert epsilon_bracket([(partial(gaussian, 1.0, 0.5), 0)], 1e-5) == (0.0, 0.0)
    assert subsampled_gaussian_epsilon(1.0, 0.1, 0, 1e-5) == 0
    assert subsampled_gaussian_epsilon(1.0, 0.0, 10, 1e-5) == 0
    assert subsampled_gaussian_epsilon(0.0, 0.1, 10, 1e-5) == math.inf


@pytest.mark.parametrize(("noise", "rate", "steps"), [(0.5, 0.3, 500), (1.0, 0.1, 300), (5.0, 0.05, 100)])
def test_quick_bounds_bracket_and_are_quick(noise: float, rate: float, steps: int) -> None:
    started = time.process_time()
    low = subsampled_gaussian_epsilon(noise, rate, steps, 1e-5, side="lower")
    high = subsampled_gaussian_epsilon(noise, rate, steps, 1e-5)
    assert time.process_time() - started < 1.0
    fine = epsilon_bracket([(partial(gaussian, noise, rate), steps)], 1e-5, tolerance=1e-5)
    assert low <= fine[1] and fine[0] <= high and low <= high
    assert high - low < 1e-3 * high


def test_losses_are_the_normal_law_without_sampling() -> None:
    noise, steps = 2.0, 10
    losses, member, nonmember = subsampled_gaussian_losses(noise, 1.0, steps)
    shift = math.sqrt(steps) / noise
    assert losses[0] == -math.inf and losses[-1] == math.inf and (np.diff(losses) > 0).all()
    for point in (-3.0, 0.0, 1.25, 4.0):
        assert member[losses > point].sum() == pytest.approx(stats.norm.sf(point, shift**2 / 2, shift), abs=2e-3)
        assert nonmember[losses > point].sum() == pytest.approx(stats.norm.sf(point, -(shift**2) / 2, shift), abs=2e-3)
    finite = np.isfinite(losses)
    deltas = member[-1] + float(member[finite] @ np.maximum(0, -np.expm1(3.0 - losses[finite])))
    assert deltas == pytest.approx(gdp_delta(shift, 3.0), rel=1e-3)


@pytest.mark.parametrize(("noise", "rate", "steps"), [(0.5, 0.3, 100), (1.0, 0.1, 300), (3.0, 0.2, 100), (1.0, 0.01, 1)])
def test_losses_are_two_laws_with_the_ratio_that_they_state(noise: float, rate: float, steps: int) -> None:
    losses, member, nonmember = subsampled_gaussian_losses(noise, rate, steps)
    assert member.sum() == pytest.approx(1, abs=1e-12) and nonmember.sum() == pytest.approx(1, abs=1e-12)
    assert (member >= 0).all() and (nonmember >= 0).all() and member[-1] < 1e-10 and nonmember[0] < 1e-10
    observed = np.isfinite(losses) & (member > 1e-250) & (nonmember > 1e-250)
    np.testing.assert_allclose(np.log(member[observed] / nonmember[observed]), losses[observed], atol=1e-9, rtol=1e-9)
    epsilon = subsampled_gaussian_epsilon(noise, rate, steps, 1e-5, direction="remove")
    finite = np.isfinite(losses)
    delta = member[-1] + float(member[finite] @ np.maximum(0, -np.expm1(epsilon - losses[finite])))
    assert delta == pytest.approx(1e-5, rel=5e-3)


def test_losses_agree_with_simulation() -> None:
    noise, rate, steps, trials = 0.8, 0.2, 20, 20_000
    rng = np.random.Generator(np.random.PCG64(5))
    outputs = rng.normal(0, noise, (trials, steps)) + (rng.random((trials, steps)) < rate)
    simulated = np.log1p(rate * np.expm1((2 * outputs - 1) / (2 * noise**2))).sum(axis=1)
    losses, member, _ = subsampled_gaussian_losses(noise, rate, steps)
    for point in (-2.0, 0.0, 2.0, 5.0):
        share = float(np.mean(simulated > point))
        assert member[losses > point].sum() == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / trials) + 2e-3)


def test_too_fine_a_grid_is_an_error_not_a_swap_storm() -> None:
    pair = subsampled_gaussian(0.5, 0.5, "remove")
    grid = discretise.upper(pair, pair.spread / 16)
    with pytest.raises(MemoryError, match="wider grid"):
        composition.composed_masses([(grid, 10)], 0.0, (0.0, 1e9))


def test_where_a_finer_grid_does_not_fit_one_between_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tolerance that asks for too much gives no wider bracket than one that fits."""
    tried = []

    def both_sides(_: object, density: float, __: float) -> tuple[float, float]:
        tried.append(density)
        if density > 40:
            raise MemoryError("too fine")
        return 1 - density**-2, 1 + density**-2

    monkeypatch.setattr(pld, "_both_sides", both_sides)
    steps = [(lambda way, tail: subsampled_gaussian(1.0, 0.1, way, log_tail=tail), 10)]
    low, high = pld.epsilon_bracket(steps, 1e-5, directions=("remove",), tolerance=1e-9)
    finished = max(density for density in tried if density <= 40)
    assert finished > 40 / pld._WORTHWHILE**2 and (low, high) == (1 - finished**-2, 1 + finished**-2)
    assert len(tried) < 20


def test_logarithms_of_sums_are_those_of_scipy_to_the_bit() -> None:
    generator = np.random.default_rng(0)
    for entries, spread in ((1, 1.0), (2, 1e-3), (300, 50.0), (2001, 1e5)):
        logs = spread * generator.normal(size=(20, entries))
        logs[::2, -1] = logs[::2].max(axis=1)  # the largest twice
        expected = special.logsumexp(logs, axis=1)
        assert log_sum_exp(logs[3].copy()) == expected[3]
        np.testing.assert_array_equal(log_sum_exp(logs), expected)

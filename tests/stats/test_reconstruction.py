"""Right answers of independent trials: both adjacencies, against linear programs, closed forms and known mechanisms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from audit.stats.bounds import reconstruction, secret_guesses
from audit.stats.curves import dp_sgd_curve, tradeoff
from audit.stats.scoring import normal


def best_success(priors: list[float], epsilon: float, delta: float, *, replace: bool) -> float:
    """The largest chance of a right guess of any release, by a linear program over all of them."""
    k = len(priors)
    states = k if replace else k + 1  # the last one: no record
    outputs = k
    pairs = (
        [(a, b) for a in range(k) for b in range(k) if a != b] if replace else [p for v in range(k) for p in ((v, k), (k, v))]
    )
    width = outputs * states + len(pairs) * outputs
    rows, limits = [], []
    for index, (a, b) in enumerate(pairs):
        first = outputs * states + index * outputs
        spent = np.zeros(width)
        spent[first : first + outputs] = 1
        rows.append(spent)
        limits.append(delta)
        for y in range(outputs):
            row = np.zeros(width)
            row[y * states + a], row[y * states + b], row[first + y] = 1, -math.exp(epsilon), -1
            rows.append(row)
            limits.append(0.0)
    total = np.zeros((states, width))
    for x in range(states):
        total[x, x : outputs * states : states] = 1
    gain = np.zeros(width)
    for v, prior in enumerate(priors):
        gain[v * states + v] = -prior
    return -optimize.linprog(gain, A_ub=np.array(rows), b_ub=limits, A_eq=total, b_eq=np.ones(states), method="highs").fun


@pytest.mark.sampled(6)
@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("priors", [[0.5, 0.5], [0.25] * 4, [0.1] * 10, [0.6, 0.3, 0.1]])
def test_no_release_does_better(priors: list[float], delta: float, *, replace: bool) -> None:
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        success = best_success(priors, epsilon, delta, replace=replace)
        stated = reconstruction.success_epsilon(success, max(priors), delta, replace=replace)
        assert stated <= epsilon + 1e-7
        if len(set(priors)) == 1:
            assert stated == pytest.approx(epsilon, abs=1e-6)  # reached by randomised response that gives away at times


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("choices", [2, 5, 10])
def test_what_is_allowed_is_what_the_best_release_reaches(choices: int, *, replace: bool) -> None:
    for epsilon, delta in ((0.0, 0.0), (1.0, 0.0), (2.0, 0.1)):
        allowed = reconstruction.success_allowed(tradeoff.epsilon_delta(epsilon, delta), choices, replace=replace)
        assert allowed == pytest.approx(best_success([1 / choices] * choices, epsilon, delta, replace=replace), abs=1e-7)
    for mu in (0.3, 1.0, 3.0):
        allowed = reconstruction.success_allowed(tradeoff.gdp(mu), choices, replace=replace)
        assert reconstruction.success_mu(allowed, 1 / choices, replace=replace) == pytest.approx(mu, abs=1e-6)
    assert reconstruction.success_allowed(tradeoff.epsilon_delta(1.0, 1.0), choices, replace=replace) == 1.0


@pytest.mark.parametrize(("epsilon", "success"), [(0.5, 0.6225), (1.0, 0.7311), (2.0, 0.8808), (4.0, 0.9820)])
def test_binary_randomised_response_is_exact(epsilon: float, success: float) -> None:
    """An attribute of two values: what is allowed, what right answers prove, and each guess of one run."""
    assert reconstruction.success_allowed(tradeoff.epsilon_delta(epsilon, 0.0), 2, replace=True) == pytest.approx(
        success, abs=5e-5
    )
    exact = 1 / (1 + math.exp(-epsilon))
    assert reconstruction.success_epsilon(exact, 0.5, 0.0, replace=True) == pytest.approx(epsilon)
    guesses = secret_guesses.likeliest_values(np.array([[1.0, 0.0]]), np.array([0]), np.full((1, 2), 0.5))
    walk = secret_guesses.SecretWalk.of(guesses, np.array([1]), 0.0)
    assert walk.rates(epsilon) == pytest.approx([exact])


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_two_antipodal_and_two_orthogonal_candidates_are_exact_in_the_family(mu: float) -> None:
    """The best guess among two Gaussians at distance d is right with chance Phi(d / 2); a replacement moves by d."""
    for distance in (mu * math.sqrt(2), 2 * mu):
        success = stats.norm.cdf(distance / 2)
        assert reconstruction.success_mu(success, 0.5, replace=True) == pytest.approx(distance)
    assert reconstruction.success_mu(stats.norm.cdf(mu), 0.5, replace=False) == pytest.approx(mu)


def success_among_orthogonal(choices: int, mu: float) -> float:
    """The chance that a normal variable with mean mu exceeds k - 1 with mean 0."""
    grid = np.linspace(-12, 12 + mu, 20_001)
    return float(np.sum(stats.norm.pdf(grid - mu) * stats.norm.cdf(grid) ** (choices - 1)) * (grid[1] - grid[0]))


@pytest.mark.parametrize(
    ("choices", "mu", "reached"), [(2, 1.0, 0.7603), (10, 1.0, 0.3412), (100, 1.0, 0.0825), (256, 1.0, 0.0440)]
)
def test_orthogonal_candidates_stay_below_their_bound(choices: int, mu: float, reached: float) -> None:
    success = success_among_orthogonal(choices, mu)
    assert success == pytest.approx(reached, abs=8e-4)  # of 400,000 draws
    assert reconstruction.success_mu(success, 1 / choices, replace=False) < mu
    assert reconstruction.success_mu(success, 1 / choices, replace=True) <= mu * math.sqrt(2) + 1e-9
    assert success < float(tradeoff.gdp_tpr(mu, 1 / choices))


def test_the_better_form_depends_on_the_number_of_values() -> None:
    ten = success_among_orthogonal(10, 1.0)
    assert reconstruction.success_mu(ten, 0.1, replace=True) == pytest.approx(0.954, abs=0.1)
    assert reconstruction.success_mu(0.999, 0.5, replace=False) == pytest.approx(stats.norm.ppf(0.999))


def test_nothing_and_everything() -> None:
    for replace in (True, False):
        assert reconstruction.success_epsilon(0.1, 0.1, 0.0, replace=replace) == 0
        assert reconstruction.success_epsilon(0.15, 0.1, 0.1, replace=replace) == 0
        assert reconstruction.success_epsilon(1.0, 0.1, 0.0, replace=replace) == math.inf
        assert reconstruction.success_mu(0.1, 0.1, replace=replace) == 0
        assert reconstruction.success_mu(1.0, 0.1, replace=replace) == math.inf
    assert reconstruction.success_lower(0, 10, 0.05) == 0
    assert reconstruction.success_lower(10, 10, 0.05) == pytest.approx(0.05 ** (1 / 10))


@pytest.mark.parametrize("choices", [2, 4, 10])
@pytest.mark.parametrize("delta", [1e-5, 0.1])
def test_coverage_on_randomised_response_with_reveal(choices: int, delta: float) -> None:
    """Right answers of independent trials are binomial, so the error rate is exact: no simulation is needed."""
    trials, epsilon = 400, 1.0
    success = (math.exp(epsilon) + (choices - 1) * delta) / (math.exp(epsilon) + choices - 1)
    mass = stats.binom.pmf(np.arange(trials + 1), trials, success)
    bounds = [
        reconstruction.success_epsilon(reconstruction.success_lower(v, trials, 0.05), 1 / choices, delta, replace=True)
        for v in range(trials + 1)
    ]
    wrong = mass[np.array(bounds) > epsilon].sum()
    assert wrong <= 0.05
    assert wrong > 0.02  # and not far below: the form is sharp
    assert np.interp(0.5, np.cumsum(mass), bounds) > 0.7
    peer = [
        reconstruction.success_epsilon(reconstruction.success_lower(v, trials, 0.05), 1 / choices, delta, replace=False)
        for v in range(trials + 1)
    ]
    assert (np.array(peer) <= np.array(bounds) + 1e-12).all()


@pytest.mark.parametrize("simplex", [True, False])
@pytest.mark.parametrize("choices", [2, 10, 100])
@pytest.mark.parametrize("delta", [1e-5, 0.1])
def test_coverage_on_the_gaussian(choices: int, delta: float, *, simplex: bool) -> None:
    """Simplex candidates are orthogonal ones less their mean, longer by sqrt(k / (k - 1)) at a record's length."""
    mu, trials = 1.0, 300
    scale = mu * math.sqrt(choices / (choices - 1)) if simplex else mu
    success = success_among_orthogonal(choices, scale)
    replaced = scale * math.sqrt(2)
    mass = stats.binom.pmf(np.arange(trials + 1), trials, success)
    for replace, truth in ((False, mu), (True, replaced)):
        lower = [reconstruction.success_lower(v, trials, 0.05) for v in range(trials + 1)]
        mus = np.array([reconstruction.success_mu(level, 1 / choices, replace=replace) for level in lower])
        epsilons = np.array([reconstruction.success_epsilon(level, 1 / choices, delta, replace=replace) for level in lower])
        assert mass[mus > truth].sum() <= 0.05
        assert mass[epsilons > tradeoff.gdp_epsilon(truth, delta)].sum() <= 0.05


def success_in_dp_sgd(noise: float, rate: float, steps: int, choices: int, *, antipodal: bool, linear: bool = False) -> float:
    """Share of 6000 secrets that the largest log-likelihood names, the first candidate being the true one.

    Candidates are orthogonal, each seen along its own direction, or two gradients of opposite sign along one.
    """
    draw, secrets = np.random.default_rng(0), 6000
    sampled = draw.random((secrets, steps)) < rate
    if antipodal:
        along = sampled + noise * draw.standard_normal((secrets, steps))
        products = np.stack([along, -along], axis=1)
    else:
        products = noise * draw.standard_normal((secrets, choices, steps))
        products[:, 0] += sampled
    steps_scores = products if linear else normal.log_likelihood_ratio_subsampled_gaussian(products, noise, rate)
    totals = steps_scores.sum(axis=-1)
    return float((totals.argmax(axis=1) == 0).mean())


@pytest.mark.parametrize(("steps", "noise"), [(1, 1.0), (9, 3.0)])
def test_antipodal_candidates_reach_the_curve_without_sampling(steps: int, noise: float) -> None:
    limit = float(dp_sgd_curve.sgd(noise, 1.0, steps).tpr(0.5))
    assert success_in_dp_sgd(noise, 1.0, steps, 2, antipodal=True) == pytest.approx(limit, abs=0.015)


@pytest.mark.parametrize(("noise", "rate", "steps"), [(0.8, 0.1, 50), pytest.param(0.6, 0.02, 200, marks=pytest.mark.slow)])
def test_the_likelihood_comes_near_the_curve_under_sampling_and_the_plain_product_does_not(
    noise: float, rate: float, steps: int
) -> None:
    curve = dp_sgd_curve.sgd(noise, rate, steps)
    pair = success_in_dp_sgd(noise, rate, steps, 2, antipodal=True)
    assert 0.9 < pair / float(curve.tpr(1 / 2)) < 1
    ten = success_in_dp_sgd(noise, rate, steps, 10, antipodal=False)
    assert 0.83 < ten / float(curve.tpr(1 / 10)) < 1
    assert success_in_dp_sgd(noise, rate, steps, 10, antipodal=False, linear=True) < 0.85 * ten

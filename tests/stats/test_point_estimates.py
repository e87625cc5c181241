from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import audit
from audit.core.claims import Estimate
from audit.stats.bounds import one_run_guesses, point_estimates


@pytest.mark.parametrize(("false", "missed"), [(5, 20), (0, 0), (40, 45)])
def test_joint_beta_is_the_posterior_quantile(false: int, missed: int) -> None:
    """The posterior of both error rates by simulation, and the epsilon that each pair of rates needs."""
    draw, size, delta = np.random.default_rng(0), 100, 1e-3
    fnr = draw.beta(missed + 0.5, size - missed + 0.5, 400_000)
    fpr = draw.beta(false + 0.5, size - false + 0.5, 400_000)
    pairs = [((1 - fnr - delta), fpr), ((1 - fpr - delta), fnr), ((fpr - delta), 1 - fnr), ((fnr - delta), 1 - fpr)]
    needed = np.max([np.log(np.maximum(above, 1e-12) / below) for above, below in pairs], axis=0)
    expected = np.quantile(np.maximum(needed, 0), 0.05)
    result = point_estimates.joint_beta(false, missed, (size, size), delta, 0.05)
    assert result == pytest.approx(expected, abs=0.02)


def test_known_figure_of_the_authors_package() -> None:
    """487 true positives, 512 false ones, no miss, one true negative; zero counts are no obstacle."""
    assert point_estimates.joint_beta(512, 0, (487, 513), 1e-5, 0.05) == pytest.approx(0.1439, abs=1e-4)


def test_best_counts_by_brute_force() -> None:
    draw = np.random.default_rng(1)
    members, nonmembers = draw.normal(1, 1, 30), draw.normal(0, 1, 40)
    cuts = np.concatenate([members, nonmembers])
    errors = [(nonmembers >= cut).mean() + (members < cut).mean() for cut in cuts]
    false, missed = point_estimates.best_counts(members, nonmembers)
    assert false / 40 + missed / 30 == pytest.approx(min(errors))


def test_estimates_are_not_bounds_and_say_so() -> None:
    draw = np.random.default_rng(2)
    result = audit.estimates(draw.normal(size=300), draw.normal(size=300), delta=1e-5)
    assert all(isinstance(item, Estimate) and item.warning for item in result)
    by_name = {item.estimator: item.epsilon for item in result}
    assert by_name["bootstrap_low"] < by_name["bootstrap_high"]
    assert by_name["joint_beta"] > 0  # from nothing: why it is not called a bound


@pytest.mark.slow
def test_delta_is_bounded_where_epsilon_is_given() -> None:
    draw, over, trials = np.random.default_rng(3), 0, "independent_trials"
    strong = audit.delta_lower_bound(draw.normal(4, 1, 300), draw.normal(0, 1, 300), epsilon=1.0, game=trials).delta
    assert 0.5 < strong < 0.9545  # TPR - e FPR of the best event is 0.924
    assert audit.delta_lower_bound(draw.normal(4, 1, 300), draw.normal(0, 1, 300), epsilon=3.0, game=trials).delta < strong
    for _ in range(40):
        over += audit.delta_lower_bound(draw.normal(1, 1, 60), draw.normal(0, 1, 60), epsilon=0.5, game=trials).delta > 0.2384
    assert over <= 9


def test_delta_at_epsilon_of_one_run_is_where_the_p_value_meets_the_level() -> None:
    guesses, correct = np.array([20, 100]), np.array([20, 88])
    result = one_run_guesses.delta_bound(guesses, correct, coins=200, epsilon=1.0, significance=0.05)
    assert 0 < result < 1
    chances = [
        [
            one_run_guesses.p_value(1.0, guesses=count, correct=right, coins=200, delta=delta)
            for count, right in zip((20, 100), (20, 88), strict=True)
        ]
        for delta in (0.999 * result, 1.001 * result)
    ]
    assert min(chances[0]) < 0.025 < min(chances[1])
    assert one_run_guesses.delta_bound(guesses, np.array([10, 50]), coins=200, epsilon=1.0, significance=0.05) == 0


@pytest.mark.slow
def test_delta_at_epsilon_in_one_run_holds() -> None:
    """A mechanism that reveals each coin with chance 0.02 and nothing else has delta 0.02 at every epsilon."""
    over = 0
    for seed in range(60):
        draw = np.random.default_rng(seed)
        coins = draw.random(400) < 0.5
        values = np.where(draw.random(400) < 0.02, np.where(coins, 9.0, -9.0), draw.normal(size=400))
        over += audit.delta_lower_bound(values[coins], values[~coins], epsilon=0.5, game="one_run").delta > 0.02
    assert over <= stats.binom.ppf(1 - 1e-4, 60, 0.05)
    strong = np.arange(200.0)
    assert audit.delta_lower_bound(strong + 200, strong, epsilon=0.5, game="one_run").delta > 1e-3

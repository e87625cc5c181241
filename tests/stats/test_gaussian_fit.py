"""The one-shot estimate of two fitted normal laws: right for many scores, biased upward for few, and never a bound."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit.stats.bounds import point_estimates
from audit.stats.curves import tradeoff


def test_many_scores_of_a_gaussian_mechanism_give_its_epsilon() -> None:
    random = np.random.default_rng(1)
    for noise in (1.0, 3.0):
        scores = noise * random.standard_normal((2, 400_000)) + np.array([[1.0], [0.0]])
        truth = tradeoff.gdp_epsilon(1 / noise, 1e-5)
        assert point_estimates.gaussian_epsilon(scores[0], scores[1], 1e-5) == pytest.approx(truth, rel=0.05)


def test_few_scores_read_too_much() -> None:
    """Mean over 40 draws of 100 scores at a true epsilon of 1.00: above twice that."""
    random = np.random.default_rng(2)
    scores = 4.22 * random.standard_normal((40, 2, 50)) + np.array([[1.0], [0.0]])
    figures = [point_estimates.gaussian_epsilon(members, nonmembers, 1e-6) or 0.0 for members, nonmembers in scores]
    assert np.mean(figures) > 2 * tradeoff.gdp_epsilon(1 / 4.22, 1e-6)


@pytest.mark.parametrize("deviations", [(1.0, 1.0), (1.0, 1.6), (0.7, 0.4)])
def test_the_divergence_is_that_of_a_fine_sum(deviations: tuple[float, float]) -> None:
    grid = np.linspace(-25, 25, 2_000_001)
    laws = [(0.8, deviations[0]), (-0.1, deviations[1])]
    first, second = (np.exp(-0.5 * ((grid - mean) / wide) ** 2) / (wide * math.sqrt(2 * math.pi)) for mean, wide in laws)
    for value in (0.0, 0.7, 2.0, 5.0):
        slow = float(np.maximum(first - math.exp(value) * second, 0).sum() * (grid[1] - grid[0]))
        assert point_estimates._divergence(laws[0], laws[1], value) == pytest.approx(slow, abs=1e-6)


def test_what_cannot_be_fitted_has_no_estimate() -> None:
    scores = np.linspace(0, 1, 20)
    assert point_estimates.gaussian_epsilon(scores[:9], scores, 1e-5) is None
    assert point_estimates.gaussian_epsilon(np.append(scores, np.inf), scores, 1e-5) is None
    assert point_estimates.gaussian_epsilon(np.ones(20), np.ones(20), 1e-5) == 0
    assert point_estimates.gaussian_epsilon(np.ones(20), np.zeros(20), 1e-5) == math.inf
    assert point_estimates.gaussian_epsilon(scores + 1e6, scores, 1e-5) == math.inf

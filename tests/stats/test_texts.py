"""Scores of texts: short ones, distributions without spread, and the exact null of exposure."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import skewnorm

from audit.stats.scoring import texts


def naive_min_k(values: list[float], share: float) -> float:
    """The published loop, with at least one token."""
    count = max(1, math.ceil(share * len(values) - 1e-9))
    return sum(sorted(values)[:count]) / count


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 1.0])
def test_min_k_is_the_loop_s(share: float) -> None:
    random = np.random.default_rng(0)
    values, labels = random.standard_normal((40, 12)), random.integers(0, 9, (40, 12))
    labels[random.random((40, 12)) < 0.4] = -1
    labels[:, 5] = 3
    scores = texts.lowest_share_mean(values, labels, share)
    for row in range(40):
        assert scores[row] == pytest.approx(naive_min_k(values[row][labels[row] >= 0].tolist(), share))


def test_a_short_text_has_a_score() -> None:
    """int(n * 0.2) is 0 for a text of four tokens: the mean of nothing."""
    assert texts.lowest_share_mean(np.array([[-1.0, -5.0, -2.0, -1.0]]), np.array([[-1, 1, 1, 1]]), 0.2).tolist() == [-5.0]
    assert texts.lowest_share_mean(np.zeros((1, 3)), np.full((1, 3), -1), 0.2).tolist() == [0.0]


def test_a_distribution_without_spread_says_nothing() -> None:
    values = texts.standardised(np.array([-1.0, -2.0]), np.array([-1.0, -3.0]), np.array([0.0, 0.5]))
    assert values.tolist() == [0.0, 2.0]


def test_the_null_of_exposure_is_exact() -> None:
    candidates = 1000
    ranks = np.arange(1, candidates + 1)
    mean = float(np.mean(texts.exposure(ranks, candidates)))
    assert mean == pytest.approx(texts.mean_null_exposure(candidates))
    assert texts.mean_null_exposure(10**7) == pytest.approx(1 / math.log(2), abs=1e-5)


def test_the_chance_of_extraction_is_that_of_sampling() -> None:
    draw = np.random.default_rng(0)
    log_chances = np.log(draw.uniform(0.4, 1.0, (4, 5)))
    labels = np.where(np.arange(5) >= 3, 1, -1) * np.ones((4, 1), dtype=int)
    single = np.exp(log_chances[:, 3:].sum(axis=1))
    sampled = (draw.random((20_000, 6, 4)) < single).any(axis=1).mean(axis=0)
    np.testing.assert_allclose(texts.extraction_chance(log_chances, labels, 6), sampled, atol=0.015)
    certain, never = np.zeros((1, 5)), np.full((1, 5), -1e4)
    assert texts.extraction_chance(certain, labels[:1], 3).tolist() == [1.0]
    assert texts.extraction_chance(never, labels[:1], 3).tolist() == [0.0]
    assert texts.extraction_chance(log_chances, np.full((4, 5), -1), 9).tolist() == [0.0] * 4
    tiny = np.full((1, 5), -20.0)
    assert 0 < texts.extraction_chance(tiny, labels[:1], 10)[0] < 1e-15


@pytest.mark.parametrize("shape", [-3.0, 0.0, 2.0])
def test_an_extrapolated_exposure_is_that_of_the_law_the_losses_follow(shape: float) -> None:
    draws = np.random.default_rng(1)
    directions = draws.standard_normal((2, 20_000, 3))
    delta = shape / math.hypot(1, shape)
    losses = 40 + 5 * (delta * np.abs(directions[0]) + math.sqrt(1 - delta**2) * directions[1])
    secret_losses = np.array([40.0, 35.0, 30.0])
    exact = -np.log2(skewnorm.cdf(secret_losses, shape, loc=40, scale=5))
    np.testing.assert_allclose(texts.extrapolated_exposure(secret_losses, losses), np.minimum(exact, 50), rtol=0.12, atol=0.05)


def test_what_was_never_trained_on_has_the_null_s_extrapolated_exposure() -> None:
    draws = np.random.default_rng(2)
    bits = texts.extrapolated_exposure(draws.normal(30, 4, 4000), draws.normal(30, 4, (256, 4000)))
    assert bits.mean() == pytest.approx(1 / math.log(2), abs=0.08)


def test_an_extrapolated_exposure_goes_beyond_the_sample_and_ends() -> None:
    losses = np.random.default_rng(3).normal(30, 4, (64, 1))
    assert 6 < texts.extrapolated_exposure(np.array([14.0]), losses)[0] < 30
    assert texts.extrapolated_exposure(np.array([-400.0]), losses).tolist() == [texts.MOST_BITS]
    flat = texts.extrapolated_exposure(np.array([1.0, 2.0, 3.0]), np.full((64, 3), 2.0))
    assert flat.tolist() == [texts.MOST_BITS, 0.0, 0.0]

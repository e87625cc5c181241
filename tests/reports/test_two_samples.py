"""`audit diff` names what changed by more than chance, and of unchanged figures no more than it promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from reports.two_samples import LEVEL, Measured, _student_tail, holm, means_p_value, p_value

Z = 1.959964


def wilson(hits: int, size: int) -> Measured:
    """A rate with its Wilson interval."""
    rate, square = hits / size, Z * Z / size
    middle, half = rate + square / 2, Z * math.sqrt(rate * (1 - rate) / size + square / (4 * size))
    return Measured(value=rate, lower=(middle - half) / (1 + square), upper=(middle + half) / (1 + square), confidence=0.95)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("sizes", [(200, 200), (100, 2000)])
def test_of_unchanged_rates_no_more_are_named_than_promised(rate: float, sizes: tuple[int, int]) -> None:
    stream = np.random.default_rng(7)
    draws = [stream.binomial(size, rate, 2000) for size in sizes]
    named = [p_value(wilson(int(a), sizes[0]), wilson(int(b), sizes[1])) <= LEVEL for a, b in zip(*draws, strict=True)]
    assert np.mean(named) <= LEVEL + 4 * math.sqrt(LEVEL * (1 - LEVEL) / 2000)


def test_a_rate_that_doubles_is_named_though_the_intervals_meet() -> None:
    old, new = wilson(50, 500), wilson(75, 500)
    assert new.lower < old.upper and p_value(old, new) < 0.01 and p_value(new, old) == 1.0


def test_many_unchanged_figures_name_any_as_seldom_as_one() -> None:
    stream = np.random.default_rng(11)
    alarms = [min(holm(list(stream.uniform(size=24)))) <= LEVEL for _ in range(2000)]
    assert np.mean(alarms) <= LEVEL + 4 * math.sqrt(LEVEL * (1 - LEVEL) / 2000)


@pytest.mark.parametrize("models", [4, 6, 16])
def test_of_unchanged_means_no_more_are_named_than_promised(models: int) -> None:
    stream = np.random.default_rng(13)
    samples = stream.normal(0.9, 0.01, (2000, 2, models))
    means, spreads = samples.mean(axis=2), samples.std(axis=2, ddof=1)
    named = [
        means_p_value((a, b), (s, t), (models, models)) <= LEVEL
        for (a, b), (s, t) in zip(means.tolist(), spreads.tolist(), strict=True)
    ]
    assert np.mean(named) <= LEVEL + 4 * math.sqrt(LEVEL * (1 - LEVEL) / 2000)


@pytest.mark.slow
@pytest.mark.parametrize("figures", [5, 20])
def test_a_side_with_much_steadier_models_names_no_more_than_promised(figures: int) -> None:
    """Four models a side, one side a hundred times steadier: the error has 3 degrees of freedom, and Holm asks for its tail."""
    stream, repetitions = np.random.default_rng(17), 3000
    deviations = np.array([1.0, 0.01])
    samples = 0.9 + 0.01 * deviations[:, None] * stream.normal(size=(repetitions, figures, 2, 4))
    means, spreads = samples.mean(axis=3), samples.std(axis=3, ddof=1)
    named = [
        min(holm([means_p_value(tuple(a), tuple(b), (4, 4)) for a, b in zip(mean, spread, strict=True)])) <= LEVEL
        for mean, spread in zip(means.tolist(), spreads.tolist(), strict=True)
    ]
    assert np.mean(named) <= LEVEL + 4 * math.sqrt(LEVEL * (1 - LEVEL) / repetitions)
    assert np.mean(named) > LEVEL / 2, "no more careful than it has to be"


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 15, 200])
def test_the_tail_of_students_t_is_that_of_scipy(freedom: int) -> None:
    for statistic in (0.0, 0.5, 2.0, 9.0):
        assert _student_tail(statistic, freedom) == pytest.approx(2 * stats.t.sf(statistic, freedom), abs=1e-12)


def test_figures_without_any_spread_and_equal_figures() -> None:
    point = Measured(value=0.5, lower=0.5, upper=0.5, confidence=0.95)
    assert p_value(point, point) == 0.5
    assert p_value(point, Measured(value=0.6, lower=0.6, upper=0.6, confidence=0.95)) == 0.0
    assert means_p_value((0.5, 0.6), (0.0, 0.0), (8, 8)) == 0.0 and means_p_value((0.5, 0.5), (0.1, 0.1), (8, 8)) == 1.0
    assert holm([]) == []


def test_means_are_judged_by_the_freedom_of_the_smaller_side() -> None:
    statistic = 0.3 / math.hypot(0.1 / math.sqrt(4), 0.4 / math.sqrt(40))
    assert means_p_value((1.0, 1.3), (0.1, 0.4), (4, 40)) == pytest.approx(2 * stats.t.sf(statistic, 3))
    assert means_p_value((1.0, 9.0), (0.1, 0.1), (3, 40)) == 1.0

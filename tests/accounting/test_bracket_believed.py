"""Brackets hold if noise is tiny and rates are small, and one that an independent bound contradicts is not given."""

from __future__ import annotations

import math
import warnings
from functools import partial

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from audit.accounting.accountants import _independent
from audit.accounting.accountants.reference import Reference
from audit.core.adjacency import Adjacency
from audit.core.events import Composed, Event, Gaussian, Laplace, RandomizedResponse, Repeated, dp_sgd
from audit.stats.curves import composition, discretise, pld
from audit.stats.curves.loss_pairs import LossPair, subsampled_gaussian

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def laplace(scale: float, count: int) -> Event:
    return Repeated(mechanism=Laplace(noise_multiplier=scale), count=count)


def training(noise: float, rate: float, steps: int) -> Event:
    return dp_sgd(noise_multiplier=noise, clip_norm=1.0, sample_rate=rate, steps=steps)


def rare_normals(noise: float, rate: float, steps: int, delta: float) -> float:
    """Epsilon if the release shows with certainty that a step sampled the record: a binomial mixture of normal losses."""
    retained = np.arange(1, steps + 1)
    weights = stats.binom.pmf(retained, steps, rate)
    mean = retained * (1 / (2 * noise**2) + math.log(rate)) + (steps - retained) * math.log1p(-rate)
    spread = np.sqrt(retained) / noise

    def excess(epsilon: float) -> float:
        where = (mean - epsilon) / spread
        falling = np.exp(np.minimum(epsilon - mean + spread**2 / 2 + stats.norm.logcdf(where - spread), 0.0))
        return float(weights @ (stats.norm.cdf(where) - falling)) - delta

    return float(brentq(excess, 1.0, 1e9, rtol=1e-12))


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 10])
@pytest.mark.parametrize("scale", [0.05, 0.002, 0.001, 1e-4, 1e-5, 1e-7])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_laplace_with_tiny_noise(scale: float, count: int, delta: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        low, high = Reference().bracket(laplace(scale, count), delta=delta, adjacency=ADD)
    every_output_above = count / scale + count * math.log(2) + math.log(max(2.0**-count - delta, 1e-300))
    assert every_output_above * (1 - 1e-9) <= high <= count / scale * (1 + 1e-9)
    assert (1 - 2e-4) * high <= low <= high


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta"),
    [(0.05, 0.01, 100, 1e-5), (0.06, 0.1, 20, 1e-6), (0.03, 0.01, 10, 1e-5), (0.04, 0.01, 100, 1e-5), (0.1, 0.05, 100, 1e-5)],
)
def test_training_with_tiny_noise(noise: float, rate: float, steps: int, delta: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        low, high = Reference().bracket(training(noise, rate, steps), delta=delta, adjacency=ADD)
    assert low <= rare_normals(noise, rate, steps, delta) <= high and high - low <= 5e-4 * high


@pytest.mark.parametrize(
    ("event", "delta", "truth"),
    [(training(0.5, 1e-7, 1), 1e-12, 0.0021941023200), (training(0.5, 1e-7, 1), 1e-9, 4.01571411524e-5)],
)
def test_one_step_at_a_tiny_rate(event: Event, delta: float, truth: float) -> None:
    low, high = Reference().bracket(event, delta=delta, adjacency=ADD)
    assert low <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= high and high - low <= 1e-8 * high


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e-5, 1e-6, 1e-7, 1e-8])
def test_tiny_rates_have_two_ends(rate: float) -> None:
    low, high = Reference().bracket(training(0.8, rate, 10_000), delta=1e-7, adjacency=ADD)
    assert 0 < low <= high <= 1.03 * low


@pytest.mark.slow
@pytest.mark.parametrize("count_of_events", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_random_events_of_little_noise_are_between_independent_bounds(count_of_events: int) -> None:
    rng = np.random.Generator(np.random.PCG64(11))
    for _ in range(count_of_events):
        noise, delta = 10.0 ** rng.uniform(-2.5, -0.5), 10.0 ** rng.uniform(-12, -3)
        count = int(10 ** rng.uniform(0, 2))
        event = laplace(noise, count) if rng.random() < 0.5 else training(noise, 10.0 ** rng.uniform(-3, -0.3), count)
        (low, high), doubt = Reference(tolerance=1e-2).explain(event, delta=delta, adjacency=ADD)
        assert not doubt and math.isfinite(high), event
        assert _independent.lower(event, delta, ADD) <= high * (1 + 1e-6), event
        assert low <= _independent.upper(event, delta, ADD) * (1 + 1e-6) and high - low <= 0.05 * high + 1e-3, event


KNOWN: list[tuple[Event, Adjacency, float]] = [
    (Gaussian(noise_multiplier=1.0), ADD, 4.377178),
    (Laplace(noise_multiplier=1.0), ADD, 0.99998),
    (Repeated(mechanism=RandomizedResponse(noise_parameter=0.5, buckets=2), count=100), REPLACE, 92.1),
    (Composed(parts=(Gaussian(noise_multiplier=0.5), Laplace(noise_multiplier=9.0))), ADD, 10.9),
]


@pytest.mark.parametrize(("event", "adjacency", "truth"), KNOWN, ids=lambda value: type(value).__name__)
def test_independent_bounds_lie_on_their_sides_and_are_not_idle(event: Event, adjacency: Adjacency, truth: float) -> None:
    low, high = Reference().bracket(event, delta=1e-5, adjacency=adjacency)
    floor, cap = _independent.lower(event, 1e-5, adjacency), _independent.upper(event, 1e-5, adjacency)
    assert 0.5 * truth < floor <= high and low <= cap < 1.5 * truth


def test_a_bracket_that_cannot_be_right_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    event = laplace(0.001, 10)
    for lie in ((0.0, 0.0), (1e7, 1e7), (3.0, 2.0), (math.nan, 1.0)):
        monkeypatch.setattr(pld, "epsilon_bracket", lambda *_, lie=lie, **__: lie)
        ends, doubt = Reference().explain(event, delta=1e-6, adjacency=ADD)
        assert ends == (0.0, math.inf) and "no bracket here" in doubt
        claim = Reference().claim(event, delta=1e-6, adjacency=ADD)
        assert claim.epsilon == math.inf and "no bracket here" in claim.note
        Reference._explain.cache_clear()


def test_lost_mass_is_an_error_and_not_a_bracket() -> None:
    full = subsampled_gaussian(1.0, 0.1, "remove")
    halved = LossPair(
        loss=full.loss,
        position=full.position,
        log_density=lambda x: full.log_density(x) - math.log(2),
        spans=full.spans,
        bend=full.bend,
        outside=full.outside,
        spread=full.spread,
    )
    for build in (discretise.upper, discretise.lower):
        with pytest.raises(ArithmeticError, match=r"add up to 0\.5"):
            build(halved, 0.01)


def test_ends_that_cross_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "epsilon_at", lambda parts, delta, side: 2.0 - side)
    pair = partial(lambda way, tail: subsampled_gaussian(1.0, 0.1, way, log_tail=tail))
    with pytest.raises(ArithmeticError, match="crossed"):
        pld.epsilon_bracket([(pair, 1)], 1e-5, directions=("remove",))

"""Brackets of groups against mechanisms with a law in closed form under k records that change together."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize, stats

from audit.accounting.subjects import bracket
from audit.api import accountant
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError
from audit.core.events import Event, Gaussian, Grouped, Laplace, PoissonSampled, RandomizedResponse, Repeated, dp_sgd
from audit.stats.curves import pld

Curve = Callable[[float], float]


def gaussian(mu: float) -> Curve:
    """Balle and Wang 2018: delta of two normal laws that are mu standard deviations apart."""
    return lambda e: float(stats.norm.cdf(mu / 2 - e / mu) - math.exp(e + stats.norm.logcdf(-mu / 2 - e / mu)))


def laplace(distance: float) -> Curve:
    return lambda e: max(0.0, 1 - math.exp((e - distance) / 2))


def responses(keep: float, size: int) -> Curve:
    counts = np.arange(size + 1)
    item, two = stats.binom.pmf(counts, size, keep), stats.binom.pmf(counts, size, 1 - keep)
    return lambda e: float(np.maximum(item - math.exp(e) * two, 0).sum())


def sampled(noise: float, rate: float, size: int) -> Curve:
    """Each of the group's records is in the batch by a coin: a binomial mixture of normal laws against one, both ways."""
    places = np.linspace(-12 * noise, size + 12 * noise, 200_001)
    weights = stats.binom.pmf(np.arange(size + 1), size, rate)
    item = sum(weight * stats.norm.pdf(places, shift, noise) for shift, weight in enumerate(weights))
    two, width = stats.norm.pdf(places, 0, noise), places[1] - places[0]
    return lambda e: float(max(np.maximum(a - math.exp(e) * b, 0).sum() for a, b in ((item, two), (two, item))) * width)


def noisy(noise: float) -> Gaussian:
    return Gaussian(noise_multiplier=noise, clip_norm=1.0)


CASES: list[tuple[Event, int, Curve, Adjacency]] = [
    (noisy(2.0), 3, gaussian(1.5), Adjacency.ADD_REMOVE),
    (Repeated(mechanism=noisy(8.0), count=20), 7, gaussian(7 * 20**0.5 / 8), Adjacency.ADD_REMOVE),
    (Laplace(noise_multiplier=3.0), 5, laplace(5 / 3), Adjacency.ADD_REMOVE),
    (RandomizedResponse(noise_parameter=0.6, buckets=2), 4, responses(0.7, 4), Adjacency.REPLACE_ONE),
    (PoissonSampled(mechanism=noisy(0.7), sample_rate=0.3), 3, sampled(0.7, 0.3, 3), Adjacency.ADD_REMOVE),
    (PoissonSampled(mechanism=noisy(2.0), sample_rate=0.01), 7, sampled(2.0, 0.01, 7), Adjacency.ADD_REMOVE),
]


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
@pytest.mark.parametrize(("event", "size", "curve", "adjacency"), CASES, ids=lambda value: type(value).__name__)
def test_the_bracket_of_a_group_holds_its_exact_epsilon(
    event: Event, size: int, curve: Curve, adjacency: Adjacency, delta: float
) -> None:
    exact = 0.0 if curve(0.0) <= delta else optimize.brentq(lambda e: curve(e) - delta, 0.0, 200.0, xtol=1e-10)
    (lower, upper), doubt = bracket(Grouped(mechanism=event, size=size), delta, adjacency)
    assert lower - 1e-6 <= exact <= upper + 1e-6, (lower, exact, upper, doubt)


def test_a_group_beyond_all_data_sets_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"records of a group; expected at most 1,000,000"):
        Grouped(mechanism=noisy(1.0), size=10**30)


def test_the_bracket_beside_a_claim_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, bracket_of = list[int](), pld.epsilon_bracket
    monkeypatch.setattr(pld, "epsilon_bracket", lambda *parts, **options: (calls.append(1), bracket_of(*parts, **options))[1])
    event = dp_sgd(noise_multiplier=1.01, clip_norm=1.0, sample_rate=0.01, steps=100)
    costs = accountant.epsilon(event, delta=1e-5, group_size=10, accountants=["reference"])
    assert costs.rows[0].epsilon == costs.upper and len(calls) == 1


@pytest.mark.slow
def test_the_bracket_of_a_hundred_records_is_that_of_their_loss_one_by_one() -> None:
    """Ends that `scipy.special.logsumexp` gave, in minutes."""
    event = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=1000)
    (low, high), doubt = bracket(Grouped(mechanism=event, size=100), 1e-5, Adjacency.ADD_REMOVE)
    assert (low, high, doubt) == (pytest.approx(911.7859565116588), pytest.approx(911.9027364420381), "")

"""The oracle against what is known of each mechanism, its refusals, and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.accounting.accountants.reference import Reference
from audit.accounting.event_expressions import parse
from audit.api import accountant
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_forms import decode
from audit.core.events import (
    ApproximateDp,
    Composed,
    Concentrated,
    Event,
    Exponential,
    Gaussian,
    Grouped,
    Laplace,
    Parallel,
    PoissonSampled,
    RandomizedResponse,
    Repeated,
    SampledWithoutReplacement,
    dp_sgd,
    sgd,
)
from audit.stats.curves.tradeoff import gdp_epsilon

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def bracket(event: Event, delta: float = 1e-6, adjacency: Adjacency = ADD) -> tuple[float, float]:
    low, high = Reference().bracket(event, delta=delta, adjacency=adjacency)
    assert 0 <= low <= high
    return low, high


def gaussian(noise: float) -> Gaussian:
    return Gaussian(noise_multiplier=noise)


KNOWN: list[tuple[Event, float, Adjacency, float]] = [
    (Repeated(mechanism=gaussian(2.0), count=10), 1e-6, REPLACE, gdp_epsilon(math.sqrt(10), 1e-6)),
    (Composed(parts=(gaussian(3.0), gaussian(4.0))), 1e-5, ADD, gdp_epsilon(1 / 2.4, 1e-5)),
    (PoissonSampled(mechanism=gaussian(2.0), sample_rate=1.0), 1e-5, ADD, gdp_epsilon(0.5, 1e-5)),
    (Grouped(mechanism=gaussian(4.0), size=4), 1e-5, ADD, gdp_epsilon(1.0, 1e-5)),
    (Parallel(parts=(gaussian(1.0), gaussian(2.0))), 1e-5, ADD, gdp_epsilon(1.0, 1e-5)),
    (RandomizedResponse(noise_parameter=0.5, buckets=2), 1e-12, REPLACE, math.log(3)),
    (Repeated(mechanism=RandomizedResponse(noise_parameter=0.5, buckets=2), count=100), 1e-6, REPLACE, 94.28986),
    (Laplace(noise_multiplier=1.0), 1e-5, ADD, 1 + 2 * math.log1p(-1e-5)),
    (Laplace(noise_multiplier=2.0), 1e-5, REPLACE, 1 + 2 * math.log1p(-1e-5)),
    (ApproximateDp(epsilon=0.5, delta=1e-7), 1e-6, ADD, 0.5 + math.log1p(-9e-7 * (1 + math.exp(-0.5)))),
    (SampledWithoutReplacement(mechanism=gaussian(2.0), population=9, batch=9), 1e-6, REPLACE, gdp_epsilon(1.0, 1e-6)),
]  # fmt: skip


@pytest.mark.parametrize(("event", "delta", "adjacency", "true"), KNOWN, ids=lambda value: type(value).__name__)
def test_known_values_are_inside(event: Event, delta: float, adjacency: Adjacency, true: float) -> None:
    low, high = bracket(event, delta, adjacency)
    assert low <= true * (1 + 2e-6) and true * (1 - 2e-6) <= high
    assert high - low <= 2e-3 * high + 1e-9


@pytest.mark.parametrize("event", [sgd(sample_rate=0.1, steps=5), gaussian(0.0), Laplace(noise_multiplier=0.0)])
def test_nothing_hides_the_record(event: Event) -> None:
    assert bracket(event) == (math.inf, math.inf)
    claim = Reference().claim(event, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    assert claim.note == "the true value is infinite"


def test_a_release_that_rarely_shows_a_record_is_paid_from_delta() -> None:
    revealing = dp_sgd(noise_multiplier=0.0, clip_norm=1.0, sample_rate=1e-8, steps=10)
    low, high = bracket(revealing, 1e-6)
    assert low == 0 and high < 1e-6
    assert bracket(revealing, 1e-8) == (math.inf, math.inf)


@pytest.mark.parametrize(
    "event",
    [Composed(parts=()), Repeated(mechanism=gaussian(1.0), count=0), Parallel(parts=()), sgd(sample_rate=0.0, steps=3)],
)
def test_nothing_is_free_of_charge_but_nothing(event: Event) -> None:
    assert bracket(event) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("event", "adjacency"),
    [
        (RandomizedResponse(noise_parameter=0.5, buckets=2), ADD),
        (PoissonSampled(mechanism=Laplace(noise_multiplier=1.0), sample_rate=0.5), REPLACE),
        (SampledWithoutReplacement(mechanism=gaussian(1.0), population=10, batch=5), Adjacency.ZERO_OUT),
        (Parallel(parts=(gaussian(1.0), gaussian(2.0))), REPLACE),
        (PoissonSampled(mechanism=Exponential(epsilon=1.0), sample_rate=0.5), ADD),
        (Grouped(mechanism=dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.5, steps=2), size=2), REPLACE),
        (Grouped(mechanism=Parallel(parts=(gaussian(1.0), gaussian(2.0))), size=2), ADD),
        (Repeated(mechanism=Parallel(parts=(gaussian(1.0), gaussian(2.0))), count=1000), ADD),
        (Composed(parts=(Concentrated(rho=0.1), PoissonSampled(mechanism=Concentrated(rho=0.1), sample_rate=0.5))), ADD),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_proven_is_refused(event: Event, adjacency: Adjacency) -> None:
    with pytest.raises(UnsupportedMechanism):
        bracket(event, adjacency=adjacency)


def test_values_that_slipped_past_validation_are_refused() -> None:
    event = decode({"kind": "Gaussian", "noise_multiplier": "nan"}, skip_validation=True)
    with pytest.raises(ConfigError, match="nan"):
        bracket(event)


@pytest.mark.slow
def test_exponential_and_zcdp_lie_between_what_they_contain_and_what_contains_them() -> None:
    low, high = bracket(Repeated(mechanism=Exponential(epsilon=1.0), count=100), 1e-6, REPLACE)
    assert 34.8 < low < high < 34.9  # zCDP says 37.4, one fixed pair of outcomes 34.75
    pure = bracket(Repeated(mechanism=ApproximateDp(epsilon=1.0), count=100), 1e-6, REPLACE)
    assert high < pure[0]
    low, high = bracket(Concentrated(rho=0.5), 1e-5)
    assert gdp_epsilon(1.0, 1e-5) < low < high == pytest.approx(4.7284, rel=1e-4) and high - low < 3e-3 * high


@pytest.mark.slow
def test_batches_of_fixed_size_cost_more_than_poisson_ones() -> None:
    fixed = Repeated(mechanism=SampledWithoutReplacement(mechanism=gaussian(1.0), population=1000, batch=10), count=100)
    poisson = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=100)
    low, high = bracket(fixed, 1e-5, REPLACE)
    assert low > bracket(poisson, 1e-5, REPLACE)[1]
    assert high <= 1.3 * low


@pytest.mark.slow
@given(
    noise=st.floats(0.6, 5),
    rate=st.floats(0.005, 0.5),
    steps=st.integers(1, 300),
    log_delta=st.floats(-25, -4),
    more=st.integers(1, 50),
)
@settings(max_examples=15, deadline=None)
def test_more_steps_never_cost_less(noise: float, rate: float, steps: int, log_delta: float, more: int) -> None:
    def cost(count: int) -> tuple[float, float]:
        event = dp_sgd(noise_multiplier=noise, clip_norm=1.0, sample_rate=rate, steps=count)
        return Reference(tolerance=2e-3).bracket(event, delta=math.exp(log_delta), adjacency=ADD)

    assert cost(steps)[0] <= cost(steps + more)[1]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_delta_by_simulation_on_random_cases(seed: int) -> None:
    rng = np.random.Generator(np.random.PCG64(seed))
    noise, rate, steps = float(rng.uniform(0.7, 3)), float(rng.uniform(0.05, 0.6)), int(rng.integers(2, 40))
    event = dp_sgd(noise_multiplier=noise, clip_norm=1.0, sample_rate=rate, steps=steps)
    low, high = bracket(event, 0.05)
    trials = 60_000 if steps < 20 else 30_000
    outputs = rng.normal(0, noise, (trials, steps)) + (rng.random((trials, steps)) < rate)
    losses = np.log1p(rate * np.expm1((2 * outputs - 1) / (2 * noise**2))).sum(axis=1)
    gains = [np.maximum(0.0, -np.expm1(end - losses)) for end in (low, high)]
    error = 5 * float(gains[0].std()) / math.sqrt(trials)
    assert float(gains[0].mean()) >= 0.05 - error and float(gains[1].mean()) <= 0.05 + error


def test_the_claim_is_the_upper_end_with_the_family_of_the_mechanism() -> None:
    event = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=1000)
    claim = Reference().claim(event, delta=1e-5, adjacency=ADD)
    assert claim.epsilon == pytest.approx(1.8283, rel=1e-4) and claim.family == "dp_sgd" and "1.828" in claim.note
    assert Reference().claim(gaussian(1.0), delta=1e-5, adjacency=ADD).family is None


def test_pure_mechanisms_have_an_epsilon_at_delta_0() -> None:
    costs = {
        ("10 * Laplace(2.0)", ADD): 5.0,
        ("3 * PoissonSampled(Laplace(1.0), 0.1)", ADD): 3 * math.log1p(0.1 * math.expm1(1)),
        ("4 * RandomizedResponse(0.5, 2)", REPLACE): 4 * math.log(3),
        ("Gaussian(1.0)", ADD): math.inf,
        ("0 * Gaussian(1.0)", ADD): 0.0,
    }
    for (text, adjacency), epsilon in costs.items():
        row = accountant.epsilon(text, delta=0.0, adjacency=adjacency)
        assert row.lower <= epsilon <= row.upper and row.upper == pytest.approx(row.lower)
        assert row.rows[0].epsilon == pytest.approx(epsilon)
    assert "unsupported" in accountant.epsilon("Laplace(1.0)", delta=0.0, accountants=["rdp"]).rows[0].note
    with pytest.raises(UnsupportedMechanism, match="at delta 0"):
        Reference().claim(parse("PoissonSampled(Laplace(1.0), 0.1)"), delta=0.0, adjacency=REPLACE)


@pytest.mark.slow
def test_groups_are_pushed_down_to_mechanisms() -> None:
    training = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.05, steps=50)
    item, three = bracket(training), bracket(Grouped(mechanism=training, size=3))
    assert item[1] < three[0] and three[1] - three[0] < 2e-3 * three[1]
    nested = Grouped(mechanism=Grouped(mechanism=gaussian(6.0), size=2), size=3)
    assert bracket(nested) == bracket(gaussian(1.0))
    both = Composed(parts=(gaussian(5.0), Laplace(noise_multiplier=10.0)))
    halved = Composed(parts=(gaussian(2.5), Laplace(noise_multiplier=5.0)))
    assert bracket(Grouped(mechanism=both, size=2)) == bracket(halved)
    response = RandomizedResponse(noise_parameter=0.5, buckets=2)
    four = bracket(Grouped(mechanism=response, size=4), 1e-6, REPLACE)
    assert four == bracket(Repeated(mechanism=response, count=4), 1e-6, REPLACE)


def test_a_group_of_a_pure_mechanism_costs_less_than_its_epsilon_times_the_size() -> None:
    """At delta 0 it is the product; above it the trade-off curve applied again and again leaves less."""
    _, high = bracket(Grouped(mechanism=ApproximateDp(epsilon=0.5), size=4), 1e-2)
    assert high < 2.0 * (1 - 1e-3) and high < bracket(ApproximateDp(epsilon=2.0), 1e-2)[0]
    assert bracket(Grouped(mechanism=ApproximateDp(epsilon=0.5), size=4), 1e-12)[1] == pytest.approx(2.0, rel=1e-9)


@pytest.mark.slow
def test_parallel_parts_inside_a_sequence_cost_their_worst_way() -> None:
    dear, cheap, after = gaussian(1.0), Laplace(noise_multiplier=20.0), gaussian(3.0)
    inside = Composed(parts=(Parallel(parts=(dear, cheap)), after))
    assert bracket(inside) == bracket(Composed(parts=(dear, after)))
    twice = Repeated(mechanism=Parallel(parts=(dear, cheap)), count=2)
    assert bracket(twice)[0] == pytest.approx(bracket(Repeated(mechanism=dear, count=2))[0], rel=1e-9)


@pytest.mark.slow
def test_mixtures_with_mechanisms_that_have_no_single_pair() -> None:
    training = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=500)
    alone = bracket(training)
    for extra in (Repeated(mechanism=Exponential(epsilon=0.1), count=5), Concentrated(rho=0.02)):
        low, high = bracket(Composed(parts=(extra, training)))
        assert alone[0] < low < high < 1.2 * low
    gaussians = Composed(parts=(Concentrated(rho=0.125), gaussian(2.0)))
    assert bracket(gaussians, 1e-5)[0] == pytest.approx(gdp_epsilon(math.sqrt(0.5), 1e-5), rel=1e-9)
    listed = Composed(parts=(Exponential(epsilon=0.5),) * 20)
    assert bracket(listed) == bracket(Repeated(mechanism=Exponential(epsilon=0.5), count=20))

"""Brackets of events that need no composition of pairs, or have no single dominating pair."""

import math

import numpy as np
from numpy.typing import NDArray

from audit.accounting.accountants._amplified import tuned_divergences
from audit.accounting.accountants._pairs import gaussians
from audit.core import events
from audit.core.adjacency import Adjacency
from audit.core.deployed_procedures import Tuned
from audit.core.errors import UnsupportedMechanism
from audit.stats.curves import bounded_range, fixed_batches, pld, renyi, tradeoff
from audit.stats.curves.concentrated import sampled_once_epsilon, zcdp_epsilon_floor

_ROUNDING = 1e-9  # relative allowance on closed forms
Bracket = tuple[float, float]


def exact_gaussian(noises: list[float], delta: float, adjacency: Adjacency) -> Bracket:
    """Unsampled Gaussian releases composed: the Gaussian trade-off curve, up to rounding."""
    if not noises:
        return 0.0, 0.0
    if min(noises) == 0:
        return math.inf, math.inf
    mu = math.sqrt(sum(noise**-2 for noise in noises)) * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    epsilon = tradeoff.gdp_epsilon(mu, float(delta))
    return epsilon * (1 - _ROUNDING), epsilon * (1 + _ROUNDING)


def participation_chance(event: events.Event) -> float:
    """Return a bound on the chance that any release sees the record: if it is at most delta, epsilon is 0."""
    match event:
        case events.PoissonSampled(mechanism=inner, sample_rate=rate):
            return float(rate) * min(1.0, participation_chance(inner))
        case events.SampledWithoutReplacement(mechanism=inner, population=population, batch=batch):
            return batch / population * min(1.0, participation_chance(inner))
        case events.Repeated(mechanism=inner, count=count):
            return count * participation_chance(inner) if count else 0.0
        case events.Composed(parts=parts):
            return math.fsum(participation_chance(part) for part in parts)
    return 1.0


def without_replacement(event: events.Event, delta: float, adjacency: Adjacency, tolerance: float) -> Bracket | None:
    """Bracket of releases on batches of fixed size, None for other events.

    Args:
        tolerance: relative width at which refining stops, if there is time for it.
    """
    inner, count = _equal_parts(event)
    if not isinstance(inner, events.SampledWithoutReplacement):
        return None
    noises = gaussians(inner.mechanism)
    if adjacency is not Adjacency.REPLACE_ONE or noises is None or min(noises, default=1.0) == 0:
        raise UnsupportedMechanism(
            f"{inner} under {adjacency}: proven here for Gaussian releases (noise above 0) under replace_one only"
        )
    rate = inner.batch / inner.population
    if rate == 0 or count == 0 or not noises:
        return 0.0, 0.0
    noise = sum(noise**-2 for noise in noises) ** -0.5
    if rate == 1:
        return exact_gaussian([noise / math.sqrt(count)], delta, adjacency)
    ends = pld.without_replacement_bracket(noise, rate, count, float(delta))
    return fixed_batches.closer(ends, noise, rate, count, float(delta), tolerance=tolerance)


def one_sample_epsilon(event: events.Event, delta: float, adjacency: Adjacency) -> Bracket | None:
    """Bracket of a single Poisson-sampled Gaussian release under add/remove, None for other events.

    What both hypotheses share is taken out of either, which leaves a Gaussian release at another delta or epsilon.

    References: Balle, Barthe, Gaboardi 2018, arXiv 1807.01647 (advanced joint convexity).
    """
    inner, count = _equal_parts(event)
    if count != 1 or adjacency is Adjacency.REPLACE_ONE or not isinstance(inner, events.PoissonSampled):
        return None
    noises = gaussians(inner.mechanism)
    rate = float(inner.sample_rate)
    if not noises or min(noises) == 0 or not 0 < rate < 1:
        return None
    mu = math.sqrt(sum(noise**-2 for noise in noises))
    epsilon = sampled_once_epsilon(mu, rate, float(delta))
    return epsilon * (1 - _ROUNDING), epsilon * (1 + _ROUNDING)


def concentrated_epsilon(event: events.Event, delta: float, adjacency: Adjacency) -> Bracket | None:
    """Bracket of zCDP and Gaussian mechanisms composed: every such one above, the Gaussian one below."""
    rho = _total_rho(event, adjacency)
    if rho is None:
        return None
    if math.isinf(rho):
        return math.inf, math.inf
    low = tradeoff.gdp_epsilon(math.sqrt(2 * rho), float(delta)) * (1 - _ROUNDING)
    if isinstance(event, events.Concentrated) and rho > 0:  # a single one may be worse than a Gaussian
        low = max(low, zcdp_epsilon_floor(rho, float(delta)) * (1 - _ROUNDING))
    return low, renyi.zcdp_epsilon(rho, float(delta))


def _total_rho(event: events.Event, adjacency: Adjacency) -> float | None:
    """Sum of the zCDP parameters of an event made of zCDP mechanisms and plain Gaussian ones, else None."""
    match event:
        case events.Concentrated(rho=rho):
            return float(rho)
        case events.Gaussian(noise_multiplier=noise):
            change = 2 if adjacency is Adjacency.REPLACE_ONE else 1
            return change**2 / (2 * float(noise) ** 2) if noise > 0 else math.inf
        case events.Repeated(mechanism=inner, count=count):
            total = _total_rho(inner, adjacency)
            return None if total is None else total * count if count else 0.0
        case events.Composed(parts=parts) if parts:
            rhos = [_total_rho(part, adjacency) for part in parts]
            return None if any(rho is None for rho in rhos) else sum(rho for rho in rhos if rho is not None)
    return None


def _equal_parts(event: events.Event) -> tuple[events.Event, int]:
    """The one mechanism that an event repeats, and how often; the event itself if its parts differ."""
    count, inner = 1, event
    while isinstance(inner, events.Repeated | events.Composed):
        if isinstance(inner, events.Repeated):
            count, inner = count * inner.count, inner.mechanism
        elif len(set(inner.parts)) == 1:
            count, inner = count * len(inner.parts), inner.parts[0]
        else:
            return event, 1
    return inner, count


def exponential(event: events.Event, delta: float) -> Bracket | None:
    """Bracket of equal exponential mechanisms, adaptively composed; None for other events."""
    inner, count = _equal_parts(event)
    if not isinstance(inner, events.Exponential):
        return None
    epsilon = float(inner.epsilon)
    if epsilon == 0 or count == 0:
        return 0.0, 0.0
    reach = min(count * epsilon, renyi.zcdp_epsilon(count * epsilon**2 / 8, float(delta)))
    if count > bounded_range.MOST_STEPS:
        return bounded_range.fixed_epsilon(epsilon, count, float(delta)), reach
    return bounded_range.epsilon_bracket(epsilon, count, float(delta), reach=reach)


def by_divergence(event: events.Event, delta: float, adjacency: Adjacency, orders: tuple[float, ...] = renyi.ORDERS) -> float:
    """An upper end for any mixture with Renyi divergences that add up, infinite if some part has none here."""
    total = divergences(event, adjacency, np.array(orders))
    if total is None:
        return math.inf
    return renyi.epsilon_improved(orders, total.tolist(), float(delta))[0]


def divergences(  # noqa: PLR0911 (one arm a kind)
    event: events.Event, adjacency: Adjacency, orders: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return the Renyi divergence at each order; None if there is no formula."""
    change = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    match event:
        case events.Concentrated(rho=rho):
            return rho * orders
        case events.Exponential(epsilon=epsilon):
            # losses are within an interval of length epsilon: Hoeffding's lemma, twice
            return np.minimum(epsilon**2 / 8 * orders, epsilon)
        case events.ApproximateDp(epsilon=epsilon, delta=0.0):
            # any such mechanism is a post-processing of randomised response (Kairouz, Oh, Viswanath 2015)
            share = 2 / (1 + math.exp(epsilon))  # of randomised response with this epsilon
            return np.array([min(renyi.randomised_response(order, share, 2), epsilon) for order in orders.tolist()])
        case events.Gaussian(noise_multiplier=noise) if noise > 0:
            return orders * change**2 / (2 * noise**2)
        case events.Laplace(noise_multiplier=scale) if scale > 0:
            return np.array([renyi.laplace(order, scale / change) for order in orders.tolist()])
        case events.RandomizedResponse(noise_parameter=parameter, buckets=buckets) if change == 2:
            return np.array([renyi.randomised_response(order, parameter, buckets) for order in orders.tolist()])
        case events.PoissonSampled(mechanism=events.Gaussian(noise_multiplier=noise), sample_rate=rate) if (
            noise > 0 and change == 1
        ):
            return np.array([renyi.subsampled_gaussian(order, noise, rate) for order in orders.tolist()])
        case Tuned(mechanism=inner):
            divergence = divergences(inner, adjacency, orders)
            return None if divergence is None else tuned_divergences(event, orders, divergence)
        case events.Repeated(mechanism=inner, count=count):
            divergence = divergences(inner, adjacency, orders)
            return None if divergence is None else divergence * count
        case events.Composed(parts=parts):
            part_divergences = [divergences(part, adjacency, orders) for part in parts]
            return (
                None
                if any(divergence is None for divergence in part_divergences)
                else sum((divergence for divergence in part_divergences if divergence is not None), 0 * orders)
            )
    return None

"""Dominating pairs of events, step by step: what the reference accountant composes."""

import math
from collections.abc import Sequence, Set
from functools import partial
from typing import Literal

from audit.accounting.accountants import _amplified, _makers
from audit.core import events
from audit.core.adjacency import Adjacency
from audit.core.deployed_events import IntegerNoise, NoisyMax, SparseVector
from audit.core.deployed_procedures import MixtureOfGaussians, ProposeTestRelease, RandomAllocation, Shuffled, Tuned
from audit.core.errors import UnsupportedMechanism
from audit.stats.curves import pld
from audit.stats.curves.tradeoff import gdp_tpr

Leaf = tuple[pld.PairMaker, int]
Side = Literal["exact", "above", "below"]
# kinds that no single pair stands for: each end of their bracket has pairs, or divergences, of its own
TWO_ENDS = frozenset({events.Exponential, events.Concentrated, RandomAllocation, Shuffled, Tuned, ProposeTestRelease})
TWO_EXAMPLES = frozenset({Shuffled, Tuned, ProposeTestRelease})  # kinds whose lower end is the worse of two examples
# of an exponential mechanism's epsilon, that its larger loss may be: one from below is as true as another
SHARES = (0.5, 0.45, 0.55, 0.4, 0.6, 0.3, 0.7, 0.9, 0.99, 0.999, 0.9999, 0.99999)


def shares(parts: Set[type]) -> tuple[float, ...]:
    """Return what to try as `share` of "below", if an event has parts of these kinds; the others have one example."""
    if parts & {NoisyMax, SparseVector}:
        return _makers.SHARES
    return SHARES if events.Exponential in parts else SHARES[: 2 if parts & TWO_EXAMPLES else 1]


def leaves(event: events.Event, count: int, adjacency: Adjacency, side: Side = "exact", share: float = 0.5) -> list[Leaf]:
    """Pairs of one step each with their counts; `UnsupportedMechanism` if no such pair is known.

    Args:
        side: "exact" wants pairs that are attained. Exponential and zCDP mechanisms have no such single pair: "above" gives
            one that dominates every such mechanism, "below" that of one of them.
        share: which exponential mechanism "below" represents.
    """
    match event:
        case events.Repeated(mechanism=inner, count=times):
            return leaves(inner, count * times, adjacency, side, share)
        case events.Composed(parts=parts):
            return [leaf for part in parts for leaf in leaves(part, count, adjacency, side, share)]
    if side == "above":
        makers = _dominating(event, adjacency)
    elif side == "below":
        if isinstance(event, Tuned) and math.isfinite(event.shape) and share == SHARES[0]:
            return leaves(event.mechanism, count, adjacency, side, share)  # all scores are equal: the best is any single run
        makers = _members(event, adjacency, share)
    else:
        makers = None
    return _attained_pair(event, count, adjacency) if makers is None else [(maker, count) for maker in makers]


def _dominating(event: events.Event, adjacency: Adjacency) -> list[pld.PairMaker] | None:
    """Pairs that dominate every mechanism of a class; None if the attained pair is known."""
    match event:
        case events.Exponential(epsilon=epsilon):
            return [partial(_makers.approximate, epsilon, 0.0)]
        case RandomAllocation():
            return [_amplified.allocation_pair(event, adjacency, "above")]
        case Shuffled():
            return _amplified.shuffled_pair(event, adjacency, "above")
        case Tuned():
            return [partial(_makers.approximate, _largest_loss(event, adjacency), 0.0)]
        case ProposeTestRelease():
            limit = _amplified.above_propose_test_release(event)
            return [partial(_makers.approximate, limit.epsilon, limit.delta)]
    return None


def _members(  # noqa: PLR0911 (one arm a kind)
    event: events.Event, adjacency: Adjacency, share: float
) -> list[pld.PairMaker] | None:
    """Pairs of one mechanism of a class; None if the attained pair is known."""
    match event:
        case events.Exponential(epsilon=epsilon) if epsilon > 0:
            return [_makers.two_outcomes(epsilon, share if share < 1 else SHARES[0])]
        case NoisyMax(epsilon=0) | SparseVector(query_epsilon=0) | SparseVector(threshold_epsilon=0):
            return []
        case NoisyMax() | SparseVector():
            return [partial(_makers.two_answers, _makers.chances(event, share))]
        case RandomAllocation():
            return [_amplified.allocation_pair(event, adjacency, "below")]
        case Shuffled():
            return [_example(_amplified.shuffled_pair(event, adjacency, "below"), share)]
        case ProposeTestRelease():
            return [_example(_amplified.below_propose_test_release(event), share)]
        case Tuned():
            return [] if share == SHARES[0] else _several_runs(event, adjacency)
        case events.Concentrated(rho=rho) if rho > 0:
            # rho is of the neighbours as they are, and the Gaussian pair of a replacement moves by two units
            noise = 1 / math.sqrt(2 * rho) * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
            return [partial(_makers.gaussian, noise, 1.0)]
    return None


def _several_runs(event: Tuned, adjacency: Adjacency) -> list[pld.PairMaker]:
    """Return the pair of runs of three scores, of any pure mechanism or of Gaussian releases; none for other runs."""
    inner, noises = event.mechanism, gaussians(event.mechanism)
    if math.isfinite(event.shape) and event.mean <= 1:
        return []
    match inner:
        case events.ApproximateDp(epsilon=epsilon, delta=0.0):
            return [_amplified.tuned_example(event, lambda chance, way: chance * math.exp(way * epsilon), math.exp(epsilon))]
    if not noises or min(noises) == 0:
        return []
    shift = math.sqrt(sum(noise**-2 for noise in noises)) * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    return [_amplified.tuned_example(event, lambda chance, way: gdp_tpr(way * shift, chance), math.inf)]


def _example(makers: Sequence[pld.PairMaker], share: float) -> pld.PairMaker:
    """Return the example that a share represents: the first share for the first, any other for the last."""
    return makers[0 if share == SHARES[0] else -1]


def _largest_loss(event: events.Event, adjacency: Adjacency) -> float:
    loss = _amplified.largest_loss(event, adjacency)
    if math.isinf(loss):
        raise UnsupportedMechanism(f"{event} has no pair from above: its losses have no bound")
    return loss


def _attained_pair(event: events.Event, count: int, adjacency: Adjacency) -> list[Leaf]:  # noqa: PLR0911, PLR0912 (one arm a kind)
    match event:
        case events.NonPrivate():
            return [(partial(_makers.revealing, 1.0), count)]
        case events.PoissonSampled(mechanism=events.NonPrivate(), sample_rate=rate):
            return [(partial(_makers.revealing, rate), count)] if rate > 0 else []
        case events.Gaussian(noise_multiplier=noise):
            return _sampled_pair(noise, 1.0, count, adjacency, partial(_makers.gaussian, noise, 1.0))
        case events.Laplace(noise_multiplier=scale):
            return _sampled_pair(scale, 1.0, count, adjacency, partial(_makers.laplace, scale, 1.0))
        case events.PoissonSampled(mechanism=events.Laplace(noise_multiplier=scale), sample_rate=rate):
            if adjacency is Adjacency.REPLACE_ONE and rate < 1:
                raise UnsupportedMechanism("Poisson-sampled Laplace under replace-one has no proof here; use add_remove")
            return _sampled_pair(scale, rate, count, adjacency, partial(_makers.laplace, scale, rate))
        case events.PoissonSampled(mechanism=inner, sample_rate=rate):
            noise_together = _noise(inner)
            if noise_together is None:
                return []
            return _sampled_pair(noise_together, rate, count, adjacency, partial(_makers.gaussian, noise_together, rate))
        case MixtureOfGaussians():
            if adjacency is Adjacency.REPLACE_ONE:
                raise UnsupportedMechanism("a mixture of Gaussians under replace-one has no proof here; use add_remove")
            return [(partial(_makers.mixture, event), count)] if max(_makers.shares(event)) > 0 else []
        case IntegerNoise():
            return [(_makers.integer_pair(event, adjacency), count)]
        case events.RandomizedResponse(noise_parameter=parameter, buckets=buckets):
            if adjacency is not Adjacency.REPLACE_ONE:
                raise UnsupportedMechanism("randomised response has no data set without the record; use replace_one")
            return [(partial(_makers.response, parameter, buckets), count)] if buckets > 1 else []
        case events.ApproximateDp(epsilon=epsilon, delta=delta):
            return [(partial(_makers.approximate, epsilon, delta), count)]
        case events.Exponential(epsilon=0):
            return []
        case events.Concentrated(rho=0):
            return []
        case events.Grouped(mechanism=inner, size=size):
            return _group_pair(inner, size, count, adjacency)
    raise UnsupportedMechanism(f"{event} inside a composition has no proof here; account for it on its own")


def _group_pair(inner: events.Event, size: int, count: int, adjacency: Adjacency) -> list[Leaf]:
    match inner:
        case events.ApproximateDp(epsilon=epsilon, delta=delta):
            return [(partial(_makers.group_approximate, epsilon, delta, size), count)]
        case events.PoissonSampled(mechanism=mechanism, sample_rate=rate) if adjacency is not Adjacency.REPLACE_ONE:
            noise = _noise(mechanism)
            if noise is None or rate == 0:
                return []
            if noise == 0:
                return [(partial(_makers.revealing, 1 - (1 - rate) ** size), count)]
            return [(partial(_makers.gaussian_group, noise, rate, size), count)]
    raise UnsupportedMechanism(
        f"group privacy of {inner} under {adjacency} is not proven here; expected Gaussian (Poisson-sampled under add_remove "
        "only), Laplace, exponential, zCDP or (epsilon, delta)-DP mechanisms, or randomised response"
    )


def _noise(inner: events.Event) -> float | None:
    """Noise multiplier of Gaussian releases made together, None if nothing is released."""
    noises = gaussians(inner)
    if noises is None:
        raise UnsupportedMechanism(f"Poisson sampling of {inner} has no proof here; expected Gaussian or Laplace inside")
    if len(noises) < 2:
        return noises[0] if noises else None
    return 0.0 if min(noises) == 0 else sum(noise**-2 for noise in noises) ** -0.5


def gaussians(event: events.Event) -> list[float] | None:
    """Noise multipliers of an event made of unsampled Gaussian releases only (zero counts left out), else None."""
    match event:
        case events.Gaussian(noise_multiplier=noise):
            return [float(noise)]
        case events.PoissonSampled(mechanism=inner, sample_rate=1):
            return gaussians(inner)
        case events.Repeated(mechanism=inner, count=count):
            noises = gaussians(inner)
            return None if noises is None else [noise / math.sqrt(count) for noise in noises if count]
        case events.Composed(parts=parts):
            noise_groups = [gaussians(part) for part in parts]
            return (
                None
                if any(group is None for group in noise_groups)
                else [noise for group in noise_groups if group is not None for noise in group]
            )
    return None


def _sampled_pair(noise: float, rate: float, count: int, adjacency: Adjacency, pair: pld.PairMaker) -> list[Leaf]:
    if rate == 0 or count == 0:
        return []
    if noise > 0:
        return [(pair, count)]
    if adjacency is Adjacency.REPLACE_ONE:
        return [(partial(_makers.approximate, 0.0, rate), count)]
    return [(partial(_makers.revealing, rate), count)]

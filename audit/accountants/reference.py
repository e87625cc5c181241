"""The suite's own accountant: a bracket on the true epsilon from first principles, its upper end being the claim.

Uses no accounting library, so it can judge them (`audit accountant check`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import audit
from audit.core import checks
from audit.core.errors import UnsupportedMechanism
from audit.core.events import decode, encode
from audit.core.mechanism import (
    Adjacency,
    ApproximateDp,
    Composed,
    Concentrated,
    DpSgd,
    Event,
    Exponential,
    Gaussian,
    Grouped,
    Laplace,
    NonPrivate,
    Parallel,
    PoissonSampled,
    RandomizedResponse,
    Repeated,
    SampledWithoutReplacement,
)
from audit.core.results import Claim
from audit.stats import pld, renyi, tradeoff
from audit.stats.loss_pairs import Direction, LossPair, finite_pair, subsampled_gaussian, subsampled_laplace

_ROUNDING = 1e-11  # relative allowance on closed forms
_Leaf = tuple[pld.PairMaker, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Claims the upper end of a proven bracket on epsilon.

    Attributes:
        tolerance: relative width at which refining the bracket stops.

    Guarantee:
        `bracket` holds the true epsilon of the worst pair of neighbouring data sets, up to floating-point rounding.
        For Poisson sampling under replace-one the upper end rests on the worst pair being opposite contributions
        (Schuchardt et al. 2024, arXiv 2403.04867); the lower end does not.

    References:
        Zhu, Dong, Wang 2022, arXiv 2106.08567. Kairouz, Oh, Viswanath 2015, arXiv 1311.0776 (approximate DP).
    """

    tolerance: float = 2e-4

    def __post_init__(self) -> None:
        checks.positive(self.tolerance, "tolerance")

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The upper end of the bracket as a claim; infinite where there is no guarantee at `delta`.

        Raises:
            UnsupportedMechanism: no proof is implemented for the mechanism under this adjacency.
        """
        low, high = self.bracket(mechanism, delta=delta, adjacency=adjacency)
        return Claim(
            epsilon=high,
            delta=float(delta),
            adjacency=adjacency,
            source=f"epsilon-audit {audit.__version__} reference",
            family="dp_sgd" if isinstance(mechanism, DpSgd) else None,
            note=f"the true value is at least {low:.6g}",
        )

    def bracket(self, event: Event, *, delta: float, adjacency: Adjacency) -> tuple[float, float]:
        """Lower and upper end of the epsilon that `event` truly costs at `delta`."""
        checks.open_probability(delta, "delta")
        event = decode(encode(event))  # every value is checked again: a NaN passes most comparisons
        match event:
            case Parallel():
                if adjacency is Adjacency.REPLACE_ONE:
                    raise UnsupportedMechanism(
                        "replacing a record can touch two parts of a parallel composition; use add_remove"
                    )
                ends = [self.bracket(part, delta=delta, adjacency=adjacency) for part in event.parts]
                return max((low for low, _ in ends), default=0.0), max((high for _, high in ends), default=0.0)
            case Grouped():
                return self._group(event, delta, adjacency)
        special = _without_replacement(event, delta, adjacency) or _concentrated(event, delta) or _exponential(event, delta)
        if special is not None:
            return special
        noises = _gaussians(event)
        if noises is not None:
            return _exact_gaussian(noises, delta, adjacency)
        directions = pld.REPLACE if adjacency is Adjacency.REPLACE_ONE else pld.ADD_REMOVE
        return pld.epsilon_bracket(_leaves(event, 1, adjacency), delta, directions=directions, tolerance=self.tolerance)

    def _group(self, event: Grouped, delta: float, adjacency: Adjacency) -> tuple[float, float]:
        noises = _gaussians(event.mechanism)
        if noises is not None:
            return _exact_gaussian([noise / event.size for noise in noises], delta, adjacency)
        match event.mechanism:
            case Laplace(noise_multiplier=scale) if scale > 0:
                return self.bracket(Laplace(noise_multiplier=scale / event.size), delta=delta, adjacency=adjacency)
            case ApproximateDp(epsilon=epsilon, delta=0.0):
                return self.bracket(ApproximateDp(epsilon=epsilon * event.size), delta=delta, adjacency=adjacency)
        raise UnsupportedMechanism(
            f"group privacy of {event.mechanism} is not proven here; expected Gaussian, Laplace or pure DP mechanisms"
        )


def _leaves(event: Event, count: int, adjacency: Adjacency) -> list[_Leaf]:  # noqa: PLR0911, PLR0912 (one arm a kind)
    """Pairs of one step each with their counts; `UnsupportedMechanism` where no pair is known to dominate."""
    match event:
        case NonPrivate(sample_rate=rate, steps=steps):
            return [(partial(_revealing, rate), steps * count)] if rate > 0 else []
        case DpSgd(noise_multiplier=noise, sample_rate=rate, steps=steps):
            return _sampled(noise, rate, steps * count, adjacency, partial(_gaussian_pair, noise, rate))
        case Gaussian(noise_multiplier=noise):
            return _sampled(noise, 1.0, count, adjacency, partial(_gaussian_pair, noise, 1.0))
        case Laplace(noise_multiplier=scale):
            return _sampled(scale, 1.0, count, adjacency, partial(_laplace_pair, scale, 1.0))
        case PoissonSampled(mechanism=Laplace(noise_multiplier=scale), sample_rate=rate):
            if adjacency is Adjacency.REPLACE_ONE and rate < 1:
                raise UnsupportedMechanism("Poisson-sampled Laplace under replace-one has no proof here; use add_remove")
            return _sampled(scale, rate, count, adjacency, partial(_laplace_pair, scale, rate))
        case PoissonSampled(mechanism=inner, sample_rate=rate):
            noises = _gaussians(inner)
            if noises is None:
                raise UnsupportedMechanism(
                    f"Poisson sampling of {inner} has no proof here; expected Gaussian or Laplace inside"
                )
            if not noises:
                return []
            noise = 0.0 if min(noises) == 0 else sum(one**-2 for one in noises) ** -0.5
            return _sampled(noise, rate, count, adjacency, partial(_gaussian_pair, noise, rate))
        case RandomizedResponse(noise_parameter=parameter, buckets=buckets):
            if adjacency is not Adjacency.REPLACE_ONE:
                raise UnsupportedMechanism("randomised response has no data set without the record; use replace_one")
            return [(partial(_response, parameter, buckets), count)] if buckets > 1 else []
        case Exponential(epsilon=epsilon):
            return [(partial(_approximate, epsilon, 0.0), count)]
        case ApproximateDp(epsilon=epsilon, delta=delta):
            return [(partial(_approximate, epsilon, delta), count)]
        case Repeated(mechanism=inner, count=times):
            return _leaves(inner, count * times, adjacency)
        case Composed(parts=parts):
            return [leaf for part in parts for leaf in _leaves(part, count, adjacency)]
    raise UnsupportedMechanism(f"{event} inside a composition has no proof here; account for it on its own")


def _sampled(noise: float, rate: float, count: int, adjacency: Adjacency, pair: pld.PairMaker) -> list[_Leaf]:
    if rate == 0 or count == 0:
        return []
    if noise > 0:
        return [(pair, count)]
    if adjacency is Adjacency.REPLACE_ONE:
        return [(partial(_approximate, 0.0, rate), count)]
    return [(partial(_revealing, rate), count)]


def _gaussian_pair(noise: float, rate: float, direction: Direction, log_tail: float) -> LossPair:
    return subsampled_gaussian(float(noise), float(rate), direction, log_tail=log_tail)


def _laplace_pair(scale: float, rate: float, direction: Direction, log_tail: float) -> LossPair:
    return subsampled_laplace(float(scale), float(rate), direction)


def _revealing(rate: float, direction: Direction, log_tail: float) -> LossPair:
    """A release that shows a sampled record as it is."""
    unseen = math.log1p(-rate) if rate < 1 else -math.inf
    if direction == "add":
        return finite_pair((-unseen,), (1.0,))
    return finite_pair((unseen, math.inf), (1 - rate, rate)) if rate < 1 else finite_pair((0.0, math.inf), (0.0, 1.0))


def _approximate(epsilon: float, delta: float, direction: Direction, log_tail: float) -> LossPair:
    high = 1 / (1 + math.exp(-epsilon))
    return finite_pair((-epsilon, epsilon, math.inf), ((1 - delta) * (1 - high), (1 - delta) * high, delta))


def _response(parameter: float, buckets: int, direction: Direction, log_tail: float) -> LossPair:
    low = parameter / buckets
    high = 1 - parameter + low
    if low == 0:
        return finite_pair((0.0, math.inf), (0.0, 1.0))
    loss = math.log(high / low)
    return finite_pair((-loss, 0.0, loss), (low, (buckets - 2) * low, high))


def _gaussians(event: Event) -> list[float] | None:
    """Noise multipliers of an event made of unsampled Gaussian releases only (zero counts left out), else None."""
    match event:
        case Gaussian(noise_multiplier=noise):
            return [float(noise)]
        case DpSgd(noise_multiplier=noise, sample_rate=1, steps=steps):
            return [float(noise) / math.sqrt(steps)] if steps else []
        case PoissonSampled(mechanism=inner, sample_rate=1):
            return _gaussians(inner)
        case Repeated(mechanism=inner, count=count):
            noises = _gaussians(inner)
            return None if noises is None else [noise / math.sqrt(count) for noise in noises if count]
        case Composed(parts=parts):
            found = [_gaussians(part) for part in parts]
            return None if any(one is None for one in found) else [noise for one in found if one is not None for noise in one]
    return None


def _exact_gaussian(noises: list[float], delta: float, adjacency: Adjacency) -> tuple[float, float]:
    if not noises:
        return 0.0, 0.0
    if min(noises) == 0:
        return math.inf, math.inf
    mu = math.sqrt(sum(noise**-2 for noise in noises)) * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    epsilon = tradeoff.epsilon_of_gdp(mu, float(delta))
    return epsilon * (1 - _ROUNDING), epsilon * (1 + _ROUNDING)


def _without_replacement(event: Event, delta: float, adjacency: Adjacency) -> tuple[float, float] | None:
    count, inner = (event.count, event.mechanism) if isinstance(event, Repeated) else (1, event)
    if not isinstance(inner, SampledWithoutReplacement):
        return None
    noises = _gaussians(inner.mechanism)
    if adjacency is not Adjacency.REPLACE_ONE or noises is None or min(noises, default=1.0) == 0:
        raise UnsupportedMechanism(
            f"{inner} under {adjacency}: proven here for Gaussian releases (noise above 0) under replace_one only"
        )
    rate = inner.batch / inner.population
    if rate == 0 or count == 0 or not noises:
        return 0.0, 0.0
    noise = sum(one**-2 for one in noises) ** -0.5
    if rate == 1:
        return _exact_gaussian([noise / math.sqrt(count)], delta, adjacency)
    return pld.without_replacement_bracket(noise, rate, count, float(delta))


def _concentrated(event: Event, delta: float) -> tuple[float, float] | None:
    """Bracket of rho-zCDP mechanisms composed: every such one above, the Gaussian one below."""
    rho = _total(event, Concentrated)
    if rho is None:
        return None
    return tradeoff.epsilon_of_gdp(math.sqrt(2 * rho), float(delta)) * (1 - _ROUNDING), renyi.epsilon_of_zcdp(rho, float(delta))


def _exponential(event: Event, delta: float) -> tuple[float, float] | None:
    """Bracket of equal exponential mechanisms composed: the worst two-outcome one below, pure DP or zCDP above."""
    count, inner = 1, event
    while isinstance(inner, Repeated | Composed):
        if isinstance(inner, Repeated):
            count, inner = count * inner.count, inner.mechanism
        elif len(set(inner.parts)) == 1:
            count, inner = count * len(inner.parts), inner.parts[0]
        else:
            return None
    if not isinstance(inner, Exponential):
        return None
    epsilon = float(inner.epsilon)
    if epsilon == 0 or count == 0:
        return 0.0, 0.0
    low = 0.0
    for share in (0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.9, 0.99, 0.999, 0.9999, 0.99999):
        top = share * epsilon  # losses `top` and `top - epsilon`
        rare = math.expm1(epsilon - top) / math.expm1(epsilon) * math.exp(top)
        maker = partial(_two_outcomes, (top - epsilon, top), (1 - rare, rare))
        low = max(low, pld.epsilon_bracket([(maker, count)], delta, directions=pld.REPLACE)[0])
    pure = pld.epsilon_bracket([(partial(_approximate, epsilon, 0.0), count)], delta, directions=pld.REPLACE)[1]
    return low, min(pure, renyi.epsilon_of_zcdp(count * epsilon**2 / 8, float(delta)))


def _two_outcomes(losses: tuple[float, ...], masses: tuple[float, ...], direction: Direction, log_tail: float) -> LossPair:
    return finite_pair(losses, masses)


def _total(event: Event, kind: type[Concentrated]) -> float | None:
    """Sum of the zCDP parameters of an event made of such mechanisms only, else None."""
    match event:
        case Concentrated(rho=rho):
            return float(rho)
        case Repeated(mechanism=inner, count=count):
            total = _total(inner, kind)
            return None if total is None else total * count
        case Composed(parts=parts) if parts:
            found = [_total(part, kind) for part in parts]
            return None if any(one is None for one in found) else sum(one for one in found if one is not None)
    return None


PLUGIN = Reference

"""Noise for a privacy budget, steps within one, delta at an epsilon, and the budget spent over the steps of a training."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_changes import with_noise_factor
from audit.core.events import Event, Repeated, dp_sgd
from audit.core.protocols import Accountant
from audit.core.results import Trajectory

_TOLERANCE = 1e-3  # of the target that a calibrated noise may leave unspent
_DELTA_TOLERANCE = 1e-4  # of the target that a delta may leave
_NOISES = (1e-2, 1e6)  # noise multipliers, or factors on them, that are searched
_DELTAS = (1e-200, 0.99)
_EVALUATIONS = 60
# logarithm of a claim over its target, falling in its argument: negative is within the budget
Excess = Callable[[float], float]


def calibrate_noise(
    accountant: Accountant,
    *,
    target_epsilon: float,
    delta: float,
    sample_rate: float,
    steps: int,
    clip_norm: float = 1.0,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Repeated:
    """DP-SGD with about the least noise for which the claim stays within `target_epsilon` at `delta`.

    Guarantee:
        The accountant's claim for the mechanism returned is at most `target_epsilon`: the noise is the last one
        evaluated on the safe side of the bracket, and the bracket is narrowed until at most 0.1 % of the
        budget is left.

    Raises:
        ConfigError: no noise multiplier up to 1e6 meets the target (an accountant may have a floor), or the least that is
            tried, about 0.01, costs less than the target.
        UnsupportedMechanism: the accountant does not cover such a mechanism.
    """

    def with_noise(noise: float) -> Repeated:
        return dp_sgd(noise_multiplier=noise, clip_norm=clip_norm, sample_rate=sample_rate, steps=steps)

    return with_noise(_least_noise(accountant, with_noise, target_epsilon, delta, adjacency))


def noise_factor(
    accountant: Accountant, event: Event, *, target_epsilon: float, delta: float, adjacency: Adjacency
) -> tuple[float, Event]:
    """About the least factor on all noise multipliers that keeps an event's claim within the target, and that event.

    Guarantee: As for `calibrate_noise`.

    Raises:
        ConfigError: the event has no noise, no factor up to 1e6 meets the target, or a factor of about 0.01 costs less.
        UnsupportedMechanism: the accountant does not cover such a mechanism.
    """
    factor = _least_noise(accountant, lambda factor: with_noise_factor(event, factor), target_epsilon, delta, adjacency)
    return factor, with_noise_factor(event, factor)


def _least_noise(
    accountant: Accountant, with_noise: Callable[[float], Event], target: float, delta: float, adjacency: Adjacency
) -> float:
    checks.positive(target, "target_epsilon")

    def excess(noise: float) -> float:
        epsilon = accountant.claim(with_noise(noise), delta=delta, adjacency=adjacency).epsilon
        if math.isnan(epsilon):
            raise ConfigError(f"the accountant claims NaN at noise_multiplier {noise:g}; it cannot be calibrated")
        return math.log(epsilon / target) if epsilon > 0 else -math.inf

    bracket = _bracket(excess, start=1.0, limits=_NOISES, stride=2.0)
    if bracket.excess_high > 0:
        raise ConfigError(
            f"no noise_multiplier up to {_NOISES[1]:g} meets epsilon {target:g}: the claim is still "
            f"{target * math.exp(bracket.excess_high):.4g}; raise the target or delta, or choose an accountant without a floor"
        )
    bracket = _narrower(bracket, excess, _TOLERANCE)
    if bracket.excess_low < math.log1p(-_TOLERANCE):  # above the target in every other bracket
        raise ConfigError(
            f"epsilon {target:g} is more than noise_multiplier {bracket.low:g} costs, the least that is tried: the claim is "
            f"{target * math.exp(bracket.excess_low):.4g} there; lower the target, or give the noise itself"
        )
    return bracket.high


def delta_bracket(epsilon_at: Callable[[float], float], epsilon: float) -> tuple[float, float]:
    """Two deltas next to each other, the first costing more than `epsilon` and the second at most that.

    Args:
        epsilon_at: from delta to an epsilon, falling.

    Returns:
        (0, 1e-200) if even that delta is within `epsilon`, (0.99, 1) where not even 0.99 is. Deltas for which the
        accountant has no claim count as costing more, but for the first that is tried (1e-5).

    >>> low, high = delta_bracket(lambda delta: -math.log(delta), 10.0)
    >>> low <= math.exp(-10) <= high <= low * 1.01
    True
    """
    checks.nonnegative(epsilon, "epsilon")
    start = 1e-5
    first = epsilon_at(start)

    def excess(delta: float) -> float:
        try:
            value = first if delta == start else epsilon_at(delta)
        except UnsupportedMechanism:
            return math.inf
        if math.isnan(value):
            raise ConfigError(f"the accountant claims NaN at delta {delta:g}; it has no delta for an epsilon")
        if value <= epsilon:
            return math.log(value / epsilon) if value > 0 else -math.inf
        return math.log(value / epsilon) if epsilon > 0 else math.inf

    bracket = _bracket(excess, start=start, limits=_DELTAS, stride=30.0)
    if bracket.excess_high > 0:
        return bracket.high, 1.0
    if bracket.excess_low <= 0:
        return 0.0, bracket.low
    bracket = _narrower(bracket, excess, _DELTA_TOLERANCE)
    return bracket.low, bracket.high


@dataclass(frozen=True, slots=True)
class _Bracket:
    """Two arguments, `high` within the budget and `low` not, with the excess at each."""

    low: float
    high: float
    excess_low: float
    excess_high: float

    def done(self, tolerance: float) -> bool:
        # a claim may jump over the tolerance: then both ends meet
        return self.excess_high >= math.log1p(-tolerance) or self.high <= self.low * (1 + 1e-9)

    def next(self, tolerance: float, *, halve: bool) -> float:
        """An argument inside: where a power law through both ends just meets the target, or the geometric middle."""
        share = 0.5
        if not halve and math.isfinite(self.excess_low) and math.isfinite(self.excess_high):
            target = math.log1p(-tolerance / 2)  # just inside the budget
            share = (self.excess_low - target) / (self.excess_low - self.excess_high)
        share = min(max(share, 0.01), 0.99)  # or a flat curve would stall at one end
        return math.exp((1 - share) * math.log(self.low) + share * math.log(self.high))

    def narrow(self, argument: float, excess: float) -> _Bracket:
        if excess <= 0:
            return _Bracket(self.low, argument, self.excess_low, excess)
        return _Bracket(argument, self.high, excess, self.excess_high)


def _narrower(bracket: _Bracket, excess: Excess, tolerance: float) -> _Bracket:
    for turn in range(_EVALUATIONS):
        if bracket.done(tolerance):
            break
        argument = bracket.next(tolerance, halve=turn % 3 == 2)  # every third turn by halves, which ends for any curve
        bracket = bracket.narrow(argument, excess(argument))
    return bracket


def _bracket(excess: Excess, *, start: float, limits: tuple[float, float], stride: float) -> _Bracket:
    """Two arguments around the target; both the same limit if all between the limits are on one side of it."""
    argument, value = start, excess(start)
    while value > 0:
        if argument >= limits[1]:
            return _Bracket(argument, argument, value, value)
        before, value_before = argument, value
        argument = min(argument * stride, limits[1])
        value = excess(argument)
        if value <= 0:
            return _Bracket(before, argument, value_before, value)
    while argument > limits[0]:
        after, value_after = argument, value
        argument = argument / stride
        value = excess(argument)
        if value > 0:
            return _Bracket(argument, after, value, value_after)
    return _Bracket(argument, argument, value, value)


def steps_within(
    accountant: Accountant,
    mechanism: Repeated,
    *,
    target_epsilon: float,
    delta: float,
    adjacency: Adjacency,
    step_limit: int = 10**7,
) -> int:
    """The largest number of steps of `mechanism` (its own count is ignored) with a claim within `target_epsilon`.

    Guarantee:
        The claim for the count returned is at most `target_epsilon`; for one more it is above, or the count is `step_limit`.
    """
    checks.positive(target_epsilon, "target_epsilon")

    def within(steps: int) -> bool:
        return accountant.claim(replace(mechanism, count=steps), delta=delta, adjacency=adjacency).epsilon <= target_epsilon

    if not within(1):
        return 0
    low, high = 1, 2
    while within(high):
        if high >= step_limit:
            return step_limit
        low, high = high, min(high * 4, step_limit)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low


def trajectory(
    accountant: Accountant, mechanism: Repeated, *, delta: float, adjacency: Adjacency, points: int = 40
) -> Trajectory:
    """The claim after each of about `points` step counts, evenly spaced, the last being the whole training; `ConfigError` for
    fewer than one point.

    The name in the result is the claim's source. A running maximum is taken, since what is released stays released.
    """
    if points < 1:
        raise ConfigError(f"points is {points}; expected at least 1")
    count = min(points, max(mechanism.count, 1))
    steps = sorted({math.ceil(mechanism.count * (index + 1) / count) for index in range(count)})
    source, epsilons = "", [0.0]
    for step in steps:
        claim = accountant.claim(replace(mechanism, count=step), delta=delta, adjacency=adjacency)
        source = claim.source
        epsilons.append(max(epsilons[-1], claim.epsilon))
    return Trajectory(accountant=source, steps=tuple(steps), epsilon=tuple(epsilons[1:]))

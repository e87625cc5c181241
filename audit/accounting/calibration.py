"""Noise for a privacy budget, and the budget spent over the steps of a training."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError
from audit.core.events import Repeated, dp_sgd
from audit.core.protocols import Accountant
from audit.core.results import Trajectory

_TOLERANCE = 1e-3  # of the target that the calibrated noise may leave unspent
_SMALLEST, _LARGEST = 1e-2, 1e6  # noise multipliers that are searched
_EVALUATIONS = 60


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
    """DP-SGD with about the least noise whose claim stays within `target_epsilon` at `delta`.

    Guarantee:
        The accountant's claim for the mechanism returned is at most `target_epsilon`: the noise is the last one
        evaluated on the safe side of the bracket, and the bracket is narrowed until at most 0.1 % of the
        budget is left.

    Raises:
        ConfigError: no noise multiplier up to 1e6 meets the target (an accountant may have a floor).
        UnsupportedMechanism: the accountant does not cover such a mechanism.
    """
    checks.positive(target_epsilon, "target_epsilon")

    def with_noise(noise: float) -> Repeated:
        return dp_sgd(noise_multiplier=noise, clip_norm=clip_norm, sample_rate=sample_rate, steps=steps)

    def excess(noise: float) -> float:
        """Logarithm of the claim over the target: negative is within the budget."""
        epsilon = accountant.claim(with_noise(noise), delta=delta, adjacency=adjacency).epsilon
        if math.isnan(epsilon):
            raise ConfigError(f"the accountant claims NaN at noise_multiplier {noise:g}; it cannot be calibrated")
        return math.log(epsilon / target_epsilon) if epsilon > 0 else -math.inf

    bracket = _bracket(excess, target_epsilon)
    for turn in range(_EVALUATIONS):
        if bracket.done:
            break
        noise = bracket.next(halve=turn % 3 == 2)
        bracket = bracket.narrow(noise, excess(noise))
    return with_noise(bracket.high)


@dataclass(frozen=True, slots=True)
class _Bracket:
    """Two noise multipliers, `high` within the budget and `low` not, with the excess at each."""

    low: float
    high: float
    excess_low: float
    excess_high: float

    @property
    def done(self) -> bool:
        return self.excess_high >= math.log1p(-_TOLERANCE) or self.high <= self.low * (1 + 1e-9)

    def next(self, *, halve: bool) -> float:
        """A noise inside: where a power law through both ends just meets the target, or the geometric middle."""
        share = 0.5
        if not halve and math.isfinite(self.excess_low) and math.isfinite(self.excess_high):
            target = math.log1p(-_TOLERANCE / 2)  # just inside the budget
            share = (self.excess_low - target) / (self.excess_low - self.excess_high)
        share = min(max(share, 0.01), 0.99)
        return math.exp((1 - share) * math.log(self.low) + share * math.log(self.high))

    def narrow(self, noise: float, excess: float) -> _Bracket:
        if excess <= 0:
            return _Bracket(self.low, noise, self.excess_low, excess)
        return _Bracket(noise, self.high, excess, self.excess_high)


def _bracket(excess: Callable[[float], float], target: float) -> _Bracket:
    noise = 1.0
    excess_at = excess(noise)
    while excess_at > 0:
        below, excess_below = noise, excess_at
        noise *= 2
        if noise > _LARGEST:
            raise ConfigError(
                f"no noise_multiplier up to {_LARGEST:g} meets epsilon {target:g}: the claim is still "
                f"{target * math.exp(excess_at):.4g}; raise the target or delta, or choose an accountant without a floor"
            )
        excess_at = excess(noise)
        if excess_at <= 0:
            return _Bracket(below, noise, excess_below, excess_at)
    while noise > _SMALLEST:
        above, excess_above = noise, excess_at
        noise /= 2
        excess_at = excess(noise)
        if excess_at > 0:
            return _Bracket(noise, above, excess_at, excess_above)
    return _Bracket(noise, noise, excess_at, excess_at)


def steps_within(
    accountant: Accountant,
    mechanism: Repeated,
    *,
    target_epsilon: float,
    delta: float,
    adjacency: Adjacency,
    step_limit: int = 10**7,
) -> int:
    """The largest number of steps of `mechanism` (its own count is ignored) whose claim stays within `target_epsilon`.

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
    """The claim after each of about `points` step counts, evenly spaced, the last being the whole training.

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

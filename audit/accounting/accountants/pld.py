"""Privacy-loss-distribution accounting by Google's dp-accounting."""

import importlib.metadata
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dp_accounting.pld import privacy_loss_distribution

from audit.accounting.accountants._as_it_is import RELATIONS
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, Side
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_reading import NoisySteps, is_non_private, phases
from audit.core.events import Event
from audit.event_curves import find_curves

_FEWEST_CELLS, _MOST_CELLS = 20, 400_000  # of one step's loss: per standard deviation, and in all
_LEAST_DELTA = 1e-9  # below it the round-off of the library's convolutions is no longer negligible
_LEAST_DELTA_A_STEP = 100 * 2.0**-52  # nor is it below so much a step: the relative error of a power grows with the exponent


@dataclass(frozen=True, slots=True, kw_only=True)
class Pld:
    """Claims the epsilon that dp-accounting's privacy-loss distributions give.

    Attributes:
        interval: width of the loss grid; 0 chooses it from the loss of one step, which the library's own
            default (1e-4) does not, and which costs a factor if one step loses less than the grid.
        pessimistic: round towards a larger epsilon. The optimistic side is no claim, only a check.

    Guarantee:
        The mechanism is (epsilon, delta)-DP if the library is right: its discretisation dominates the mechanism
        (Doroshenko et al. 2022), up to the round-off of its convolutions, which is why deltas below 1e-9,
        or below 2e-14 a step, are refused.

    References:
        Koskela, Jalko, Honkela 2020, arXiv 1906.03049. Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022, arXiv 2207.04380.
    """

    interval: float = 0.0
    pessimistic: bool = True

    def __post_init__(self) -> None:
        checks.nonnegative(self.interval, "interval")

    @property
    def side(self) -> Side:
        return "upper" if self.pessimistic else "lower"

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The claim at `delta`, with its whole trade-off family named; infinite without noise. Raises `UnsupportedMechanism`
        unless it is DP-SGD, and for a delta too small for the library's arithmetic.
        """
        checks.open_probability(delta, "delta")
        if delta < _LEAST_DELTA:
            raise UnsupportedMechanism(_round_off(delta, _LEAST_DELTA))
        side = "" if self.pessimistic else ", optimistic"
        source = f"dp-accounting {importlib.metadata.version('dp-accounting')} PLD{side}"
        if is_non_private(mechanism):
            return Claim(epsilon=math.inf, delta=float(delta), adjacency=adjacency, source=source, note="no noise was added")
        parts = [NoisySteps(noise_multiplier=n, clip_norm=1.0, sample_rate=q, steps=t) for n, q, t in phases(mechanism)]
        smallest = _LEAST_DELTA_A_STEP * sum(part.steps for part in parts)
        if delta < smallest:
            raise UnsupportedMechanism(_round_off(delta, smallest))
        settings = [(float(part.noise_multiplier), float(part.sample_rate), int(part.steps)) for part in parts]
        epsilon = _dp_sgd(tuple(settings), float(delta), adjacency, float(self.interval), self.pessimistic)
        curves = find_curves(mechanism)
        family = None if curves is None else curves.family
        return Claim(epsilon=epsilon, delta=float(delta), adjacency=adjacency, source=source, family=family)


@lru_cache(maxsize=4096)  # a report asks for the claim again in the budget's curve, and audits of one config again
def _dp_sgd(
    settings: tuple[tuple[float, float, int], ...], delta: float, adjacency: Adjacency, interval: float, pessimistic: bool
) -> float:
    """Return epsilon of phases of noise multiplier, sampling rate and steps; `interval` 0 chooses the grid."""
    active_phases = [(noise, rate, steps) for noise, rate, steps in settings if steps > 0 and rate > 0]
    if not active_phases:
        return 0.0
    if any(noise == 0 for noise, _, _ in active_phases):
        return math.inf
    interval = interval or _interval([(noise, rate) for noise, rate, _ in active_phases])
    distributions = [
        _one_step(noise, rate, adjacency, interval, pessimistic).self_compose(steps) for noise, rate, steps in active_phases
    ]
    distribution = distributions[0]
    for phase in distributions[1:]:
        distribution = distribution.compose(phase)
    epsilon = float(distribution.get_epsilon_for_delta(delta))
    if math.isnan(epsilon):
        raise ConfigError(f"dp-accounting returned NaN for {active_phases}, grid {interval:g}; choose another interval")
    return max(0.0, epsilon)


def _round_off(delta: float, smallest: float) -> str:
    return (
        f"delta is {delta:g}; dp-accounting does not bound the round-off of its convolutions and falls below the truth "
        f"at such deltas; expected at least {smallest:g} for so many steps, or use the accountant 'reference'"
    )


def _interval(steps: Sequence[tuple[float, float]]) -> float:
    """A grid for noises and rates: 20 cells or more a standard deviation of each step's loss, and at most 400,000 a step."""
    finest = min(rate * min(1 / noise, math.sqrt(math.expm1(min(1 / noise**2, 700.0)))) for noise, rate in steps)
    return max(min(1e-3, finest / _FEWEST_CELLS), 2 * max(_reach(*step) for step in steps) / _MOST_CELLS)


def _reach(noise: float, rate: float) -> float:
    exponent = 10 / noise + 1 / (2 * noise**2)
    return math.log(rate) + exponent if exponent > 700 else math.log1p(rate * math.expm1(exponent))


@lru_cache(maxsize=16)
def _one_step(noise: float, rate: float, adjacency: Adjacency, interval: float, pessimistic: bool) -> Any:
    return privacy_loss_distribution.from_gaussian_mechanism(
        noise,
        pessimistic_estimate=pessimistic,
        value_discretization_interval=interval,
        sampling_prob=rate,
        use_connect_dots=pessimistic,  # the library connects dots from above only
        neighboring_relation=RELATIONS[adjacency],
    )


PLUGIN = Pld

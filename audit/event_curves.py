"""Trade-off curves of events: the one table of the families that bounds inside a family may assume.

A family is what an event would leave any attack with less or more noise and all else as claimed. An event with a curve of its
own enters `CURVES`, under the classes of its nodes from the root to the release; estimators, claims, certificates and the limit
in a report's figures read it from there.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from audit.core import event_reading
from audit.core.deployed_events import MatrixFactorization, encoder_sensitivity
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import Event, Gaussian, PoissonSampled, Repeated
from audit.core.rounding import plural
from audit.stats.bounds import betting_claims
from audit.stats.bounds.betting_claims import Hypotheses
from audit.stats.curves import dp_sgd_curve
from audit.stats.curves.tradeoff import TradeoffCurve, taking_part

MOST_SIGNAL = 1 / dp_sgd_curve.LEAST_NOISE  # the inverse of the least noise that a search looks at


class EventCurves(Protocol):
    """The curves of an event by its noise multiplier; estimators search over its inverse, the signal."""

    def __hash__(self) -> int: ...  # searches keep what they computed for equal curves

    @property
    def noise_multiplier(self) -> float:
        """The claimed one."""

    @property
    def family(self) -> str:
        """Return what claims and bounds call the family: "gdp" or "dp_sgd"."""

    def at(self, noise_multiplier: float) -> TradeoffCurve:
        """Return the curve of one record's presence; the add direction is the same test with the roles exchanged."""

    @property
    def without_noise(self) -> TradeoffCurve | None:
        """The curve of no noise at all; None if that recognises every record."""

    def symmetric(self, noise_multiplier: float) -> TradeoffCurve:
        """Return the least symmetric curve above it, for tests that may use either direction."""

    def epsilon(self, noise_multiplier: float, delta: float) -> float:
        """Return epsilon at `delta`, from below; the worse of both directions."""

    def signal_of(self, epsilon: float, delta: float) -> float:
        """Return the least signal with an epsilon at `delta` above `epsilon`, from above; infinite beyond `MOST_SIGNAL`."""

    def parameter(self, signal: float) -> float:
        """Return what names the member with this signal: mu in the family "gdp", else the noise multiplier."""

    def hypotheses(self, delta: float) -> Hypotheses:
        """Return members with noise above and below the claimed one, to bet against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DpSgdCurves:
    """DP-SGD of one sample rate and number of steps.

    Attributes:
        noise_multiplier: noise standard deviation divided by the clip norm.
        sample_rate: probability that a record takes part in a step.
    """

    noise_multiplier: float
    sample_rate: float
    steps: int

    @property
    def family(self) -> str:
        """Without sampling the family is that of a Gaussian.

        >>> DpSgdCurves(noise_multiplier=2.0, sample_rate=1.0, steps=4).family
        'gdp'
        """
        return "gdp" if self.sample_rate == 1 else "dp_sgd"

    def at(self, noise_multiplier: float) -> TradeoffCurve:
        with self._memory():
            return dp_sgd_curve.sgd(noise_multiplier, self.sample_rate, self.steps)

    @property
    def without_noise(self) -> TradeoffCurve | None:
        """The curve of a record that takes part at least once, or never.

        >>> twice = DpSgdCurves(noise_multiplier=1.0, sample_rate=0.5, steps=2)
        >>> float(twice.without_noise.tpr(0.0)), DpSgdCurves(noise_multiplier=1.0, sample_rate=1.0, steps=2).without_noise
        (0.75, None)
        """
        rate = -math.expm1(self.steps * math.log1p(-self.sample_rate)) if self.sample_rate < 1 else 1.0
        return taking_part(rate) if rate < 1 else None

    def symmetric(self, noise_multiplier: float) -> TradeoffCurve:
        """Return the least symmetric curve above that."""
        with self._memory():
            return dp_sgd_curve.symmetric_sgd(noise_multiplier, self.sample_rate, self.steps)

    def epsilon(self, noise_multiplier: float, delta: float) -> float:
        with self._memory():
            return dp_sgd_curve.epsilon_floor(noise_multiplier, self.sample_rate, self.steps, delta)

    def signal_of(self, epsilon: float, delta: float) -> float:
        """Return the least signal with an epsilon at `delta` above `epsilon`."""
        with self._memory():
            return dp_sgd_curve.signal_of(epsilon, self.sample_rate, self.steps, delta)

    def parameter(self, signal: float) -> float:
        """Return mu of Gaussian DP, else the noise multiplier.

        >>> DpSgdCurves(noise_multiplier=2.0, sample_rate=1.0, steps=4).parameter(0.5)
        1.0
        """
        return signal * math.sqrt(self.steps) if self.family == "gdp" else signal_noise(signal)

    def hypotheses(self, delta: float) -> Hypotheses:
        """Return members with noise above and below the claimed one."""
        with self._memory():
            return betting_claims.dp_sgd(self.noise_multiplier, self.sample_rate, self.steps, delta)

    @contextmanager
    def _memory(self) -> Iterator[None]:
        """A scope in which curves that do not fit into memory are reported with the rate and the steps that make them large."""
        try:
            yield
        except MemoryError as error:
            raise ConfigError(
                f"trade-off curves of DP-SGD with sample_rate {self.sample_rate:g} over {plural(self.steps, 'step')} need more "
                "memory than they are given; raise sample_rate, or name estimators that hold for any mechanism, such as one_run"
            ) from error


def signal_noise(signal: float) -> float:
    """Return the noise multiplier of a signal; infinite for none.

    >>> signal_noise(0.5), signal_noise(0.0)
    (2.0, inf)
    """
    return 1 / signal if signal > 0 else math.inf


def find_curves(event: Event | None) -> EventCurves | None:
    """Return the curves of an event; None for one that has none in the table, and for None.

    >>> step = PoissonSampled(mechanism=Gaussian(noise_multiplier=2.0), sample_rate=0.1)
    >>> find_curves(Repeated(mechanism=step, count=5))
    DpSgdCurves(noise_multiplier=2.0, sample_rate=0.1, steps=5)
    >>> find_curves(step) is None
    True
    """
    if event is None:
        return None
    make = CURVES.get(event_reading.shape(event))
    return None if make is None else make(event)


def _dp_sgd(event: Event) -> EventCurves | None:
    noisy = event_reading.noisy_steps(event)
    if noisy is None:
        return None
    return DpSgdCurves(noise_multiplier=noisy.noise_multiplier, sample_rate=noisy.sample_rate, steps=noisy.steps)


def _matrix_factorization(event: Event) -> EventCurves | None:
    """A Gaussian release of what a record moves at most, adaptive inputs included (Denisov et al. 2022, Theorem 2.1)."""
    if not isinstance(event, MatrixFactorization):
        return None
    try:
        sensitivity = encoder_sensitivity(event)
    except UnsupportedMechanism:  # no bound is proved for these coefficients, so no curve either
        return None
    if sensitivity == 0:
        return None
    return DpSgdCurves(noise_multiplier=event.noise_multiplier / sensitivity, sample_rate=1.0, steps=1)


# curves by the classes of an event's nodes, from the root down
CURVES: Mapping[tuple[type, ...], Callable[[Event], EventCurves | None]] = {
    (Repeated, PoissonSampled, Gaussian): _dp_sgd,
    (MatrixFactorization,): _matrix_factorization,
}

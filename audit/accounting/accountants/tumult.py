"""Tumult Core, the accounting of Tumult Analytics, as it is: a subject of the battery."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from audit.accounting.accountants import _as_it_is
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import runs
from audit.core.events import Event, Gaussian, Laplace

_MOST_RELEASES = 1000  # each is its own measurement, and exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Tumult:
    """States what the library proves: pure epsilon of Laplace releases, and of others the epsilon of its conversion of zCDP to
    approximate DP.

    The library (0.20) asks for numpy below 2, so it wants its own environment.

    References: Berghel et al. 2022, arXiv 2212.04133. docs.tmlt.dev/core.
    """

    as_it_is: ClassVar[bool] = True

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """Return the library's epsilon at `delta`; `UnsupportedMechanism` for an event that it does not know, too many
        releases, or if it is not installed.
        """
        releases = list(runs(mechanism))
        for event, _ in releases:
            if not (isinstance(event, Gaussian | Laplace) and event.noise_multiplier > 0):
                raise UnsupportedMechanism(f"Tumult accounts for unsampled Gaussian and Laplace releases here, not for {event}")
        number = sum(count for _, count in releases)
        if not 0 < number <= _MOST_RELEASES:
            raise UnsupportedMechanism(f"{number:,} releases; Tumult keeps each, 1 to {_MOST_RELEASES:,} here")
        change = 2 if adjacency is Adjacency.REPLACE_ONE else 1
        library = _Library()
        is_pure = all(isinstance(event, Laplace) for event, _ in releases)
        measurements = [library.measurement(event, is_pure) for event, count in releases for _ in range(count)]
        composition = library.compositions.Composition(measurements)
        cost = float(composition.privacy_function(change).to_float(round_up=True))  # epsilon, or rho
        epsilon = cost if is_pure else _conversion(cost, delta)
        return _as_it_is.figure(
            epsilon, package="tmlt.core", method="pure DP" if is_pure else "zCDP", delta=delta, adjacency=adjacency
        )


class _Library:
    """The parts of the library that are asked."""

    def __init__(self) -> None:
        self.noises = _as_it_is.library("tmlt.core.measurements.noise_mechanisms", "tmlt.core")
        self.compositions = _as_it_is.library("tmlt.core.measurements.composition", "tmlt.core")
        self.converters = _as_it_is.library("tmlt.core.measurements.converters", "tmlt.core")
        self.numbers = _as_it_is.library("tmlt.core.domains.numpy_domains", "tmlt.core")
        self.exact = _as_it_is.library("tmlt.core.utils.exact_number", "tmlt.core")

    def measurement(self, event: Event, is_pure: bool) -> Any:
        """The library's measurement of one release of a number that moves by 1."""
        if isinstance(event, Gaussian):
            return self.noises.AddGaussianNoise(self.numbers.NumpyFloatDomain(), self.number(event.noise_multiplier**2))
        laplace = self.noises.AddLaplaceNoise(self.numbers.NumpyFloatDomain(), self.number(event.noise_multiplier))  # type: ignore[attr-defined]
        return laplace if is_pure else self.converters.PureDPToRhoZCDP(laplace)

    def number(self, value: float) -> Any:
        """Return the library's exact form of a number: the fraction that its shortest decimal text represents."""
        return self.exact.ExactNumber(str(Fraction(repr(float(value)))))


def _conversion(rho: float, delta: float) -> float:
    """Epsilon by the conversion that `RhoZCDPToApproxDP` documents (Bun and Steinke 2016, Proposition 1.3).

    The library itself only says whether an epsilon is enough, by a symbolic solver that answers for 8797/5000 and for 1.759423
    computes on for minutes; so its formula is evaluated here, and rho is its own.
    """
    return (rho + 2 * math.sqrt(rho * math.log(1 / delta))) * (1 + 1e-12)


PLUGIN = Tumult

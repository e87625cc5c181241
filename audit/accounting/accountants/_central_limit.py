"""The central-limit accountant of Gaussian differential privacy: an approximation that is often below the truth."""

import math
from dataclasses import dataclass
from typing import ClassVar

from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, Side
from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import phases, single_phase
from audit.core.events import Event
from audit.stats.curves.tradeoff import gdp_epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianClt:
    """States the epsilon of mu-GDP with `mu = rate sqrt(steps (exp(1/noise^2) - 1))`; no guarantee, whatever the steps.

    References: Bu, Dong, Long, Su 2020, arXiv 1911.11607. Gopi, Lee, Wutschitz 2021, arXiv 2106.02848 (why it is no bound).
    """

    as_it_is: ClassVar[bool] = True
    side: ClassVar[Side] = "estimate"

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The approximation at `delta`; `UnsupportedMechanism` for anything but DP-SGD under add/remove."""
        checks.open_probability(delta, "delta")
        if adjacency is Adjacency.REPLACE_ONE:
            raise UnsupportedMechanism("the central limit is stated for add/remove; expected add_remove or zero_out")
        squares = 0.0
        for noise, rate, steps in phases(mechanism):
            checks.probability(rate, "sample_rate")
            checks.nonnegative(noise, "noise_multiplier")
            checks.nonnegative(steps, "steps")
            if rate > 0 and steps > 0:
                # below 0.04 exp(1 / noise^2) soon overflows; the figure is infinite there
                squares += rate**2 * steps * (math.expm1(noise**-2) if noise > 0.04 else math.inf)
        epsilon = gdp_epsilon(math.sqrt(squares), float(delta))
        note = "a central limit: an approximation, not a bound"
        return Claim(epsilon=epsilon, delta=float(delta), adjacency=adjacency, source="Gaussian CLT", family="gdp", note=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicalGaussian:
    """Claims `sqrt(2 ln(1.25 / delta)) / noise_multiplier` for one unsampled Gaussian release.

    References: Dwork, Roth 2014, Theorem A.1 (epsilon below 1).
    """

    as_it_is: ClassVar[bool] = True

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The formula's epsilon; `UnsupportedMechanism` for anything but one release under add/remove."""
        noise, rate, steps = single_phase(mechanism)
        if adjacency is Adjacency.REPLACE_ONE or rate != 1 or steps != 1 or not noise > 0 or not 0 < delta < 1:
            raise UnsupportedMechanism(
                f"{mechanism} is not one Gaussian release under add_remove, all the formula speaks about"
            )
        epsilon = math.sqrt(2 * math.log(1.25 / delta)) / noise
        note = "" if epsilon < 1 else "not proved for an epsilon of 1 or more"
        return Claim(epsilon=epsilon, delta=delta, adjacency=adjacency, source="classical Gaussian formula", note=note)

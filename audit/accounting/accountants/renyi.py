"""The suite's own Renyi accountant: signed fractional orders, no library; also the classic moments accountant."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_reading import is_non_private, phases
from audit.core.events import Event
from audit.core.phrases import phrase
from audit.core.version import __version__
from audit.stats.curves import renyi


@dataclass(frozen=True, slots=True, kw_only=True)
class Renyi:
    """Claims the best epsilon over Renyi orders, divergences being exact at each.

    Attributes:
        conversion: "improved" (Canonne, Kamath, Steinke 2020) or "classic" (Mironov 2017).
        orders: to minimise over, each above 1; empty for a list of our own. Whole orders up to 33 with the classic
            conversion are the moments accountant of Abadi et al. 2016.

    Guarantee: The mechanism is (epsilon, delta)-DP, up to floating-point rounding.

    References: Mironov, Talwar, Zhang 2019, arXiv 1908.10530. Canonne, Kamath, Steinke 2020, arXiv 2004.00010.
    """

    conversion: str = "improved"
    orders: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(float(order) for order in self.orders))
        if self.conversion not in ("improved", "classic"):
            raise ConfigError(f"conversion is {self.conversion!r}; expected improved or classic")

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The claim at `delta`; infinite if nothing hides a record. Raises `UnsupportedMechanism` unless it is phases of
        DP-SGD, and for sampling under replace-one.
        """
        checks.open_probability(delta, "delta")
        if is_non_private(mechanism):
            epsilon, note = math.inf, "no noise was added"
        else:
            epsilon, note = self._phases(mechanism, float(delta), adjacency)
        accountant = f"epsilon-audit {__version__}"
        if self.conversion == "improved":
            source = phrase("{accountant} Renyi, improved conversion", accountant=accountant)
        else:
            source = phrase("{accountant} Renyi, classic conversion", accountant=accountant)
        return Claim(epsilon=epsilon, delta=float(delta), adjacency=adjacency, source=source, note=note)

    def _phases(self, mechanism: Event, delta: float, adjacency: Adjacency) -> tuple[float, str]:
        orders = self.orders or renyi.ORDERS
        total = np.zeros(len(orders))
        for noise, rate, steps in phases(mechanism):
            checks.nonnegative(noise, "noise_multiplier")
            checks.probability(rate, "sample_rate")
            checks.nonnegative(steps, "steps")
            if steps == 0 or rate == 0:
                continue
            if noise == 0:
                return math.inf, "no noise is added"
            if adjacency is Adjacency.REPLACE_ONE and rate < 1:
                raise UnsupportedMechanism("Poisson sampling under replace_one is not covered; expected add_remove, or rate 1")
            sensitivity_noise = noise / 2 if adjacency is Adjacency.REPLACE_ONE else noise
            total = total + steps * divergences(float(sensitivity_noise), float(rate), tuple(orders))
        if not total.any():
            return 0.0, "nothing is released about any record"
        convert = renyi.epsilon_improved if self.conversion == "improved" else renyi.epsilon_classic
        epsilon, order = convert(orders, total.tolist(), delta)
        return epsilon, phrase("best order {order}", order=f"{order:g}")


@lru_cache(maxsize=1024)
def divergences(noise: float, rate: float, orders: tuple[float, ...]) -> NDArray[np.float64]:
    """Divergence of one step at each order; infinite if quadrature would take too many panels."""
    wide = [not order.is_integer() and (order + 28 * noise) / noise > 20_000 for order in orders]
    values = np.full(len(orders), math.inf)
    values[~np.array(wide)] = renyi.sampled_curve(
        [order for order, is_wide in zip(orders, wide, strict=True) if not is_wide], noise, rate
    )
    return values


PLUGIN = Renyi

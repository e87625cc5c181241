"""The Renyi odometer: what releases chosen one after the other have cost so far, true at every moment at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit.accounting.accountants._adaptive import adaptive_divergences
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import ConfigError
from audit.core.event_forms import decode, encode
from audit.core.events import Event
from audit.core.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class RenyiOdometer:
    """Claims the least, over orders, of the divergences added up and `log(orders / delta) / (order - 1)`.

    As the accountant of a ledger the figure after every release may be believed, whatever decides when to stop, how large the
    budget is, and which releases come next; a filter (`renyi_filter`) is for a budget fixed beforehand, and costs less.

    Attributes:
        orders: of the divergences, above 1, fixed before the first release; they share delta.

    Guarantee:
        With probability at least 1 - delta the privacy loss of all releases so far is at most the figure at every moment. The
        exponential of `(order - 1)` times (loss less divergences so far) is a supermartingale for any adaptive choice, so
        by Ville's inequality it exceeds `orders / delta` at any moment with chance `delta / orders` at most, for each order.

    References:
        Rogers, Roth, Ullman, Vadhan 2016, arXiv 1605.08294 (odometers). Feldman, Zrnic 2021, arXiv 2008.11193. Whitehouse,
        Ramdas, Rogers, Wu 2023, arXiv 2203.05481 (lines that hold at every moment).
    """

    orders: tuple[float, ...] = (2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0)

    def __post_init__(self) -> None:
        orders = self.orders if isinstance(self.orders, tuple) else (self.orders,)
        object.__setattr__(self, "orders", tuple(float(order) for order in orders))
        if not self.orders or not all(1 < order < math.inf for order in self.orders):
            raise ConfigError(f"orders is {self.orders}; expected numbers above 1")

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """Return the claim at `delta`; infinite if nothing hides a record.

        Raises:
            UnsupportedMechanism: some part has no formula for its divergence, or its batches are cut.
        """
        checks.open_probability(delta, "delta")
        mechanism = decode(encode(mechanism))  # every value is checked again: a NaN passes most comparisons
        return Claim(
            epsilon=self._epsilon(mechanism, float(delta), adjacency),
            delta=float(delta),
            adjacency=adjacency,
            source=f"epsilon-audit {__version__} Renyi odometer, {len(self.orders)} orders",
        )

    def _epsilon(self, mechanism: Event, delta: float, adjacency: Adjacency) -> float:
        orders = np.array(self.orders)
        total = adaptive_divergences(mechanism, adjacency, orders)
        if not total.any():
            return 0.0
        return float(np.min(total + math.log(len(orders) / delta) / (orders - 1)))


PLUGIN = RenyiOdometer

"""The Renyi filter: releases chosen one after the other, each after seeing those before, at one order fixed beforehand."""

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
from audit.stats.curves import renyi


@dataclass(frozen=True, slots=True, kw_only=True)
class RenyiFilter:
    """Claims the epsilon of the divergences added up at one order.

    As the accountant of a ledger it is a filter: a release is refused if the sum would exceed what the budget allows at this
    order, and everything released until then is within the budget, also if noise, rates and counts of later releases depend
    on earlier ones. An accountant that minimises over orders, or composes distributions of losses, has that proof only where
    all releases were fixed beforehand.

    Attributes:
        order: of the divergence, above 1, chosen before the first release; about `1 + 2 log(1 / delta) / epsilon` is best.

    Guarantee:
        All releases together are (epsilon, delta)-DP for an adaptive choice of mechanisms under a budget fixed before, up to
        floating-point rounding. The figure itself is no odometer: for a budget that is chosen after seeing releases there is
        `renyi_odometer`.

    References:
        Feldman, Zrnic 2021, arXiv 2008.11193, Theorem 4.3. Canonne, Kamath, Steinke 2020, arXiv 2004.00010 (conversion).
    """

    order: float = 10.0

    def __post_init__(self) -> None:
        if not 1 < self.order < math.inf:
            raise ConfigError(f"order is {self.order}; expected a number above 1")

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
            source=f"epsilon-audit {__version__} Renyi filter, order {self.order:g}",
        )

    def _epsilon(self, mechanism: Event, delta: float, adjacency: Adjacency) -> float:
        orders = np.array([float(self.order)])
        total = adaptive_divergences(mechanism, adjacency, orders)
        return 0.0 if total[0] == 0 else renyi.epsilon_improved(tuple(orders.tolist()), total.tolist(), delta)[0]


PLUGIN = RenyiFilter

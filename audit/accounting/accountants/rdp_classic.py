"""Renyi accounting by dp-accounting with the classic conversion, shown beside the tighter one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit.accounting.accountants import _library_renyi
from audit.accounting.accountants._library_renyi import Curve
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class RdpClassic:
    """Claims the minimum over orders of `R(order) + ln(1/delta) / (order - 1)`.

    The figure that most published work before 2020 states; never below what the improved conversion gives.

    Attributes:
        orders: Renyi orders to minimise over, each above 1; empty for the library's own list.

    Guarantee:
        Mironov 2017, Proposition 3, given the library's Renyi divergences.

    References:
        Mironov 2017, arXiv 1702.07476. Abadi et al. 2016, arXiv 1607.00133.
    """

    orders: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(float(order) for order in self.orders))

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The claim at `delta`; infinite if the mechanism gives no guarantee.

        Raises:
            UnsupportedMechanism: subsampling under replace-one, which the library does not cover, or not DP-SGD.
        """
        return _library_renyi.claim(
            mechanism, adjacency, delta, orders=self.orders, convert=_classic, name=", classic conversion"
        )


def _classic(orders: Curve, total: Curve, delta: float) -> tuple[float, str]:
    """The classic conversion, and a remark on the order it ended on."""
    epsilons = total + math.log(1 / delta) / (orders - 1)
    best = int(np.argmin(epsilons))
    return float(epsilons[best]), f"best order {orders[best]:g}"


PLUGIN = RdpClassic

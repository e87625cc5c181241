"""Renyi accounting by Google's dp-accounting, with its improved conversion to (epsilon, delta)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from dp_accounting import rdp

from audit.accounting.accountants import _library_renyi
from audit.accounting.accountants._library_renyi import Curve
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Rdp:
    """Claims the epsilon that dp-accounting's Renyi accountant gives.

    Attributes:
        orders: Renyi orders to minimise over, each above 1; empty for the library's own list.

    Guarantee:
        The mechanism is (epsilon, delta)-DP if the library is right (Mironov, Talwar and Zhang 2019 for the
        divergence, Canonne, Kamath and Steinke 2020, Proposition 12, for the conversion). A record's contribution
        is bounded by the clip norm, so replacing a record moves the sum by twice that.

    References:
        Mironov, Talwar, Zhang 2019, arXiv 1908.10530. Canonne, Kamath, Steinke 2020, arXiv 2004.00010.
    """

    orders: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(float(order) for order in self.orders))

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The claim at `delta`; infinite if the mechanism gives no guarantee.

        Raises:
            UnsupportedMechanism: subsampling under replace-one, which the library does not cover, or not DP-SGD.
        """
        return _library_renyi.claim(mechanism, adjacency, delta, orders=self.orders, convert=_improved_epsilon)


def _improved_epsilon(orders: Curve, total: Curve, delta: float) -> tuple[float, str]:
    """The library's own conversion, and a remark on the order it ended on."""
    epsilon, order = rdp.compute_epsilon(orders, total, delta)
    dropped_orders = int(np.sum(~np.isfinite(total)))
    note = f"best order {order:g}" + (
        f"; {dropped_orders} order(s) the library could not evaluate were left out" if dropped_orders else ""
    )
    return max(0.0, float(epsilon)), note


PLUGIN = Rdp

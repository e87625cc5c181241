"""Filters and odometers: what releases cost that are chosen one after the other, each after seeing those before."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.accounting.accountants._amplified import above_propose_test_release, largest_loss
from audit.accounting.accountants._closed_forms import divergences
from audit.accounting.accountants._rewriting import known_uncut
from audit.core import checks, events
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.deployed_procedures import ProposeTestRelease
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_forms import decode, encode
from audit.core.event_reading import is_non_private, nodes
from audit.core.version import __version__
from audit.stats.curves import renyi


def adaptive_divergences(event: events.Event, adjacency: Adjacency, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the divergences of all releases added up, at each order; infinite if nothing hides a record. Raises
    `UnsupportedMechanism` if some part has no formula for its divergence, or its batches are cut.
    """
    exposure = np.full(len(orders), np.inf)
    if is_non_private(event):
        return exposure
    total = divergences(known_uncut(event, adjacency), adjacency, orders)
    if total is not None:
        return total
    if any(getattr(node, "noise_multiplier", 1.0) == 0 for node in nodes(event)):
        return exposure
    raise UnsupportedMechanism(f"{event} has a part without a formula for its Renyi divergence under {adjacency}")


def _claim(
    mechanism: events.Event,
    delta: float,
    adjacency: Adjacency,
    name: str,
    epsilon: Callable[[events.Event, float, Adjacency], float],
) -> Claim:
    checks.open_probability(delta, "delta")
    mechanism, delta = decode(encode(mechanism)), float(delta)  # values are checked again: a NaN passes most comparisons
    source = f"epsilon-audit {__version__} {name}"
    return Claim(epsilon=epsilon(mechanism, delta, adjacency), delta=delta, adjacency=adjacency, source=source)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcentratedFilter:
    """Claims what approximate zCDP gives: pure releases of epsilon are `epsilon^2 / 2`-zCDP, Gaussian ones `1 / (2 noise^2)`.

    As the accountant of a ledger it is a filter, also if later releases are chosen after seeing earlier ones; sampled
    releases are refused, since zCDP does not know them.

    Guarantee:
        All releases together are (epsilon, delta)-DP for an adaptive choice of mechanisms under a budget fixed before, up to
        floating-point rounding. No odometer.

    References: Whitehouse, Ramdas, Rogers, Wu 2023, arXiv 2203.05481, Theorem 1. Bun, Steinke 2016, arXiv 1605.02065.
    """

    def claim(self, mechanism: events.Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """Return the claim at `delta`; infinite if nothing hides a record, or the releases' own deltas use it up. Raises
        `UnsupportedMechanism` if some part is not known to be approximately zCDP, or its batches are cut.
        """
        return _claim(mechanism, delta, adjacency, "concentrated filter", self._epsilon)

    def _epsilon(self, mechanism: events.Event, delta: float, adjacency: Adjacency) -> float:
        rho, failure = _parameters(known_uncut(mechanism, adjacency), adjacency)
        if delta <= failure or not math.isfinite(rho):
            return math.inf
        return renyi.zcdp_epsilon(rho, delta - failure) if rho else 0.0


def _parameters(event: events.Event, adjacency: Adjacency) -> tuple[float, float]:  # noqa: PLR0911 (one arm a kind)
    """The rho of an event and the delta beside it."""
    change = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    match event:
        case events.Repeated(mechanism=inner, count=count):
            rho, failure = _parameters(inner, adjacency)
            return (count * rho, count * failure) if count else (0.0, 0.0)
        case events.Composed(parts=parts):
            pairs = [_parameters(part, adjacency) for part in parts]
            return math.fsum(rho for rho, _ in pairs), math.fsum(failure for _, failure in pairs)
        case events.PoissonSampled(mechanism=inner, sample_rate=rate) if rate in (0, 1):
            return _parameters(inner, adjacency) if rate else (0.0, 0.0)
        case events.NonPrivate() | events.PoissonSampled(mechanism=events.NonPrivate()) | events.Gaussian(noise_multiplier=0):
            return math.inf, 0.0
        case events.PoissonSampled(mechanism=events.Gaussian(noise_multiplier=0)):
            return math.inf, 0.0
        case events.Gaussian(noise_multiplier=noise):
            return change**2 / (2 * float(noise) ** 2), 0.0
        case events.Concentrated(rho=rho):
            return float(rho), 0.0
        case events.Exponential(epsilon=epsilon):
            # not / 2: losses are within an interval of length epsilon, a pure mechanism's of twice that
            return float(epsilon) ** 2 / 8, 0.0
        case ProposeTestRelease():
            return _parameters(above_propose_test_release(event), adjacency)
        case events.ApproximateDp(epsilon=epsilon, delta=delta):
            return float(epsilon) ** 2 / 2, float(delta)
    loss = math.inf if isinstance(event, events.PoissonSampled) else largest_loss(event, adjacency)
    if math.isinf(loss):
        raise UnsupportedMechanism(f"{event} is not known to be zCDP under {adjacency}; use the accountant 'renyi_filter'")
    return loss**2 / 2, 0.0


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

    def claim(self, mechanism: events.Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """Return the claim at `delta`; infinite if nothing hides a record. Raises `UnsupportedMechanism` if some part has no
        formula for its divergence, or its batches are cut.
        """
        return _claim(mechanism, delta, adjacency, f"Renyi filter, order {self.order:g}", self._epsilon)

    def _epsilon(self, mechanism: events.Event, delta: float, adjacency: Adjacency) -> float:
        orders = np.array([float(self.order)])
        total = adaptive_divergences(mechanism, adjacency, orders)
        return 0.0 if total[0] == 0 else renyi.epsilon_improved(tuple(orders.tolist()), total.tolist(), delta)[0]


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

    def claim(self, mechanism: events.Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """Return the claim at `delta`; infinite if nothing hides a record. Raises `UnsupportedMechanism` if some part has no
        formula for its divergence, or its batches are cut.
        """
        return _claim(mechanism, delta, adjacency, f"Renyi odometer, {len(self.orders)} orders", self._epsilon)

    def _epsilon(self, mechanism: events.Event, delta: float, adjacency: Adjacency) -> float:
        orders = np.array(self.orders)
        total = adaptive_divergences(mechanism, adjacency, orders)
        if not total.any():
            return 0.0
        return float(np.min(total + math.log(len(orders) / delta) / (orders - 1)))

"""Renyi divergences by Google's dp-accounting, for the accountants that differ only in how they convert them."""

import functools
import importlib.metadata
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import dp_accounting
import numpy as np
from dp_accounting import rdp
from dp_accounting.privacy_accountant import UnsupportedEventError
from numpy.typing import NDArray

from audit.accounting.accountants import _as_it_is
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import UnsupportedMechanism
from audit.core.event_forms import dp_events
from audit.core.event_reading import NoisySteps, is_non_private, phases
from audit.core.events import Event
from audit.core.phrases import join_clauses, phrase
from audit.core.quiet import quiet_log

Curve = NDArray[np.float64]
# from orders and the divergence at each to an epsilon and a remark on how it was found
Conversion = Callable[[Curve, Curve], tuple[float, str]]
DeltaConversion = Callable[..., tuple[float, str]]  # the same, with `delta` as a keyword


def claim(
    mechanism: Event,
    adjacency: Adjacency,
    delta: float,
    *,
    orders: tuple[float, ...],
    convert: DeltaConversion,
    classic: bool = False,
) -> Claim:
    """The claim at `delta` by a conversion, the library's usual one or the `classic` one; `UnsupportedMechanism` unless it is
    DP-SGD, and for sampling under replace-one.
    """
    checks.open_probability(delta, "delta")
    value, note = epsilon(mechanism, adjacency, orders, functools.partial(convert, delta=float(delta)))
    library = f"dp-accounting {importlib.metadata.version('dp-accounting')}"
    source = phrase("{accountant} RDP, classic conversion", accountant=library) if classic else f"{library} RDP"
    return Claim(epsilon=value, delta=float(delta), adjacency=adjacency, source=source, note=note)


def epsilon(mechanism: Event, adjacency: Adjacency, orders: tuple[float, ...], convert: Conversion) -> tuple[float, str]:
    """Epsilon of all phases composed, and a remark; infinite if the mechanism gives no guarantee. Raises
    `UnsupportedMechanism` unless it is DP-SGD, and for sampling under replace-one.
    """
    if is_non_private(mechanism):
        return math.inf, "no noise was added"
    parts = [NoisySteps(noise_multiplier=n, clip_norm=1.0, sample_rate=q, steps=t) for n, q, t in phases(mechanism)]
    active_phases = [part for part in parts if part.steps > 0 and part.sample_rate > 0]
    if not active_phases:
        return 0.0, "nothing is released about any record"
    if any(part.noise_multiplier == 0 for part in active_phases):
        return math.inf, "no noise is added"
    total = np.zeros(1)
    for part in active_phases:
        divergence, per_step = step_divergence(_effective_noise(part, adjacency), float(part.sample_rate), orders)
        total = total + per_step * int(part.steps)
    return convert(divergence, total)


def _effective_noise(mechanism: NoisySteps, adjacency: Adjacency) -> float:
    """Noise over sensitivity: replacing a record moves the clipped sum by two clip norms."""
    if adjacency is not Adjacency.REPLACE_ONE:
        return float(mechanism.noise_multiplier)
    if mechanism.sample_rate < 1:
        raise UnsupportedMechanism(
            f"dp-accounting's Renyi accountant does not cover Poisson sampling (rate {mechanism.sample_rate:g}) under "
            "replace-one; expected add_remove or zero_out, or sample_rate 1; use the accountant 'pld' for this game"
        )
    return float(mechanism.noise_multiplier) / 2


@functools.lru_cache(maxsize=64)
def step_divergence(noise: float, rate: float, orders: tuple[float, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Orders and the library's Renyi divergence of one step at each; infinite if it could not be evaluated."""
    accountant = rdp.RdpAccountant(list(orders) or None)
    with quiet_log("absl"):  # a warning for each order that is left out; the claim's note says so instead
        accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise)))
    orders_used, divergence = np.asarray(accountant.orders, dtype=np.float64), np.asarray(accountant.rdp, dtype=np.float64)
    return orders_used, np.where(divergence > 0, divergence, _convex_bound(noise, rate, orders_used))


def _convex_bound(noise: float, rate: float, orders: Curve) -> Curve:
    """A bound on each divergence, for those that the library's rounding makes 0 or negative: moments are convex in the rate."""
    exponent = orders * (orders - 1) / (2 * noise**2)  # of the unsampled moment
    with np.errstate(over="ignore"):
        log_excess = np.where(exponent > 1, exponent + np.log1p(-np.exp(-exponent)), np.log(np.expm1(np.minimum(exponent, 1))))
    return np.asarray(np.logaddexp(0.0, math.log(rate) + log_excess) / (orders - 1), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ByOrders:
    """Minimises over `orders`, Renyi orders above 1; empty for the library's own list."""

    orders: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(float(order) for order in self.orders))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rdp(_ByOrders):
    """Claims the epsilon that dp-accounting's Renyi accountant gives.

    Guarantee:
        The mechanism is (epsilon, delta)-DP if the library is right (Mironov, Talwar and Zhang 2019 for the
        divergence, Canonne, Kamath and Steinke 2020, Proposition 12, for the conversion). A record's contribution
        is bounded by the clip norm, so replacing a record moves the sum by twice that.

    References: Mironov, Talwar, Zhang 2019, arXiv 1908.10530. Canonne, Kamath, Steinke 2020, arXiv 2004.00010.
    """

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The claim at `delta`; infinite if the mechanism gives no guarantee. Raises `UnsupportedMechanism` unless it is
        DP-SGD, and for sampling under replace-one.
        """
        return claim(mechanism, adjacency, delta, orders=self.orders, convert=_improved_epsilon)


def _improved_epsilon(orders: Curve, total: Curve, delta: float) -> tuple[float, str]:
    """The library's own conversion, and a remark on the order it ended on."""
    epsilon, order = rdp.compute_epsilon(orders, total, delta)
    dropped_orders = int(np.sum(~np.isfinite(total)))
    notes = [phrase("best order {order}", order=f"{order:g}")]
    if dropped_orders:
        notes.append(phrase("{count} order(s) the library could not evaluate were left out", count=dropped_orders))
    return max(0.0, float(epsilon)), join_clauses(notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RdpClassic(_ByOrders):
    """Claims the minimum over orders of `R(order) + ln(1/delta) / (order - 1)`.

    The figure that most published work before 2020 states; never below what the improved conversion gives.

    Guarantee: Mironov 2017, Proposition 3, given the library's Renyi divergences.

    References: Mironov 2017, arXiv 1702.07476. Abadi et al. 2016, arXiv 1607.00133.
    """

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The claim at `delta`; infinite if the mechanism gives no guarantee. Raises `UnsupportedMechanism` unless it is
        DP-SGD, and for sampling under replace-one.
        """
        return claim(mechanism, adjacency, delta, orders=self.orders, convert=_classic, classic=True)


def _classic(orders: Curve, total: Curve, delta: float) -> tuple[float, str]:
    """The classic conversion, and a remark on the order it ended on."""
    epsilons = total + math.log(1 / delta) / (orders - 1)
    best = int(np.argmin(epsilons))
    return float(epsilons[best]), phrase("best order {order}", order=f"{orders[best]:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DpAccountingRdp:
    """States what the library states.

    References: github.com/google/differential-privacy, python/dp_accounting.
    """

    as_it_is: ClassVar[bool] = True

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta`; `UnsupportedMechanism` if the library says that it does not support the event."""
        accountant = rdp.RdpAccountant(neighboring_relation=_as_it_is.RELATIONS[adjacency])
        try:
            with quiet_log("absl"):  # a warning for each order that the library leaves out
                accountant.compose(dp_events(mechanism, dp_accounting))
        except UnsupportedEventError as error:
            raise UnsupportedMechanism(f"dp-accounting's RDP accountant: {error}") from error
        return _as_it_is.figure(
            accountant.get_epsilon(delta), package="dp-accounting", method="RDP, as it is", delta=delta, adjacency=adjacency
        )

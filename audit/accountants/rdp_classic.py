"""Renyi accounting by dp-accounting with the classic conversion, shown beside the tighter one."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import dp_accounting
import numpy as np
from dp_accounting import rdp
from numpy.typing import NDArray

from audit.core import checks
from audit.core.errors import UnsupportedMechanism
from audit.core.events import phases
from audit.core.mechanism import Adjacency, DpSgd, Event, NonPrivate
from audit.core.results import Claim


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
        """The claim at `delta`; infinite where the mechanism gives no guarantee.

        Raises:
            UnsupportedMechanism: subsampling under replace-one, which the library does not cover, or not DP-SGD.
        """
        checks.open_probability(delta, "delta")
        source = f"dp-accounting {importlib.metadata.version('dp-accounting')} RDP, classic conversion"
        if isinstance(mechanism, NonPrivate):
            epsilon, note = math.inf, "no noise was added"
        else:
            parts = [DpSgd(noise_multiplier=n, clip_norm=1.0, sample_rate=q, steps=t) for n, q, t in phases(mechanism)]
            epsilon, note = self._dp_sgd(parts, float(delta), adjacency)
        return Claim(epsilon=epsilon, delta=float(delta), adjacency=adjacency, source=source, note=note)

    def _dp_sgd(self, parts: list[DpSgd], delta: float, adjacency: Adjacency) -> tuple[float, str]:
        released = [part for part in parts if part.steps > 0 and part.sample_rate > 0]
        if not released:
            return 0.0, "nothing is released about any record"
        if any(part.noise_multiplier == 0 for part in released):
            return math.inf, "no noise is added"
        total = np.zeros(1)
        for part in released:
            orders, per_step = step_divergence(_effective_noise(part, adjacency), float(part.sample_rate), self.orders)
            total = total + per_step * int(part.steps)
        epsilons = total + math.log(1 / delta) / (orders - 1)
        best = int(np.argmin(epsilons))
        return float(epsilons[best]), f"best order {orders[best]:g}"


def _effective_noise(mechanism: DpSgd, adjacency: Adjacency) -> float:
    """Noise over sensitivity: replacing a record moves the clipped sum by two clip norms."""
    if adjacency is not Adjacency.REPLACE_ONE:
        return float(mechanism.noise_multiplier)
    if mechanism.sample_rate < 1:
        raise UnsupportedMechanism(
            f"dp-accounting's Renyi accountant does not cover Poisson sampling (rate {mechanism.sample_rate:g}) under "
            "replace-one; expected add_remove or zero_out, or sample_rate 1; use the accountant 'pld' for this game"
        )
    return float(mechanism.noise_multiplier) / 2


@lru_cache(maxsize=64)
def step_divergence(noise: float, rate: float, orders: tuple[float, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Orders and the library's Renyi divergence of one step at each; infinite where it could not be evaluated."""
    accountant = rdp.RdpAccountant(list(orders) or None)
    with _quiet():
        accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise)))
    return accountant.orders, accountant.rdp


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The library warns on stderr for each order that it leaves out of the minimum."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


PLUGIN = RdpClassic

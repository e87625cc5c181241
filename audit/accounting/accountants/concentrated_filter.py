"""The filter of fully adaptive composition for concentrated differential privacy: parameters rho are added up, deltas apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

from audit.accounting.accountants._amplified import above_propose_test_release, largest_loss
from audit.accounting.accountants._rewriting import known_uncut
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.deployed_procedures import ProposeTestRelease
from audit.core.errors import UnsupportedMechanism
from audit.core.event_forms import decode, encode
from audit.core.events import (
    ApproximateDp,
    Composed,
    Concentrated,
    Event,
    Exponential,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    Repeated,
)
from audit.core.version import __version__
from audit.stats.curves import renyi


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcentratedFilter:
    """Claims what approximate zCDP gives: pure releases of epsilon are `epsilon^2 / 2`-zCDP, Gaussian ones `1 / (2 noise^2)`.

    As the accountant of a ledger it is a filter, also if later releases are chosen after seeing earlier ones; sampled
    releases are refused, since zCDP does not know them.

    Guarantee:
        All releases together are (epsilon, delta)-DP for an adaptive choice of mechanisms under a budget fixed before, up to
        floating-point rounding. No odometer.

    References:
        Whitehouse, Ramdas, Rogers, Wu 2023, arXiv 2203.05481, Theorem 1. Bun, Steinke 2016, arXiv 1605.02065.
    """

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """Return the claim at `delta`; infinite if nothing hides a record, or the releases' own deltas use it up.

        Raises:
            UnsupportedMechanism: some part is not known to be approximately zCDP, or its batches are cut.
        """
        checks.open_probability(delta, "delta")
        mechanism = decode(encode(mechanism))  # every value is checked again: a NaN passes most comparisons
        rho, failure = _parameters(known_uncut(mechanism, adjacency), adjacency)
        remainder = float(delta) - failure
        is_finite = remainder > 0 and math.isfinite(rho)
        return Claim(
            epsilon=(renyi.zcdp_epsilon(rho, remainder) if rho else 0.0) if is_finite else math.inf,
            delta=float(delta),
            adjacency=adjacency,
            source=f"epsilon-audit {__version__} concentrated filter",
        )


def _parameters(event: Event, adjacency: Adjacency) -> tuple[float, float]:  # noqa: PLR0911 (one arm a kind)
    """The rho of an event and the delta beside it."""
    change = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    match event:
        case Repeated(mechanism=inner, count=count):
            rho, failure = _parameters(inner, adjacency)
            return (count * rho, count * failure) if count else (0.0, 0.0)
        case Composed(parts=parts):
            pairs = [_parameters(part, adjacency) for part in parts]
            return math.fsum(rho for rho, _ in pairs), math.fsum(failure for _, failure in pairs)
        case PoissonSampled(mechanism=inner, sample_rate=rate) if rate in (0, 1):
            return _parameters(inner, adjacency) if rate else (0.0, 0.0)
        case NonPrivate() | PoissonSampled(mechanism=NonPrivate()) | Gaussian(noise_multiplier=0):
            return math.inf, 0.0
        case PoissonSampled(mechanism=Gaussian(noise_multiplier=0)):
            return math.inf, 0.0
        case Gaussian(noise_multiplier=noise):
            return change**2 / (2 * float(noise) ** 2), 0.0
        case Concentrated(rho=rho):
            return float(rho), 0.0
        case Exponential(epsilon=epsilon):
            # not / 2: losses are within an interval of length epsilon, a pure mechanism's of twice that
            return float(epsilon) ** 2 / 8, 0.0
        case ProposeTestRelease():
            return _parameters(above_propose_test_release(event), adjacency)
        case ApproximateDp(epsilon=epsilon, delta=delta):
            return float(epsilon) ** 2 / 2, float(delta)
    loss = math.inf if isinstance(event, PoissonSampled) else largest_loss(event, adjacency)
    if math.isinf(loss):
        raise UnsupportedMechanism(f"{event} is not known to be zCDP under {adjacency}; use the accountant 'renyi_filter'")
    return loss**2 / 2, 0.0


PLUGIN = ConcentratedFilter

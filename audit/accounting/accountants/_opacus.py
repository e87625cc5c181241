"""Opacus' accountants as the library is: subjects of the battery."""

from dataclasses import dataclass, replace
from typing import ClassVar

from audit.accounting.accountants import _as_it_is
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, Side
from audit.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class OpacusPrv:
    """States what the library states for its history of (noise multiplier, sample rate, steps).

    References: github.com/meta-pytorch/opacus. Yousefpour et al. 2021, arXiv 2109.12298.
    """

    as_it_is: ClassVar[bool] = True
    side: ClassVar[Side] = "upper"
    method: ClassVar[str] = "PRV"

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta` (its accountant knows DP-SGD under add/remove only); `UnsupportedMechanism` for
        anything else, or if Opacus is not installed.
        """
        return _as_it_is.opacus(self.method, mechanism, delta=delta, adjacency=adjacency)


class OpacusRdp(OpacusPrv):
    """States what the library states by Renyi divergences for its history of (noise multiplier, sample rate, steps)."""

    method = "RDP"


class OpacusGdp(OpacusPrv):
    """States what the library states by a central limit for its history of (noise multiplier, sample rate, steps)."""

    side = "estimate"
    method = "GDP"

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        note = "a central limit: an approximation, not a bound"
        claim = _as_it_is.opacus(self.method, mechanism, delta=delta, adjacency=adjacency, note=note)
        return replace(claim, family="gdp")

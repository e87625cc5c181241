"""Opacus' PRV accountant as the library is: a subject of the battery."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from audit.accounting.accountants import _as_it_is
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, Side
from audit.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class OpacusPrv:
    """States what the library states for its history of (noise multiplier, sample rate, steps).

    References:
        github.com/meta-pytorch/opacus. Yousefpour et al. 2021, arXiv 2109.12298.
    """

    as_it_is: ClassVar[bool] = True
    side: ClassVar[Side] = "upper"

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta` (its accountant knows DP-SGD under add/remove only).

        Raises:
            UnsupportedMechanism: something else, or Opacus is not installed.
        """
        return _as_it_is.opacus("PRV", mechanism, delta=delta, adjacency=adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpacusRdp:
    """States what the library states for its history of (noise multiplier, sample rate, steps).

    References:
        github.com/meta-pytorch/opacus. Yousefpour et al. 2021, arXiv 2109.12298.
    """

    as_it_is: ClassVar[bool] = True
    side: ClassVar[Side] = "upper"

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta` (its accountant knows DP-SGD under add/remove only).

        Raises:
            UnsupportedMechanism: something else, or Opacus is not installed.
        """
        return _as_it_is.opacus("RDP", mechanism, delta=delta, adjacency=adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpacusGdp:
    """States what the library states for its history of (noise multiplier, sample rate, steps).

    References:
        github.com/meta-pytorch/opacus. Yousefpour et al. 2021, arXiv 2109.12298.
    """

    as_it_is: ClassVar[bool] = True
    side: ClassVar[Side] = "estimate"

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta` (its accountant knows DP-SGD under add/remove only).

        Raises:
            UnsupportedMechanism: something else, or Opacus is not installed.
        """
        library_claim = _as_it_is.opacus(
            "GDP",
            mechanism,
            delta=delta,
            adjacency=adjacency,
            note="a central limit: an approximation, not a bound",
        )
        return replace(library_claim, family="gdp")

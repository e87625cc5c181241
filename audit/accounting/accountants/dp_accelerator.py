"""dp-accelerator's Renyi accountant of DP-SGD as the library is: a subject of the battery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.accounting.accountants import _as_it_is
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.event_reading import single_phase
from audit.core.events import Event

PACKAGE = "dp-accelerator"


@dataclass(frozen=True, slots=True, kw_only=True)
class DpAccelerator:
    """States what the library states for one phase of DP-SGD under add/remove.

    References:
        pypi.org/project/dp-accelerator.
    """

    as_it_is: ClassVar[bool] = True

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta`.

        Raises:
            UnsupportedMechanism: something else than one phase, replacing a record, or the library is not installed.
        """
        _as_it_is.add_remove_only(PACKAGE, adjacency)
        noise, rate, steps = single_phase(mechanism)
        accountant = _as_it_is.library("dp_accelerator", PACKAGE).DPSGDAccountant(noise, 1, 1)
        accountant.q = rate  # which it takes as a batch over a data set, so of any rate only rounded
        epsilon = accountant.get_epsilon(steps, delta)
        return _as_it_is.figure(epsilon, package=PACKAGE, method="RDP", delta=delta, adjacency=adjacency)


PLUGIN = DpAccelerator

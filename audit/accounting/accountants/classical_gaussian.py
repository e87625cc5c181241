"""The textbook formula for the Gaussian mechanism, proved for epsilon below 1 only; here to be judged, not used."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import single_phase
from audit.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicalGaussian:
    """Claims `sqrt(2 ln(1.25 / delta)) / noise_multiplier` for one unsampled Gaussian release.

    References:
        Dwork, Roth 2014, Theorem A.1 (epsilon below 1).
    """

    as_it_is: ClassVar[bool] = True

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The formula's epsilon; `UnsupportedMechanism` for anything but one release under add/remove."""
        noise, rate, steps = single_phase(mechanism)
        if adjacency is Adjacency.REPLACE_ONE or rate != 1 or steps != 1 or not noise > 0 or not 0 < delta < 1:
            raise UnsupportedMechanism(
                f"{mechanism} is not one Gaussian release under add_remove, all the formula speaks about"
            )
        epsilon = math.sqrt(2 * math.log(1.25 / delta)) / noise
        note = "" if epsilon < 1 else "not proved for an epsilon of 1 or more"
        return Claim(epsilon=epsilon, delta=delta, adjacency=adjacency, source="classical Gaussian formula", note=note)


PLUGIN = ClassicalGaussian

"""dp-accounting's PLD accountant as the library is, unconverted and unchecked: a subject of the battery.

For claims use 'pld', which checks and converts what this passes on as it is.
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass

import dp_accounting
from dp_accounting import pld
from dp_accounting.privacy_accountant import NeighboringRelation, UnsupportedEventError

from audit.core.errors import UnsupportedMechanism
from audit.core.events import dp_events
from audit.core.mechanism import Adjacency, Event
from audit.core.results import Claim

_RELATIONS = {
    Adjacency.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
    Adjacency.ZERO_OUT: NeighboringRelation.REPLACE_SPECIAL,
    Adjacency.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DpAccountingPld:
    """States what the library states.

    Attributes:
        interval: width of the loss grid; the library's own default.

    References:
        github.com/google/differential-privacy, python/dp_accounting.
    """

    interval: float = 1e-4

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta`.

        Raises:
            UnsupportedMechanism: the library says that it does not support the event.
        """
        accountant = pld.PLDAccountant(_RELATIONS[adjacency], self.interval)
        try:
            accountant.compose(dp_events(mechanism, dp_accounting))
        except UnsupportedEventError as error:
            raise UnsupportedMechanism(f"dp-accounting's PLD accountant: {error}") from error
        version = importlib.metadata.version("dp-accounting")
        return Claim(
            epsilon=float(accountant.get_epsilon(delta)),
            delta=delta,
            adjacency=adjacency,
            source=f"dp-accounting {version} PLD, as it is",
            note="the library's figure, unchecked",
        )


PLUGIN = DpAccountingPld

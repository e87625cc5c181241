"""dp-accounting's RDP accountant as the library is, unconverted and unchecked: a subject of the battery.

For claims use 'rdp', which checks and converts what this passes on as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import dp_accounting
from dp_accounting import rdp
from dp_accounting.privacy_accountant import UnsupportedEventError

from audit.accounting.accountants import _as_it_is
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import UnsupportedMechanism
from audit.core.event_forms import dp_events
from audit.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class DpAccountingRdp:
    """States what the library states.

    References:
        github.com/google/differential-privacy, python/dp_accounting.
    """

    as_it_is: ClassVar[bool] = True

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The library's epsilon at `delta`.

        Raises:
            UnsupportedMechanism: the library says that it does not support the event.
        """
        accountant = rdp.RdpAccountant(neighboring_relation=_as_it_is.RELATIONS[adjacency])
        try:
            accountant.compose(dp_events(mechanism, dp_accounting))
        except UnsupportedEventError as error:
            raise UnsupportedMechanism(f"dp-accounting's RDP accountant: {error}") from error
        return _as_it_is.figure(
            accountant.get_epsilon(delta), package="dp-accounting", method="RDP, as it is", delta=delta, adjacency=adjacency
        )


PLUGIN = DpAccountingRdp

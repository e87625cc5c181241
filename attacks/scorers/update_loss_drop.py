"""Who receives every update: whether it makes an example's loss fall."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _canary_reading as canary_reading
from attacks.signals.update_loss_drops import UpdateLossDrops
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateLossDrop:
    """Scores examples inside clients, for who sees each update alone: their loss before a round minus that after it.

    References:
        Nasr, Shokri, Houmansadr 2019, arXiv 1812.00910, section 4 (passive attackers of federated learning).
    """

    @property
    def needs(self) -> Needs:
        """The losses of examples before and after what is seen."""
        return Needs(signals={UpdateLossDrops()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """The sum of each example's falls over rounds, `(m,)` float64."""
        return np.asarray(canary_reading.products(target, "update_loss_drop", UpdateLossDrops.key).sum(axis=1))


PLUGIN = UpdateLossDrop

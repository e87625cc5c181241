"""Who gets every released model: whether the canary's part changes from round to round if fresh noise would hide that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _canary_reading as canary_reading
from attacks.signals._rounds import ModelProducts
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSpread:
    """Scores canary clients by the variance of their inner products over rounds.

    A client takes part in some rounds only, so its part comes and goes. Fresh noise in each round drowns that; noise that is
    the same in every round cancels from the differences and hides nothing, although every single round looks as it should.
    """

    @property
    def needs(self) -> Needs:
        """All released models, and canary clients."""
        return Needs(signals={ModelProducts()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Variance over rounds of each canary client's inner products, `(m,)` float64."""
        return np.asarray(canary_reading.products(target, "round_spread", ModelProducts.key).var(axis=1))


PLUGIN = RoundSpread

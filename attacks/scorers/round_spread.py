"""Whether the canary's part changes from round to round if fresh noise would hide that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.scorers._rounds import ViewScorer
from audit.core.data import Array
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSpread(ViewScorer):
    """Scores canary clients by the variance of their inner products over rounds.

    A client takes part in some rounds only, so its part comes and goes. Fresh noise in each round drowns that; noise that is
    the same in every round cancels from the differences and hides nothing, although every single round looks as it should.
    """

    attack = "round_spread"

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Variance over rounds of each canary client's inner products, `(m,)` float64."""
        return np.asarray(self.products(target).var(axis=1))


PLUGIN = RoundSpread

"""Whether a canary's part goes beyond what bounded noise could reach without it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.scorers._rounds import ViewScorer
from audit.core.data import Array
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundExtreme(ViewScorer):
    """Scores canary clients by their largest inner product over rounds.

    Noise of the right variance that ends somewhere (uniform, cut off) hides nothing beyond its end.
    """

    attack = "round_extreme"

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Return the largest inner product of each canary client, `(m,)` float64."""
        return np.asarray(self.products(target).max(axis=1))


PLUGIN = RoundExtreme

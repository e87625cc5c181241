"""Whether in some round a canary's part is there exactly, as if nothing had been added to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.scorers._rounds import ViewScorer
from audit.core.data import Array
from audit.core.seeds import Seed
from audit.core.views import View

_SMALLEST = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundExactness(ViewScorer):
    """Scores canary clients by minus the logarithm of the least distance to 1 of their inner products, over rounds.

    A client that takes part adds 1 to the product, so one round without noise gives it away, although the sum over all
    rounds, which has the noise of the others, looks as it should. So does noise that is a multiple of something coarse.
    """

    attack = "round_exactness"

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Return how exactly each canary client was there in some round, `(m,)` float64."""
        return np.asarray(-np.log(np.abs(self.products(target) - 1).min(axis=1) + _SMALLEST))


PLUGIN = RoundExactness

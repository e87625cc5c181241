"""Modified entropy: concentration on the right class speaks for membership, on a wrong one against it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals.logits import Logits
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import signals


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifiedEntropy:
    """Scores each canary with minus the modified entropy of its prediction; finite, averaged over queries.

    References:
        Song and Mittal 2021, arXiv 2003.10595, section 3.2.
    """

    @property
    def needs(self) -> Needs:
        """Outputs of the final model; no references."""
        return Needs(signals={Logits()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Minus the modified entropy, `(m,)` float64."""
        logits, labels = reading.logits(target, "modified_entropy")
        return -np.asarray(signals.modified_entropy(logits, labels).mean(axis=0))


PLUGIN = ModifiedEntropy

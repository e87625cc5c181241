"""Near records: a record's membership judged beside how sure the model is of the records near it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals.nearby_confidences import NearbyConfidences
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import nearby


@dataclass(frozen=True, slots=True, kw_only=True)
class NearRecords:
    """Scores each canary with log odds of membership, from the features of `learned_combination` and from near canaries.

    A model that happened to train on records like this one is surer of it, and a model that saw no records of that region is
    less sure, whether or not it trained on the record. What the target says of the nearest other canaries, above what
    references say of them, shows which. The regression is fitted with every reference once in the target's place; the target
    and its coins take no part, so bounds hold as for any fixed attack. Finite.

    Attributes:
        rows: about how many (reference, canary) pairs to train on at most (whole references; of more records than
            that an evenly spread part of one).

    References:
        Du et al. 2025, arXiv 2507.21412 (inference that conditions on what is guessed of other records; there by references
        trained anew for each target). This form, without any training, is the project's own.
    """

    rows: int = 64_000

    @property
    def needs(self) -> Needs:
        """Outputs of the final model for records with known inputs, and three references."""
        return Needs(signals={NearbyConfidences()}, references=3)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Log odds of membership, `(m,)` float64."""
        included = reading.memberships(reference, 3, "near_records", online=True)
        target_values, reference_values = reading.signal_pair(NearbyConfidences.key, target, reference, "near_records")
        return nearby.nearby_log_odds(
            np.swapaxes(target_values, -1, -2), np.swapaxes(reference_values, -1, -2), included, self.rows
        )


PLUGIN = NearRecords

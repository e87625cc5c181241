"""The most that a claim leaves an attack: true positives at a rate of false ones, right guesses of secrets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit.bounds import group_privacy
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.data import Array
from audit.core.results import LimitCurve
from audit.stats.curves import tradeoff


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLimits:
    """What is left by a claim at its (epsilon, delta), and by the whole curve of the mechanism if it is known.

    Attributes:
        claim: about one record, or a group that counts as one; None if no one claims anything.
        limit: of the claimed mechanism under adding or removing a record.
    """

    claim: Claim | None = None
    limit: LimitCurve | None = None

    def of_group(self, records: int) -> ClaimLimits:
        """Return what is left for a group of so many records; the curve speaks of one, and is dropped for more."""
        if records == 1 or self.claim is None:
            return self if records == 1 else ClaimLimits()
        return ClaimLimits(claim=group_privacy.claim(self.claim, records))

    @property
    def is_vacuous(self) -> bool:
        """True if nothing is excluded at any rate."""
        return self.limit is None and (self.claim is None or math.isinf(self.claim.epsilon))

    def tpr(self, fpr: Array | float) -> Array:
        """The largest rate of true positives at each rate of false ones, in the shape of `fpr`; 1 if nothing is excluded."""
        rates = np.ones_like(np.asarray(fpr, dtype=np.float64))
        if self.claim is not None:
            rates = np.minimum(rates, tradeoff.tpr_allowed(self.claim.epsilon, min(self.claim.delta, 1.0), fpr))
        return rates if self.limit is None else np.minimum(rates, np.interp(fpr, self.limit.fpr, self.limit.tpr))

    def right_guesses(self, prior: Array) -> float | None:
        """The largest expected share of right guesses over secrets with these priors `(secrets, values)`; None without a claim.

        Add/remove and zeroing out: `1 - f(largest prior)`, f the (epsilon, delta) pair's or the mechanism's whole curve.
        Replacing: the form for one value against the others if it is less.
        """
        if self.claim is None:
            return None
        largest = prior.max(axis=1)
        rates = self.tpr(largest)
        if self.claim.adjacency is Adjacency.REPLACE_ONE and math.isfinite(self.claim.epsilon):
            factor = math.exp(min(self.claim.epsilon, 700.0)) * largest
            rates = np.minimum(rates, (factor + self.claim.delta * (1 - largest)) / (factor + 1 - largest))
        return float(rates.mean())

"""The hypothesis, on paper before anything is trained: what owners and accountants claim of a training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.accounting import calibration
from audit.bounds import group_privacy
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.data import Array
from audit.core.event_reading import is_non_private, repetition, unit
from audit.core.events import Event
from audit.core.results import LimitCurve, Trajectory
from audit.event_curves import find_curves
from audit.experiment.games.spec import TrainingDesign
from audit.stats.curves import tradeoff


# The most that a claim leaves an attack: true positives at a rate of false ones, right guesses of secrets.
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


LEAST_FPR = 1e-5
LIMIT_POINTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedClaims:
    """What is claimed of a training before it starts, and the most that this leaves any attack."""

    claims: tuple[Claim, ...]
    limit: LimitCurve | None = None

    @property
    def tightest(self) -> Claim | None:
        """The smallest epsilon that anyone states."""
        return min(self.claims, key=lambda claim: claim.epsilon, default=None)

    @property
    def claim_limits(self) -> ClaimLimits:
        return ClaimLimits(claim=self.tightest, limit=self.limit)


def state(training_design: TrainingDesign, delta: float) -> StatedClaims:
    """Return what owners and accountants claim of a recipe, and the limit that its mechanism sets."""
    mechanism, adjacency = training_design.mechanism, training_design.adjacency
    computed_claims = [part.claim(mechanism, delta=delta, adjacency=adjacency) for part in training_design.accountants]
    finite = [claim for claim in computed_claims if math.isfinite(claim.epsilon)]
    all_claims = [*(replace(claim, adjacency=adjacency) for claim in training_design.declared), *finite]
    claims = tuple(replace(claim, unit=unit(mechanism)) for claim in all_claims)
    return StatedClaims(claims=claims, limit=limit_curve(mechanism, adjacency))


def limit_curve(event: Event, adjacency: Adjacency) -> LimitCurve | None:
    """Return the most true positives that the mechanism itself leaves any attack; None if it has no such curve.

    It is the curve of one record's presence; the add direction is the same test with the roles exchanged, and a record that is
    zeroed out gives the same two laws of the sum.
    """
    curves = find_curves(event)
    if curves is None or curves.noise_multiplier == 0 or adjacency is Adjacency.REPLACE_ONE:
        return None
    fpr = np.concatenate([[0.0], np.geomspace(LEAST_FPR, 1, LIMIT_POINTS - 1)])
    tpr = curves.at(curves.noise_multiplier).tpr(fpr)
    source = "privacy-loss distribution of the claimed noise, sampling and steps"
    return LimitCurve(fpr=tuple(fpr.tolist()), tpr=tuple(tpr.tolist()), source=source)


def charged(training_design: TrainingDesign, claims: Sequence[Claim], delta: float) -> tuple[Trajectory, ...]:
    """Return what each accountant charges over the steps; nothing for a mechanism without a guarantee."""
    training = repetition(training_design.mechanism)
    if training is None or is_non_private(training) or not claims:
        return ()
    accountants, adjacency = training_design.accountants, claims[0].adjacency
    return tuple(calibration.trajectory(part, training, delta=delta, adjacency=adjacency) for part in accountants)

"""The hypothesis, on paper before anything is trained: what owners and accountants claim of a training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.accounting import calibration
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.event_reading import is_non_private, repetition, unit
from audit.core.events import Event
from audit.core.results import LimitCurve, Trajectory
from audit.event_curves import find_curves
from audit.experiment.games.claim_limits import ClaimLimits
from audit.experiment.games.spec import TrainingDesign

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
        """Return what the tightest claim and the mechanism's curve leave an attack on one record."""
        return ClaimLimits(claim=self.tightest, limit=self.limit)


def state(training_design: TrainingDesign, delta: float) -> StatedClaims:
    """Return what owners and accountants claim of a recipe, and the limit that its mechanism sets."""
    computed_claims = [
        accountant.claim(training_design.mechanism, delta=delta, adjacency=training_design.adjacency)
        for accountant in training_design.accountants
    ]
    finite = [claim for claim in computed_claims if math.isfinite(claim.epsilon)]
    protection_unit = unit(training_design.mechanism)
    all_claims = [*(replace(claim, adjacency=training_design.adjacency) for claim in training_design.declared), *finite]
    claims = tuple(replace(claim, unit=protection_unit) for claim in all_claims)
    return StatedClaims(claims=claims, limit=limit_curve(training_design.mechanism, training_design.adjacency))


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
    return tuple(
        calibration.trajectory(accountant, training, delta=delta, adjacency=claims[0].adjacency)
        for accountant in training_design.accountants
    )

"""Likelihood-ratio attack: is this confidence more like that of models with the record, or without it?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks import views
from audit.core.errors import ConfigError, ObservationError
from audit.core.protocols import Needs
from audit.core.records import Array, ReferenceView, TargetView
from audit.core.seeds import Seed
from audit.stats import normal, reference_fit

_VARIANCES = ("fixed", "per_example", "shrunk")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lira:
    """Log-likelihood ratio of the target's logit-scaled confidence, fitted on reference models.

    Online: `log p(x | member) - log p(x | nonmember)` with one normal law per canary and side. Offline:
    how far `x` lies above the models without the canary, one-sided; a confidence that is merely unusual
    on the low side is no evidence of membership. Scores are finite; several queries are added up
    (online) or averaged (offline).

    Canaries with few references: a canary without any reference on one side takes the mean of the other
    side, moved by the average shift between sides over the canaries that have both. A side with fewer
    than two references for a canary takes the fixed variance in place of its own.

    Attributes:
        online: use the references that trained on the canary, too.
        variance: "fixed": one standard deviation per side, that of residuals after centring each canary
            on its own mean (degrees of freedom counted); "per_example": each canary its own, for about
            64 references and more; "shrunk": posterior of each canary's variance given the fixed one,
            with the Student-t predictive law that belongs to it, which is right for any number.
        prior_strength: for "shrunk", how many observations the fixed variance counts for.

    References:
        Carlini et al. 2022, arXiv 2112.03570, algorithm 1. For "shrunk": the conjugate normal-inverse-gamma
        model, as used for this attack in arXiv 2603.11799.
    """

    online: bool = True
    variance: str = "fixed"
    prior_strength: float = 8.0

    def __post_init__(self) -> None:
        if self.variance not in _VARIANCES:
            raise ConfigError(f"lira.variance is '{self.variance}'; expected one of {', '.join(_VARIANCES)}")
        if not 0 < self.prior_strength < np.inf:
            raise ConfigError(f"lira.prior_strength is {self.prior_strength}; expected a finite number above 0")

    @property
    def needs(self) -> Needs:
        """Outputs of the final model and at least two references."""
        return Needs(references=2)

    def score(self, target: TargetView, reference: ReferenceView, seed: Seed) -> Array:
        """Log-likelihood ratio (online) or one-sided deviation (offline) of each canary, `(m,)` float64."""
        views.require_references(reference, 2, "lira")
        ours, theirs = views.confidences(target, reference, "lira")
        included = np.asarray(reference.included, dtype=bool)
        per_query = [self._score_one(ours[q], theirs[:, q], included) for q in range(len(ours))]
        return np.asarray(np.sum(per_query, axis=0) if self.online else np.mean(per_query, axis=0))

    def _score_one(self, ours: Array, theirs: Array, included: Array) -> Array:
        if included.all():
            raise ObservationError("every reference model of lira trained on every canary; it needs some without")
        if self.online and not included.any():
            raise ObservationError(
                "no reference model of lira trained on any canary; set online: false, or let references draw coins"
            )
        member, nonmember = reference_fit.sides(theirs, included)
        if not self.online:
            return self._standardised(ours, nonmember)
        return self._log_density(ours, member) - self._log_density(ours, nonmember)

    def _log_density(self, x: Array, side: reference_fit.Side) -> Array:
        if self.variance == "shrunk":
            dof, scale = reference_fit.shrunk(side, self.prior_strength)
            return normal.log_student_density(x, dof, side.mean, scale)
        return normal.log_normal_density(x, side.mean, self._std(side))

    def _standardised(self, x: Array, side: reference_fit.Side) -> Array:
        if self.variance == "shrunk":
            dof, scale = reference_fit.shrunk(side, self.prior_strength)
            return normal.student_score((x - side.mean) / scale, dof)
        return np.asarray((x - side.mean) / self._std(side))

    def _std(self, side: reference_fit.Side) -> Array:
        if self.variance == "fixed":
            return np.asarray(side.fixed_std)
        return reference_fit.per_example_std(side)


PLUGIN = Lira

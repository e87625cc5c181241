"""Likelihood-ratio attack: is this confidence more like that of models with the record, or without it?"""

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals._queries import AugmentedLogits, require_count
from attacks.signals.logits import Confidences, Logits, Losses
from audit.core import checks
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import membership

_FIXED_FROM = 64  # references from which on a common standard deviation is no worse than one for each canary and side


@dataclass(frozen=True, slots=True, kw_only=True)
class Lira:
    """Log-likelihood ratio of the target's logit-scaled confidence, fitted on reference models.

    Online: `log p(x | member) - log p(x | nonmember)` with one normal law per canary and side. Offline:
    how many standard deviations `x` is above the models without the canary, one-sided; a confidence
    that is merely unusual on the low side is no evidence of membership. Scores are finite; several
    queries are added up (online) or averaged (offline).

    Canaries with few references: a canary without any reference on one side takes the mean of the other
    side, moved by the average shift between sides over the canaries that have both. A side with fewer
    than two references for a canary takes the fixed variance in its own place.

    Attributes:
        online: use the references that trained on the canary, too.
        variance: "fixed": one standard deviation per side, that of residuals after centring each canary
            on its own mean (degrees of freedom counted); "predictive": the same, widened by the error of the canary's
            mean over n models, `sqrt(1 + 1 / n)`; "per_example": each canary its own, for about
            64 references and more; "shrunk": posterior of each canary's variance given the fixed one,
            with the Student-t predictive law that belongs to it. If None, "shrunk" below 64 references, "fixed" from 64 on.
        prior_strength: for "shrunk", how many observations the fixed variance counts for.
        shift: online only; "own": the difference between a canary's two means as it is, as in the paper; "shrunk":
            as far as that difference is more than noise over few models. With 8 models a side the plain
            difference of a weakly memorised canary is mostly noise and even its sign is often wrong, which
            costs the plain attack much of its power against DP training.
        augmentations: views of each image to ask about: itself, mirrored, shifted by a pixel (18 at most). For models that were
            trained on such views; others remember the image alone, and further views dilute what it shows.

    Other implementations that differ: the offline score of the original research code (and of what copied
    it) is the two-sided log-density, two times (fixed variance) to ten times (per example) weaker at low false
    positive rates; its fixed variance takes the spread of members for both sides.

    References:
        Carlini et al. 2022, arXiv 2112.03570, algorithm 1. For "shrunk": the conjugate normal-inverse-gamma
        model, proposed for this attack by Brännvall 2026, arXiv 2603.11799.
    """

    online: bool = True
    variance: str | None = None
    prior_strength: float = 8.0
    shift: str = "own"
    augmentations: int = 1

    def __post_init__(self) -> None:
        if self.variance is not None:
            checks.choice(self.variance, "lira.variance", membership.VARIANCES)
        if not 0 < self.prior_strength < np.inf:
            raise ConfigError(f"lira.prior_strength is {self.prior_strength}; expected a finite number above 0")
        require_count(self.augmentations, "lira")
        if self.shift not in ("own", "shrunk"):
            raise ConfigError(f"lira.shift is '{self.shift}'; expected own or shrunk")

    @property
    def needs(self) -> Needs:
        if self.augmentations > 1:
            return Needs(signals={AugmentedLogits(views=self.augmentations)}, references=2)
        return Needs(signals={Logits()}, instead={Losses()}, reductions={Confidences()}, references=2)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        included = reading.memberships(reference, 2, "lira", online=self.online)
        key = AugmentedLogits(views=self.augmentations).key if self.augmentations > 1 else Logits.key
        target_values, reference_values = reading.confidences(target, reference, "lira", key)
        queries = [(target_values[q], reference_values[:, q]) for q in range(len(target_values))]
        variance = self.variance or ("shrunk" if len(reference) < _FIXED_FROM else "fixed")
        strength, shrink = self.prior_strength, self.shift == "shrunk"
        if self.online:
            ratios = [
                membership.likelihood_ratio(x, y, included, variance=variance, prior_strength=strength, shrink_shift=shrink)
                for x, y in queries
            ]
            return np.asarray(np.sum(ratios, axis=0))
        above = [membership.deviation(x, y, included, variance=variance, prior_strength=strength) for x, y in queries]
        return np.asarray(np.mean(above, axis=0))


PLUGIN = Lira

"""Learned combination: all that the references say of a record, weighed as the references show it should be."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _reading as reading
from attacks.signals import _temperature
from attacks.signals.confidences import Confidences
from attacks.signals.logits import Logits
from attacks.signals.losses import Losses
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import learned_score
from audit.stats.scoring.temperature import GRID


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedCombination:
    """Scores each canary with log odds of membership, from features that compare the record between models.

    Features: the confidence, its mean and spread over models with and without the record, and the log
    ratio of RMIA, with all products of two: the log-likelihood ratio of LiRA is among their combinations,
    and the fit learns how far to trust means over few models. A ridge logistic regression is fitted with
    every reference once in the target's place against the others; the target and its coins take no
    part. Finite.

    Attributes:
        rows: about how many (reference, canary) pairs to train on at most (whole references; of more records than
            that an evenly spread part of one).

    References:
        Features: Carlini et al. 2022, arXiv 2112.03570; Zarifzadeh et al. 2024, arXiv 2312.03262.
    """

    rows: int = 64_000

    @property
    def needs(self) -> Needs:
        """Outputs of the final model and four references."""
        reductions = {Confidences(temperature=degree) for degree in GRID}
        return Needs(signals={Logits()}, instead={Losses()}, reductions=reductions, references=4)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Log odds of membership, `(m,)` float64."""
        included = reading.memberships(reference, 4, "learned_combination", online=True)
        target_values, reference_values = reading.mean_confidences(target, reference, "learned_combination")
        temperature = _temperature.fitted_temperature(target, reference, "learned_combination", online=True)
        log_p = _temperature.tempered_log_p(target, reference, "learned_combination", temperature)
        return learned_score.learned_log_odds(target_values, reference_values, included, self.rows, log_p)


PLUGIN = LearnedCombination

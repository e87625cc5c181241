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


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedCombination:
    """Scores each canary with log odds of membership, from features that compare the record between models.

    Features: the confidence, the record's level without it and the shift that training on it brings, shrunk as far as it is
    noise over few models, the log ratios of RMIA online and offline at three temperatures, the log-likelihood ratio of LiRA
    and its offline deviation; of the first five all products of two. A ridge logistic regression is fitted with
    every reference once in the target's place against the others, and again for the tail; the target and its coins take no
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
        """Outputs of the final model and two references."""
        reductions = {Confidences(temperature=degree) for degree in learned_score.TEMPERATURES}
        return Needs(signals={Logits()}, instead={Losses()}, reductions=reductions, references=2)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Log odds of membership, `(m,)` float64."""
        included = reading.memberships(reference, 2, "learned_combination", online=True)
        target_values, reference_values = reading.mean_confidences(target, reference, "learned_combination")

        def log_p_at(degree: float) -> tuple[Array, Array]:
            return _temperature.tempered_log_p(target, reference, "learned_combination", degree)

        return learned_score.learned_log_odds(target_values, reference_values, included, self.rows, log_p_at)


PLUGIN = LearnedCombination

"""Learned combination: all that the references say of a record, weighed as the references show it should be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks import views
from audit.core.protocols import Needs
from audit.core.records import Array, ReferenceView, TargetView
from audit.core.seeds import Seed
from audit.stats import logistic, membership, reference_fit


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedCombination:
    """Scores each canary with log odds of membership, from features that compare the record between models.

    Features: the confidence, its mean and spread over models with and without the record, and the log
    ratio of RMIA, with all products of two (which contain the log-likelihood ratio of LiRA and lets the
    fit shrink its noisy means). A ridge logistic regression is fitted with every reference once in the
    target's place against the others; the target and its coins take no part. Finite.

    Attributes:
        rows: about how many (reference, canary) pairs to train on at most (whole references are taken).

    References:
        Features: Carlini et al. 2022, arXiv 2112.03570; Zarifzadeh et al. 2024, arXiv 2312.03262.
    """

    rows: int = 200_000

    @property
    def needs(self) -> Needs:
        """Outputs of the final model and four references."""
        return Needs(references=4)

    def score(self, target: TargetView, reference: ReferenceView, seed: Seed) -> Array:
        """Log odds of membership, `(m,)` float64."""
        included = views.memberships(reference, 4, "learned_combination", online=True)
        ours, theirs = views.mean_confidences(target, reference, "learned_combination")
        log_p, their_log_p = -np.logaddexp(0.0, -ours), -np.logaddexp(0.0, -theirs)
        used = max(1, min(len(theirs), self.rows // max(theirs.shape[1], 1)))
        ratios = membership.log_ratio_of_references(their_log_p, included, online=True, offline_weight=0.3)
        training = _features(theirs, reference_fit.leave_one_out(theirs, included), ratios, used)
        fitted = logistic.fit(training, included[:used].ravel(), ridge=1e-4)
        ratio = membership.log_ratio(log_p, their_log_p, included, online=True, offline_weight=0.3)
        return fitted.log_odds(_features(ours[None], reference_fit.sides(theirs, included), ratio[None], 1))


def _features(confidence: Array, sides: tuple[reference_fit.Side, reference_fit.Side], ratio: Array, used: int) -> Array:
    """`(used * m, features)` for the first `used` models, one row a model and record."""
    member, nonmember = sides
    unit = nonmember.fixed_std
    columns = [
        confidence / unit,
        nonmember.mean / unit,
        member.mean / unit,
        ratio,
        np.log(reference_fit.per_example_std(nonmember) / unit),
        np.log(reference_fit.per_example_std(member) / unit),
    ]
    rows = [np.atleast_2d(column)[:used].ravel() for column in columns]
    return logistic.with_squares(np.stack(rows, axis=1))


PLUGIN = LearnedCombination

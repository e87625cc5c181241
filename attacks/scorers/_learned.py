"""Attacks that learn from references what members look like."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals import _temperature
from attacks.signals._queries import QueryConfidences
from attacks.signals._white_box import ClassDistances, GradientNorms, LastGradientNorms, LossTrajectory
from attacks.signals.logits import Confidences, Logits, Losses
from attacks.signals.nearby_confidences import NearbyConfidences
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import learned_score, logistic, membership, nearby, reference_fit, signals
from audit.stats.spread import parts


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedCombination:
    """Scores each canary with log odds of membership, from features that compare the record between models.

    Features and fit are those of `learned_score.learned_log_odds`: every reference is once in the target's place against the
    others; the target and its coins take no part. Finite.

    Attributes:
        rows: about how many (reference, canary) pairs to train on at most (whole references; of more records than
            that an evenly spread part of one).

    References: Features: Carlini et al. 2022, arXiv 2112.03570; Zarifzadeh et al. 2024, arXiv 2312.03262.
    """

    rows: int = 64_000
    needs: ClassVar[Needs] = Needs(
        signals={Logits()},
        instead={Losses()},
        reductions={Confidences(temperature=degree) for degree in learned_score.TEMPERATURES},
        references=2,
    )

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        included = reading.memberships(reference, 2, "learned_combination", online=True)
        target_values, reference_values = reading.mean_confidences(target, reference, "learned_combination")

        def log_p_at(degree: float) -> tuple[Array, Array]:
            return _temperature.tempered_log_p(target, reference, "learned_combination", degree)

        return learned_score.learned_log_odds(target_values, reference_values, included, self.rows, log_p_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class NearRecords:
    """Scores each canary with log odds of membership, from the features of `learned_combination` and from near canaries.

    A model that happened to train on records like this one is surer of it, whether or not it trained on the record itself.
    What the target says of the nearest other canaries, above what references say of them, shows that. The regression is fitted
    with every reference once in the target's place; the target and its coins take no part, so bounds hold as for any fixed
    attack. Finite.

    Attributes:
        rows: about how many (reference, canary) pairs to train on at most (whole references; of more records than
            that an evenly spread part of one).

    References:
        Du et al. 2025, arXiv 2507.21412 (inference that conditions on what is guessed of other records; there by references
        trained anew for each target). This form, without any training, is the project's own.
    """

    rows: int = 64_000
    needs: ClassVar[Needs] = Needs(signals={NearbyConfidences()}, references=3)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        included = reading.memberships(reference, 3, "near_records", online=True)
        target_values, reference_values = reading.signal_pair(NearbyConfidences.key, target, reference, "near_records")
        return nearby.nearby_log_odds(
            np.swapaxes(target_values, -1, -2), np.swapaxes(reference_values, -1, -2), included, self.rows
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowClassifier:
    """Scores each canary with the log odds of membership by a classifier trained on the references alone.

    Features of one prediction: the largest log probabilities, that of the true class, the logit-scaled confidence and whether
    it is right, with all products of two; a ridge logistic regression. It does not know the record: the classical attack, kept
    for comparison, and weaker than those that compare the same record between models. Finite.

    Attributes:
        rows: about how many (reference, canary) pairs to train on at most (whole references; of more records than
            that an evenly spread part of one).

    References: Shokri et al. 2017, arXiv 1610.05820; Salem et al. 2019, arXiv 1806.01246.
    """

    top: int = 3
    rows: int = 64_000
    needs: ClassVar[Needs] = Needs(signals={Logits()}, references=1)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        included = reading.memberships(reference, 1, "shadow_classifier", online=True)
        logits, labels = reading.logits(target, "shadow_classifier")
        their_logits = reading.reference_logits(reference, "shadow_classifier")
        models, columns = reference_fit.training_pairs(included, self.rows)
        features = [
            self._features(their_logits[model].reshape(-1, *logits.shape[1:])[:, columns], labels[columns])
            for model in range(models)
        ]
        classifier = logistic.fit(np.concatenate(features), included[:models, columns].ravel())
        scores = np.empty(len(labels))
        for part in parts(len(labels)):  # all products of two features of a million records at once would fill memory
            scores[part] = classifier.log_odds(self._features(logits[:, part], labels[part]))
        return scores

    def _features(self, logits: Array, labels: Array) -> Array:
        """`(m, features)`, averaged over queries."""
        top = signals.top_confidences(logits, labels, self.top)
        confidence = signals.scaled_confidence(logits, labels)[..., None]
        right = signals.correct(logits, labels)[..., None]
        return logistic.with_squares(np.concatenate([top, confidence, right], axis=-1).mean(axis=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class WhiteBoxClassifier:
    """Scores each canary with log odds of membership from its outputs, its gradient and its hidden representation.

    Signals: the logit-scaled confidence, and the logs of the norm of its loss gradient in all parameters, of that in the last
    layer, and of the distance of its hidden representation to the mean of its class; the last two if the outputs come
    from a linear layer. Features: each signal, and its means over other models with and without the record. A ridge logistic
    regression is fitted with every reference once in the target's place; the target and its coins take no part. Finite.

    On trained classifiers the other signals follow the confidence closely: the score is about as strong as
    `learned_combination`, which sees the outputs alone (docs/evidence/results.md).

    Attributes:
        rows: about how many (reference, canary) pairs to train on at most (whole references; of more records than
            that an evenly spread part of one).

    References: Nasr et al. 2019, arXiv 1812.00910 (the signals; there a network learns from them).
    """

    rows: int = 64_000
    needs: ClassVar[Needs] = Needs(
        signals={Logits(), GradientNorms()},
        optional={LastGradientNorms(), ClassDistances()},
        reductions={Confidences()},
        references=4,
    )

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        included = reading.memberships(reference, 4, "white_box_classifier", online=True)
        features = [reading.mean_confidences(target, reference, "white_box_classifier")]
        features += [reading.log_lengths(target, reference, "white_box_classifier", key) for key in _signals(target)]
        target_values, reference_values = (np.stack(side, axis=-2) for side in zip(*features, strict=True))
        return learned_score.signal_log_odds(target_values, reference_values, included, self.rows, squares=True)


def _signals(target: View) -> list[str]:
    """The lengths that were observed; the gradient in all parameters must have been."""
    keys = [key for key in (LastGradientNorms.key, ClassDistances.key) if target.get(key) is not None]
    return [GradientNorms.key, *keys]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """Scores each canary with log odds of membership from its confidence at every checkpoint.

    Features: the logit-scaled confidence at each checkpoint, and its means over other models with and without the record
    there. A ridge logistic regression is fitted with every reference once in the target's place; the target and its coins take
    no part. Finite. The published attack distils the target to imitate its checkpoints; here the adversary sees them.

    Attributes:
        rows: about how many (reference, canary) pairs to train on at most (whole references; of more records than
            that an evenly spread part of one).

    References: Liu et al. 2022, arXiv 2208.14933 (loss trajectory).
    """

    rows: int = 64_000
    needs: ClassVar[Needs] = Needs(signals={LossTrajectory()}, references=4)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        included = reading.memberships(reference, 4, "trajectory", online=True)
        target_values, reference_values = reading.trajectories(target, reference, "trajectory")
        return learned_score.signal_log_odds(
            np.swapaxes(target_values, -1, -2), np.swapaxes(reference_values, -1, -2), included, self.rows
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowModels:
    """Scores each group by the log-likelihood ratio of the target's mean confidence on its queries.

    One normal law for the shadow models that were trained with the group and one for those without, with a common variance.

    References:
        Ateniese et al. 2015, arXiv 1306.4447; Suri and Evans 2022, arXiv 2109.06024; Carlini et al. 2022, arXiv 2112.03570.
    """

    needs: ClassVar[Needs] = Needs(signals={QueryConfidences()}, references=4)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Log-likelihood ratio of each group, `(m,)` float64; `ObservationError` for canaries without queries, fewer than four
        shadow models, or groups that all or none of them have.
        """
        target_values, reference_values = reading.mean_queries(target, reference, "shadow_models", QueryConfidences.key)
        included = reading.memberships(reference, 4, "shadow_models", online=True)
        return membership.likelihood_ratio(target_values, reference_values, included)

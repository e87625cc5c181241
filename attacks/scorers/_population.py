"""How high a record's confidence is among those of known non-members, or of models without it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from attacks.signals import _reading as reading
from attacks.signals._nonmember_medians import NonmemberMedians
from attacks.signals.logits import Confidences, Logits, Losses
from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import membership, population, reference_fit


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackP:
    """Scores each canary with the normal quantile of its rank among known non-members of its class.

    The known non-members are the pairs of a reference model and a canary that it did not train on.
    `Phi(-score)` is a p-value if the references resemble the target (below one over the number of
    pairs it is extrapolated). Without labels (losses only) all pairs form one class. Finite.

    Attributes:
        fewest: pairs that a class needs for its own distribution; smaller ones use all pairs.

    References: Ye et al. 2022, arXiv 2111.09679, attacks S and P.
    """

    fewest: int = 50
    needs: ClassVar[Needs] = Needs(signals={Logits()}, instead={Losses()}, reductions={Confidences()}, references=1)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        included = reading.memberships(reference, 1, "attack_p", online=False)
        target_values, reference_values = reading.mean_confidences(target, reference, "attack_p")
        classes = (
            np.zeros(len(target_values), dtype=np.int64)
            if target.labels is None
            else np.asarray(target.labels).astype(np.int64)
        )
        return population.normal_score_by_group(target_values, classes, reference_values, ~included, self.fewest)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackR:
    """Scores each canary with the smoothed log odds of its rank among models without it.

    The null distribution of a record is that of the references without it, smoothed by a normal kernel: the plain rank among
    `n` takes only `n + 1` values and ties nearly all canaries. Finite; averaged over queries.

    References: Ye et al. 2022, arXiv 2111.09679, attack R.
    """

    needs: ClassVar[Needs] = Needs(signals={Logits()}, instead={Losses()}, reductions={Confidences()}, references=2)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        included = reading.memberships(reference, 2, "attack_r", online=False)
        target_values, reference_values = reading.mean_confidences(target, reference, "attack_r")
        return membership.smoothed_rank(target_values, reference_values, included)


_LEVELS = (0.5, 0.9, 0.99)
_NORMAL = (0.0, 1.2815515655446004, 2.3263478740408408)  # where a normal law has these levels


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceQuantile:
    """Scores each canary with the normal quantile of its confidence in the predicted law of non-members.

    The 50 %, 90 % and 99 % quantiles of a non-member's confidence are regressed on what the references
    say of the record: mean, its square, and log spread over models without it. The regression is fitted on pairs of a
    reference and a canary that this reference did not train on, with features from the *other*
    references, so neither the target nor any record's own value takes part in its own prediction.
    Between the quantiles the score is linear, beyond them it continues straight. Finite.

    Attributes:
        rows: about how many pairs to fit on at most (whole references; of more records than that an evenly spread part).

    Other implementations that differ: fitting on the very non-members that are evaluated afterwards makes
    an attack on a model without leakage look like one (a true positive rate of 7 % at 4 % false positives).

    References:
        The idea of Bertran et al. 2023, arXiv 2307.03694, with features from references; `quantile_regression` is theirs.
    """

    rows: int = 64_000
    needs: ClassVar[Needs] = Needs(signals={Logits()}, instead={Losses()}, reductions={Confidences()}, references=2)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        included = reading.memberships(reference, 2, "reference_quantile", online=False)
        target_values, reference_values = reading.mean_confidences(target, reference, "reference_quantile")
        sides = reference_fit.sides(reference_values, included)
        models, columns = reference_fit.training_pairs(included, self.rows)
        coins, values = included[:models, columns], reference_values[:models][:, columns]
        _, leave_one_out = reference_fit.leave_one_out(values, coins, models, reference_fit.at(sides, columns))
        _, everyone = sides
        outside = ~coins[:models] & (leave_one_out.count > 0)
        if not outside.any():  # of two references with opposite coins: the means are then filled in from members
            outside = ~coins[:models]
        training = _features(leave_one_out)[outside]
        weights = [population.fit(training, values[:models][outside], level) for level in _LEVELS]
        knots = _features(everyone) @ np.stack(weights, axis=1)
        return _position(target_values, knots, smallest_gap=0.05 * everyone.fixed_std)


def _features(side: reference_fit.Side) -> Array:
    mean = side.mean / side.fixed_std
    log_std = np.log(reference_fit.per_example_std(side) / side.fixed_std)
    return np.stack([np.ones_like(mean), mean, mean**2, log_std], axis=-1)


def _position(values: Array, knots: Array, smallest_gap: float) -> npt.NDArray[np.float64]:
    """Return where each value is among its three quantiles, on the normal scale."""
    middle = knots[:, 0]
    gaps = np.maximum(np.diff(knots, axis=1), smallest_gap)  # quantiles fitted one by one may cross
    slopes = np.diff(_NORMAL) / gaps
    above = values - middle
    return np.asarray(slopes[:, 0] * np.minimum(above, gaps[:, 0]) + slopes[:, 1] * np.maximum(above - gaps[:, 0], 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileRegression:
    """Scores each record with its confidence less the median that a regression on known nonmembers predicts for such a record.

    The regression maps a record (its inputs and its class) to a quantile of the model's confidence in it. It is cross-fitted:
    each record's prediction comes from nonmembers of other folds, never from itself.

    It needs to know some nonmembers, which is why it is for models that a user brought, and proves no epsilon. Of the levels
    that were tried (0.5, 0.9, 0.95) the median finds most members over all false positive rates (docs/evidence/results.md).

    References: Bertran et al. 2023, arXiv 2307.03694.
    """

    needs: ClassVar[Needs] = Needs(signals={Logits(), NonmemberMedians()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Confidence above the predicted median, `(m,)` float64; `ObservationError` if no nonmembers are known."""
        medians = target.get(NonmemberMedians.key)
        if medians is None:
            raise ObservationError(
                "attack 'quantile_regression' is fitted on known nonmembers and there are none; use it in `audit model`"
            )
        values, _ = reading.mean_confidences(target, reading.NO_REFERENCE, "quantile_regression")
        return values - np.asarray(medians, dtype=np.float64)

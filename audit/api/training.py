"""A training function of any framework in a membership game: canaries with coins, one run or several, a bound, a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from audit.core import checks
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import DECLARED, CertifiedBound, Claim, Outcome, Verdict
from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.game import Game, Inclusion
from audit.core.rounding import below
from audit.core.seeds import Seed, new_seed

if TYPE_CHECKING:
    Arrays = tuple[Array, Array]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingReport:
    """What canaries of a training prove.

    Attributes:
        name: of the training function.
        verdict: the claim, what is said of it and why.
        bound: on epsilon at the claimed delta.
        scores: `(runs, canaries)`: minus the loss of each canary.
        included: `(runs, canaries)` bool: its coin.
    """

    name: str
    verdict: Verdict
    bound: CertifiedBound
    scores: Array
    included: Array

    @property
    def exit_code(self) -> int:
        """Return 0 if the claim is not refuted, 1 if it is, 3 if it could not have been."""
        return self.verdict.outcome.exit_code

    def __str__(self) -> str:
        claim, (runs, count) = self.verdict.claim, self.scores.shape
        return (
            f"{self.name}: {self.verdict.outcome.value.replace('_', ' ')}. {self.verdict.reason}\n"
            f"  claimed  epsilon {claim.epsilon:g} at delta {claim.delta:g}\n"
            f"  proven   {self.bound}\n"
            f"  game     {count} canaries, each trained on by an independent coin, in {runs} trainings"
        )


def check_training(
    train: Callable[..., Any],
    data: Arrays,
    canaries: Arrays,
    *,
    epsilon: float,
    delta: float = 1e-5,
    runs: int = 1,
    confidence: float = 0.95,
    seed: int | None = None,
    score: Callable[[Any, Array, Array], Any] | None = None,
) -> TrainingReport:
    """Hold a training against its claim: canaries are trained on by independent coins, and their losses say what it remembers.

    Args:
        train: `train((inputs, labels), seed) -> model`, of any framework. The model is a torch module, a function of arrays
            that gives logits or probabilities, or an estimator with `predict_proba`; for any other give `score`.
        data: `(inputs, labels)` that all trainings see.
        canaries: `(inputs, labels)` of the records under test: mislabelled or odd ones are remembered most.
        epsilon, delta: claimed for adding or removing one record.
        runs: trainings. One is enough for a bound from many canaries; with a single canary many runs are needed.
        seed: of coins and trainings; None draws it from the system's randomness.
        score: `score(model, inputs, labels) -> (n,)`, higher for records that were trained on. None takes minus the loss.

    Guarantee: the bound holds with probability at least `confidence`, whatever the training does: with several canaries by the
        estimator `one_run`, with one by `both_ends` (docs/theory/setting.md). Scores must not look at the coins.

    Raises:
        DataError: arrays of unequal length, or scores that are not one finite number each.
    """

    from audit.api.scores import lower_bound
    from audit.mechanism_checks.run import function_name

    checks.count(runs, "runs", minimum=1)
    records, further = _arrays(data, "data"), _arrays(canaries, "canaries")
    root = Seed(new_seed() if seed is None else seed)
    coins = root.child("coins").numpy().random((runs, len(further[1]))) < 0.5
    values = []
    for number, row in enumerate(coins):
        run = root.child("run", number)
        model = train(_training_set(records, further, row, run), run.integer() % 2**31)
        values.append(_checked_length(np.asarray((score or minus_loss)(model, *further), np.float64), len(row)))
    scores = np.stack(values)
    if coins.all() or not coins.any():
        raise DataError(f"all {coins.size} coins fell alike, so there is nothing to compare; take more canaries or runs")
    game = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=coins.shape[1],
        runs=runs,
        canary="records of the user",
    )
    estimator = "both_ends" if coins.shape[1] == 1 else "one_run"
    ranks = _ranks(scores, root.child("ties").numpy())
    bound = lower_bound(
        ranks[coins], ranks[~coins], delta=delta, confidence=confidence, game=game, estimator=estimator, certificates=0
    )
    claim = Claim(epsilon=epsilon, delta=delta, adjacency=Adjacency.ADD_REMOVE, source=DECLARED)
    return TrainingReport(name=function_name(train), verdict=_verdict(claim, bound), bound=bound, scores=scores, included=coins)


def _arrays(pair: Any, name: str) -> Arrays:
    parts = [np.asarray(part) for part in pair] if isinstance(pair, tuple | list) and len(pair) == 2 else []
    if [part.ndim > 0 and len(part) == len(parts[0]) > 0 for part in parts] != [True, True]:
        raise DataError(f"{name} is not a pair (inputs, labels) of the same length, at least 1")
    return parts[0], parts[1]


def _training_set(data: Arrays, canaries: Arrays, coins: Array, run: Seed) -> Arrays:
    """Return the data with the canaries whose coins say so, in random order."""
    inputs, labels = (np.concatenate([a, b[coins]]) for a, b in zip(data, canaries, strict=True))
    order = run.child("order").numpy().permutation(len(labels))
    return inputs[order], labels[order]


def _ranks(scores: Array, generator: np.random.Generator) -> Array:
    """Return the rank of each score among all, equal ones in random order.

    The order is drawn without the coins, so it is a post-processing. Classifiers that are sure of most canaries give many equal
    scores, and an estimator counts ties against the attack.
    """
    order = np.lexsort((generator.random(scores.size), scores.ravel()))
    ranks = np.empty(scores.size)
    ranks[order] = np.arange(scores.size)
    return ranks.reshape(scores.shape)


def _checked_length(values: Array, count: int) -> Array:
    if values.shape != (count,) or np.isnan(values).any():
        raise DataError(f"the scores have shape {values.shape} for {count} canaries, or hold NaN; expected one number each")
    return values


def minus_loss(model: Any, inputs: Array, labels: Array) -> Array:
    """Minus the cross entropy of each record, `(n,)`, from logits or probabilities; of numbers minus the squared error."""
    from audit.experiment.external.external_models import query_model
    from audit.stats.scoring.signals import cross_entropy

    answers = query_model(model, inputs, labels)
    if answers.form == "logits":
        return -cross_entropy(answers.values, np.asarray(answers.labels))
    return -answers.values if answers.form == "losses" else -(answers.values**2).sum(axis=1)


def _verdict(claim: Claim, bound: CertifiedBound) -> Verdict:
    if bound.epsilon > claim.epsilon:
        outcome, reason = (
            Outcome.VIOLATED,
            f"Epsilon is at least {below(bound.epsilon, claim=claim.epsilon)} at the claimed delta",
        )
    elif bound.ceiling <= claim.epsilon:
        outcome = Outcome.OUT_OF_REACH
        reason = f"Perfect scores would have proved {bound.ceiling:.3g} only: take more canaries or runs"
    else:
        outcome, reason = Outcome.CONSISTENT, "No bound lies above the claim, although one could have"
    return Verdict(claim=claim, outcome=outcome, bound=bound, reason=reason)

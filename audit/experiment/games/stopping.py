"""Games with training that may stop at the first proof: what is asked after each job, and what may be said afterwards.

A sample with a size chosen by its results supports only bounds that hold at every time at once. So such a game is judged
by estimators that say so of themselves, all its attacks bet from one fortune, and intervals pay for every look.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from audit.bounds import claim_test, control
from audit.bounds.budget import Budget
from audit.core.claims import Claim, NegativeControl
from audit.core.errors import ConfigError
from audit.core.events import Event
from audit.core.evidence import Evidence, Watched
from audit.core.game import Game
from audit.core.lower_bounds import LowerBound
from audit.core.protocols import AnytimeEstimator, Estimator
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.experiment.games.spec import GameDesign


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingRule:
    """What a game is asked while its target runs finish, fixed before the first of them.

    Attributes:
        estimators: each has a bound of all attacks together.
        claims: any of them, once refuted, ends the game.
        confidence: of each bound.
        planned: target runs at most.
        attacks: planned, those included that turn out to be unable to score the models.
        looks: jobs that train them, so times at which the game could end.
    """

    estimators: tuple[AnytimeEstimator, ...]
    claims: tuple[Claim, ...]
    delta: float
    confidence: float
    planned: int
    attacks: int
    looks: int

    @property
    def ends(self) -> bool:
        return bool(self.estimators)

    def proves(self, scores: Sequence[Scores]) -> bool:
        """True if the attacks' scores of the runs so far refute a claim; always False if there is no claim to refute."""
        _, evidence = self._process(scores)
        return any(row.proved is not None for row in evidence)

    def result(self, scores: Sequence[Scores], seed: Seed) -> Watched:
        bounds, evidence = self._process(scores)
        return Watched(
            planned=self.planned,
            used=scores[0].game.runs,
            looks=self.looks,
            bounds=bounds,
            evidence=evidence,
            control=self._control(scores, seed),
        )

    def _process(self, scores: Sequence[Scores]) -> tuple[tuple[LowerBound, ...], tuple[Evidence, ...]]:
        claims = [claim for claim in self.claims if math.isfinite(claim.epsilon)]  # no evidence refutes an infinite claim
        watches = [
            estimator.watch(scores, claims, delta=self.delta, confidence=self.confidence, attacks=self.attacks)
            for estimator in self.estimators
        ]
        return tuple(bound for bound, _ in watches), tuple(item for _, evidence in watches for item in evidence)

    def _control(self, scores: Sequence[Scores], seed: Seed) -> NegativeControl:
        """Return how often the same bets prove leakage on fresh coins, shared by all attacks; see `audit.bounds.control`.

        Trials are shuffled as well, so that pairs are exchangeable whatever ended the sample.
        """
        alarms = 0
        for repetition in range(control.REPETITIONS):
            stream = seed.child("control", repetition)
            coins = control.fresh_coins(scores[0], stream)
            order = stream.child("order").numpy().permutation(len(coins))
            bounds, _ = self._process([replace(score, values=score.values[order], included=coins) for score in scores])
            alarms += any(bound.epsilon > 0 for bound in bounds)
        return control.make_control(alarms, len(self.estimators) * (1 - self.confidence))


def make_stopping_rule(game_design: GameDesign, claims: tuple[Claim, ...], budget: Budget, looks: int = 1) -> StoppingRule:
    """Return what a game is asked while its target runs finish: nothing if it does not stop."""
    estimators = game_design.estimators if game_design.stops else ()
    return StoppingRule(
        estimators=tuple(cast(AnytimeEstimator, estimator) for estimator in estimators),
        claims=claims,
        delta=budget.delta,
        confidence=budget.level,
        planned=game_design.runs,
        attacks=len(game_design.attacks),
        looks=looks,
    )


def never(budget: Budget, runs: int) -> StoppingRule:
    """A watch that asks for nothing: the game is over before anyone looks."""
    return StoppingRule(estimators=(), claims=(), delta=budget.delta, confidence=budget.level, planned=runs, attacks=0, looks=1)


def join(looks: Sequence[Sequence[Scores]]) -> list[Scores]:
    """The scores over the looks so far, as those of one game with as many runs, of the attacks that the last look has."""
    scores_list, names = [], {score.attack for score in looks[-1]}
    for parts in zip(*([score for score in look if score.attack in names] for look in looks), strict=True):
        game = replace(parts[0].game, runs=sum(part.game.runs for part in parts))
        values, included = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "included"))
        scores_list.append(replace(parts[0], values=values, included=included, game=game))
    return scores_list


def refuse(location: str, estimators: Sequence[tuple[str, Estimator]], runs: int, together: int) -> None:
    """Raise `ConfigError` if a game cannot stop early: fixed-size estimators, or all runs in one job."""
    fixed_estimators = [name for name, estimator in estimators if not isinstance(estimator, AnytimeEstimator)]
    if fixed_estimators:
        raise ConfigError(
            f"{location}: stopping is 'first_proof', but {', '.join(fixed_estimators)} holds only for a number of runs that "
            "was fixed in advance; use the estimator sequential (family any, gdp or dp_sgd), or set stopping: never"
        )
    if runs <= together:
        raise ConfigError(
            f"{location}: stopping is 'first_proof', but all {runs} target runs are trained in one job of up to {together} "
            f"models, so none could be spared; set execution.models_per_job to about {max(1, runs // 8)}, or stopping: never"
        )


def refuse_unfit(game_design: GameDesign, game: Game, mechanism: Event | None, delta: float) -> None:
    """Raise `ConfigError` for copies, converted after the game, `UnsupportedMechanism` for a family not of the mechanism."""
    if game.copies > 1:
        raise ConfigError(
            f"games.{game_design.name}: stopping is 'first_proof', but canaries are planted in {game.copies} copies, whose "
            "bounds are converted only when the game is over; use canaries without copies, or set stopping: never"
        )
    for estimator in game_design.estimators:
        claim_test.probe(estimator, game, mechanism, delta)

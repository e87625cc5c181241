"""The power part of a plan: what each estimator of a game would catch, and how much it takes to catch a violation."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from audit.bounds import power, simulation
from audit.bounds.budget import Budget
from audit.core.claims import Claim, Detectable
from audit.core.plans import PowerRow
from audit.experiment.games.prepared_game import PreparedGame
from audit.experiment.games.spec import GameDesign

PILOT, NEEDED_DRAWS = 10, 50  # simulated audits at each number of scores: where the search begins, and where it ends
PROOFS = 41  # simulated audits behind the median number of runs to a proof


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerStudy:
    """What is asked of every game of an audit.

    Attributes:
        violation: the true epsilon that the audit is to catch, as a multiple of the claim.
        seconds: of training for each (recipe, game), as far as known.
        ceilings: of each (recipe, game, estimator).
    """

    budget: Budget
    claims: Mapping[str, Sequence[Claim]]
    violation: float
    seconds: Mapping[tuple[str, str], float]
    ceilings: Mapping[tuple[str, str, str], float]

    def rows(self, prepared_game: PreparedGame) -> list[PowerRow]:
        """Return a row for each estimator of a game that is quick enough to simulate."""
        training_design, game_design = prepared_game.training, prepared_game.game_design
        path = self._path(prepared_game)
        claims = tuple(self.claims.get(training_design.name, ()))
        hours = self.seconds.get((training_design.name, game_design.name), math.nan) / 3600
        rows = []
        for estimator in path.estimators:
            alone = replace(path, attacks=((estimator,),))
            for detectable in simulation.detectable(alone, claims, patient=True):
                row = PowerRow(
                    mechanism=training_design.name,
                    game=game_design.name,
                    estimator=detectable.estimator,
                    family=detectable.family,
                    claim=detectable.claim,
                    epsilon=detectable.epsilon,
                    power=detectable.power,
                    draws=detectable.draws,
                    ceiling=self.ceilings[training_design.name, game_design.name, detectable.estimator],
                    runs_to_proof=_runs_to_proof(alone, detectable, claims) if game_design.stops else None,
                    hours=None if math.isnan(hours) else hours,
                )
                rows.append(_with_needs(row, alone, game_design, self.violation))
        return rows

    def _path(self, prepared_game: PreparedGame) -> simulation.Path:
        return simulation.Path(
            attacks=tuple(attack.estimators for attack in prepared_game.game_design.attacks),
            game=prepared_game.game,
            mechanism=prepared_game.mechanism,
            delta=self.budget.delta,
            level=self.budget.level,
            together=prepared_game.game_design.stops,
        )


def _with_needs(row: PowerRow, path: simulation.Path, game_design: GameDesign, violation: float) -> PowerRow:
    """The row with scores, runs and hours that catch a true epsilon of `violation` times the claim."""
    if row.claim <= 0:
        return row
    truth = violation * row.claim
    scores: int | None = 16
    for draws in (PILOT, NEEDED_DRAWS):
        question = power.Question(
            delta=path.delta, confidence=path.level, claim=row.claim, power=row.power, draws=min(row.draws, draws)
        )
        if scores is not None:
            scores = power.scores_needed(path.estimators[0], path.game, truth, question, path.mechanism, start=scores)
    runs = None if scores is None else scores if game_design.count == 1 else game_design.runs
    cost = None if runs is None or row.hours is None else row.hours * (runs + game_design.references) / game_design.models
    return replace(row, violation=truth, needed=scores, needed_runs=runs, needed_hours=cost)


def _runs_to_proof(path: simulation.Path, detectable: Detectable, claims: Sequence[Claim]) -> float | None:
    """Median runs until the claim is refuted at the least epsilon that is caught; None if nothing is."""
    claim = next((claim for claim in claims if claim.epsilon == detectable.claim), None)
    if claim is None or math.isinf(detectable.epsilon):
        return None
    question = power.Question(delta=path.delta, confidence=path.level, claim=detectable.claim, draws=PROOFS)
    query = power.PowerQuery(estimator=path.estimators[0], game=path.game, question=question, mechanism=path.mechanism)
    return power.runs_to_proof(query, detectable.epsilon, claim)

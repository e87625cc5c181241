"""The power part of a plan: what each estimator of a game would catch, and how much it takes to catch a violation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from audit.bounds import power, simulation
from audit.bounds.budget import Budget
from audit.core.claims import Claim, Detectable
from audit.core.plans import PowerRow
from audit.experiment.games.insertion import Insertion
from audit.experiment.games.spec import Play

FEWEST = 10  # simulated audits at each number of scores
PROOFS = 41  # simulated audits behind the median number of runs to a proof


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerStudy:
    """What is asked of every game of an audit.

    Attributes:
        claims: what is stated of each recipe.
        violation: the true epsilon that the audit is to catch, as a multiple of the claim.
        seconds: of training for each (recipe, game), as far as known.
        ceilings: of each (recipe, game, estimator).
    """

    budget: Budget
    claims: Mapping[str, Sequence[Claim]]
    violation: float
    seconds: Mapping[tuple[str, str], float]
    ceilings: Mapping[tuple[str, str, str], float]

    def rows(self, insertion: Insertion) -> list[PowerRow]:
        """Return a row for each estimator of a game that is quick enough to simulate."""
        recipe, play = insertion.training, insertion.play
        path = self._path(insertion)
        claims = tuple(self.claims.get(recipe.name, ()))
        hours = self.seconds.get((recipe.name, play.name), math.nan) / 3600
        rows = []
        for estimator in path.estimators:
            alone = replace(path, attacks=((estimator,),))
            for detectable in simulation.detectable(alone, claims):
                row = PowerRow(
                    mechanism=recipe.name,
                    game=play.name,
                    estimator=detectable.estimator,
                    family=detectable.family,
                    claim=detectable.claim,
                    epsilon=detectable.epsilon,
                    power=detectable.power,
                    draws=detectable.draws,
                    ceiling=self.ceilings[recipe.name, play.name, detectable.estimator],
                    runs_to_proof=_runs_to_proof(alone, detectable, claims) if play.stops else None,
                    hours=_none_if_unknown(hours),
                )
                rows.append(_with_needs(row, alone, play, self.violation))
        return rows

    def _path(self, insertion: Insertion) -> simulation.Path:
        return simulation.Path(
            attacks=tuple(attack.estimators for attack in insertion.play.attacks),
            game=insertion.game,
            mechanism=insertion.mechanism,
            delta=self.budget.delta,
            level=self.budget.level,
            together=insertion.play.stops,
        )


def _with_needs(row: PowerRow, path: simulation.Path, play: Play, violation: float) -> PowerRow:
    """The row with scores, runs and hours that catch a true epsilon of `violation` times the claim."""
    if row.claim <= 0:
        return row
    truth = violation * row.claim
    question = power.Question(
        delta=path.delta, confidence=path.level, claim=row.claim, power=row.power, draws=min(row.draws, FEWEST)
    )
    scores = power.scores_needed(path.estimators[0], path.game, truth, question, path.mechanism)
    runs = None if scores is None else scores if play.count == 1 else play.runs
    cost = None if runs is None or row.hours is None else row.hours * (runs + play.references) / play.models
    return replace(row, violation=truth, needed=scores, needed_runs=runs, needed_hours=cost)


def _runs_to_proof(path: simulation.Path, detectable: Detectable, claims: Sequence[Claim]) -> float | None:
    """Median runs until the claim is refuted at the least epsilon that is caught; None where nothing is."""
    claim = next((claim for claim in claims if claim.epsilon == detectable.claim), None)
    if claim is None or math.isinf(detectable.epsilon):
        return None
    question = power.Question(delta=path.delta, confidence=path.level, claim=detectable.claim, draws=PROOFS)
    query = power.PowerQuery(estimator=path.estimators[0], game=path.game, question=question, mechanism=path.mechanism)
    return power.runs_to_proof(query, detectable.epsilon, claim)


def _none_if_unknown(hours: float) -> float | None:
    return None if math.isnan(hours) else hours

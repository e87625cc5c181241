"""How often simulated audits refute a claim, every one of them run: the searches of `audit.bounds.power` end sooner."""

from __future__ import annotations

from audit.bounds.power import PowerQuery, Question
from audit.core.game import Game
from audit.core.protocols import Estimator


def power_at(estimator: Estimator, game: Game, epsilon: float, question: Question) -> float:
    """The share of simulated audits that refute `question.claim` when the true epsilon is `epsilon`."""
    query = PowerQuery(estimator=estimator, game=game, question=question)
    return sum(query.catches_draw(epsilon, draw) for draw in range(question.draws)) / question.draws

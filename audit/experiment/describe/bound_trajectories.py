"""Proven epsilon over the steps, for attacks that see every step."""

from attacks.signals._white_box import StepProducts
from audit.bounds import budget as bounding
from audit.bounds.budget import Budget
from audit.core import event_reading
from audit.core.lower_bounds import BoundTrajectory
from audit.core.phrases import join_clauses, phrase
from audit.experiment.games.attack import score
from audit.experiment.games.job_specs import spread_over
from audit.experiment.games.observed import GameModels


def trajectories(models: GameModels, budget: Budget) -> tuple[tuple[str | None, BoundTrajectory], ...]:
    """Return a curve per attack that sees the steps and estimator, with the family inside which it holds.

    Each point holds at its level on its own; seeds are those of the attacks' bounds, so that the last point is the stated
    bound. Bounds of a fixed size say nothing of a sample that was chosen by its results.
    """
    game_design, mechanism = models.prepared_game.game_design, models.prepared_game.mechanism
    if mechanism is None or game_design.stops:
        return ()
    checkpoints = spread_over(event_reading.steps(mechanism))
    curves = []
    for index, attack in enumerate(game_design.attacks):
        if StepProducts() in attack.attack.needs.signals:
            seed = models.prepared_game.seed.child("bounds", index)
            rows = [
                bounding.bounds(
                    score(models, attack, steps), attack.estimators, delta=budget.delta, confidence=budget.level, seed=seed
                )
                for steps in checkpoints
            ]
            for curve in zip(*rows, strict=True):
                bound, epsilon = curve[-1], tuple(point.epsilon for point in curve)
                inside = phrase("{estimator} (inside {family})", estimator=bound.estimator, family=bound.family)
                label = join_clauses((attack.name, inside if bound.family else bound.estimator), "{first}, {rest}")
                curves.append((bound.family, BoundTrajectory(label=label, steps=checkpoints, epsilon=epsilon)))
    return tuple(curves)

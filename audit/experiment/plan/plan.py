"""What an audit can show and what it costs, before it is run: ceilings, power, time and disk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.bounds.budget import Budget, bounds
from audit.core.claims import LowerBound
from audit.core.plans import CeilingRow, RunPlan, StoppingRow
from audit.core.tables import Table
from audit.core.views import Scores
from audit.experiment.games import hypothesis
from audit.experiment.games.insertion import Insertion, insert, insertions
from audit.experiment.games.spec import Experiment
from audit.experiment.line.rehearsal import playable
from audit.experiment.plan import timing
from audit.experiment.plan.disk import bytes_needed
from audit.experiment.plan.plan_power import PowerStudy


def plan_of(experiment: Experiment, *, measure: bool = False, violation: float | None = None) -> RunPlan:
    """Return what an audit will do and the most it could show: each bound on perfectly separated scores.

    Args:
        experiment: the audit; where its model is left unmade, disk and the attacks that are left out are not known.
        measure: train a few steps of each game, and say how long all will take.
        violation: true epsilon to be caught, as a multiple of the claim; None simulates no power.

    Raises:
        ConfigError: a game that cannot be played.
    """
    design, material, budget = experiment.design, experiment.material, experiment.budget
    is_made = bool(material.parameters)
    games = (
        playable(insertions(design, material, budget.delta), material.dataset, experiment.execution.device) if is_made else []
    )
    samples = [insert(recipe, play, material, material.seed.child("plan")) for recipe, play in design.pairs]
    ceilings = Table(_ceilings(samples, budget))
    claims = {recipe.name: hypothesis.state(recipe, budget.delta).claims for recipe in design.recipes}
    times = timing.estimate(design, material, experiment.execution) if measure else []
    study = PowerStudy(
        budget=budget,
        claims=claims,
        violation=violation or 1.0,
        seconds={(row.mechanism, row.game): row.seconds for row in times},
        ceilings={(row.mechanism, row.game, row.estimator): row.ceiling for row in ceilings},
    )
    return RunPlan(
        models=design.models,
        model_steps=design.model_steps,
        bounds=budget.comparisons,
        level=budget.level,
        claims=claims,
        ceilings=ceilings,
        left_out=tuple(f"{game.training.name}, game {game.play.name}: {note}" for game in games for note in game.notes),
        power=Table(() if violation is None else [row for insertion in samples for row in study.rows(insertion)]),
        stopping=Table(
            StoppingRow(mechanism=recipe.name, game=play.name, most_runs=play.runs)
            for recipe, play in design.pairs
            if play.stops
        ),
        timing=Table(times),
        peak_disk_bytes=bytes_needed(design, material) if is_made else None,
    )


def _ceilings(games: Sequence[Insertion], budget: Budget) -> list[CeilingRow]:
    """The most that each estimator of each game could prove; games with the same terms are computed once."""
    rows: list[CeilingRow] = []
    computed: dict[str, tuple[LowerBound, ...]] = {}
    for insertion in games:
        recipe, play, game = insertion.training, insertion.play, insertion.game
        included, secrets = insertion.planting.included[: play.runs].ravel(), insertion.planting.canaries.secrets
        prior = None if secrets is None else np.tile(secrets.prior.ravel(), play.runs)
        chances = None if prior is None else prior.tobytes()
        terms = repr((recipe.mechanism, game, play.estimators, len(included), int(included.sum()), chances))
        if terms not in computed:
            values = np.where(included, 1.0, -1.0) * (1 + np.arange(len(included)) / len(included))
            scores = Scores(values=values, included=included, game=game, mechanism=recipe.mechanism, prior=prior)
            computed[terms] = bounds(scores, play.estimators, delta=budget.delta, confidence=budget.level, seed=insertion.seed)
        rows += [
            CeilingRow(
                mechanism=recipe.name,
                game=play.name,
                estimator=bound.estimator,
                family=bound.family,
                ceiling=bound.ceiling,
                scores=len(included),
                bounds=1 if play.stops else sum(estimator in attack.estimators for attack in play.attacks),
            )
            for estimator, bound in zip(play.estimators, computed[terms], strict=True)
        ]
    return rows

"""The straight line: claims on paper, coins drawn, models trained, scores bounded, claims judged.

No step knows which attack, estimator or mechanism it runs; those are values made by `audit.experiment.assemble`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audit.accounting import calibration
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import ConfigError
from audit.core.event_reading import is_non_private, noisy_steps, steps, unit
from audit.core.events import Event, Repeated
from audit.core.results import LimitCurve, MechanismResult, Trajectory
from audit.core.training import Progress
from audit.execution.store import Store
from audit.experiment import judge
from audit.experiment.game import GameOutcome, Rules, play
from audit.experiment.insertion import Insertion, insertions
from audit.experiment.records import table_of
from audit.experiment.rehearsal import playable, untrained_models
from audit.experiment.spec import Experiment, Recipe, StatedClaims
from audit.experiment.train import Resources
from audit.experiment.utility import utility
from audit.stats.curves import dp_sgd_curve

LEAST_FPR = 1e-5
LIMIT_POINTS = 200


def run(
    experiment: Experiment, store: Store, progress: Progress
) -> tuple[tuple[MechanismResult, ...], tuple[GameOutcome, ...]]:
    """What the audit finds for each recipe, and the games behind it; everything costly is kept in the store."""
    budget, dataset, recipes = experiment.budget, experiment.dataset, experiment.recipes
    claims_by_recipe = {recipe.name: state(recipe, adjacency_of(experiment, recipe), budget.delta) for recipe in recipes}
    insertions = rehearse_all(experiment)
    resources = Resources(dataset=dataset, execution=experiment.execution, store=store, progress=progress)
    results, all_games, trainings = [], [], set[str]()
    for recipe in recipes:
        claims, games = claims_by_recipe[recipe.name], []
        for insertion in insertions:
            if insertion.recipe == recipe.name:
                table = table_of(insertion.planting.canaries, dataset, experiment.names)
                rules = Rules(stated=claims, budget=budget, records=table, checks=experiment.checks)
                games.append(play(insertion, recipe, rules, resources))
        training = judge.Training(
            name=recipe.name,
            mechanism=recipe.mechanism,
            stated=claims,
            trajectories=trajectories(recipe, claims.claims, budget.delta),
            utility=utility([game.observed for game in games if game.observed is not None], dataset),
        )
        result = judge.conclude(training, games)
        results.append(replace(result, models=0) if recipe.trained_as in trainings else result)  # models count once
        trainings.add(recipe.trained_as)
        all_games += games
    return tuple(results), tuple(all_games)


def rehearse_all(experiment: Experiment) -> list[Insertion]:
    """The games with the attacks that can score them; one that cannot be played is refused before any is trained for."""
    insertion_list, playing = insertions(experiment), []
    for recipe in experiment.recipes:
        models = untrained_models(recipe, experiment.dataset, experiment.execution.device)
        own = (insertion for insertion in insertion_list if insertion.recipe == recipe.name)
        playing += [playable(insertion, steps(recipe.run_event), models) for insertion in own]
    return playing


def adjacency_of(experiment: Experiment, recipe: Recipe) -> Adjacency:
    """The adjacency that all games of a recipe share.

    Raises:
        ConfigError: they differ, or there is none.
    """
    adjacencies = {play.adjacency for owner, play in experiment.pairs if owner is recipe}
    if len(adjacencies) != 1:
        adjacency_names = sorted(adjacency.value for adjacency in adjacencies)
        raise ConfigError(
            f"mechanism '{recipe.name}' is played under adjacencies {adjacency_names}; expected exactly one for all its games"
        )
    return adjacencies.pop()


def state(recipe: Recipe, adjacency: Adjacency, delta: float) -> StatedClaims:
    """The hypothesis, on paper before anything is trained: what owners and accountants claim."""
    computed_claims = [
        accountant.claim(recipe.mechanism, delta=delta, adjacency=adjacency) for accountant in recipe.accountants
    ]
    finite = [claim for claim in computed_claims if math.isfinite(claim.epsilon)]
    protection_unit = unit(recipe.mechanism)
    all_claims = [*(replace(claim, adjacency=adjacency) for claim in recipe.declared), *finite]
    claims = tuple(replace(claim, unit=protection_unit) for claim in all_claims)
    return StatedClaims(claims=claims, limit=limit_curve(recipe.mechanism, adjacency))


def limit_curve(event: Event, adjacency: Adjacency) -> LimitCurve | None:
    """The most true positives that the mechanism itself leaves any attack; None where it has no such curve.

    It is the curve of one record's presence; the add direction is the same test with the roles exchanged, and a record that is
    zeroed out gives the same two laws of the sum.
    """
    mechanism = noisy_steps(event)
    if mechanism is None or mechanism.noise_multiplier == 0 or adjacency is Adjacency.REPLACE_ONE:
        return None
    fpr = np.concatenate([[0.0], np.geomspace(LEAST_FPR, 1, LIMIT_POINTS - 1)])
    tpr = dp_sgd_curve.sgd(mechanism.noise_multiplier, mechanism.sample_rate, mechanism.steps).tpr(fpr)
    source = "privacy-loss distribution of the claimed noise, sampling and steps"
    return LimitCurve(fpr=tuple(fpr.tolist()), tpr=tuple(tpr.tolist()), source=source)


def trajectories(recipe: Recipe, claims: Sequence[Claim], delta: float) -> tuple[Trajectory, ...]:
    """What each accountant charges over the steps; nothing for a mechanism without a guarantee."""
    if not isinstance(recipe.mechanism, Repeated) or is_non_private(recipe.mechanism) or not claims:
        return ()
    return tuple(
        calibration.trajectory(accountant, recipe.mechanism, delta=delta, adjacency=claims[0].adjacency)
        for accountant in recipe.accountants
    )

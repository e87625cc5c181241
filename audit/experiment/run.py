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
from audit.core.event_reading import is_non_private, noisy_steps, unit
from audit.core.events import Repeated
from audit.core.results import Check, LimitCurve, MechanismResult, Status, Trajectory
from audit.core.training import Progress
from audit.execution.store import Store
from audit.experiment import judge
from audit.experiment.game import Played, play
from audit.experiment.insertion import planted
from audit.experiment.spec import Experiment, Recipe, Stated
from audit.experiment.utility import utility
from audit.stats.curves import dp_sgd_curve

LEAST_FPR = 1e-5
LIMIT_POINTS = 200


def run(experiment: Experiment, store: Store, progress: Progress) -> tuple[tuple[MechanismResult, ...], tuple[Played, ...]]:
    """What the audit finds for each recipe, and the games behind it; everything costly is kept in the store."""
    stated = {recipe.name: state(recipe, experiment) for recipe in experiment.recipes}
    games_of = planted(experiment)
    results, everything = [], []
    for recipe in experiment.recipes:
        games = [play(experiment, game, stated[recipe.name], (store, progress)) for game in games_of if game.recipe is recipe]
        results.append(conclude(experiment, recipe, stated[recipe.name], games))
        everything += games
    return tuple(results), tuple(everything)


def state(recipe: Recipe, experiment: Experiment) -> Stated:
    """The hypothesis, on paper before anything is trained: what owners and accountants claim."""
    adjacencies = {play.adjacency for owner, play in experiment.pairs if owner is recipe}
    if len(adjacencies) != 1:
        found = sorted(adjacency.value for adjacency in adjacencies)
        raise ConfigError(
            f"mechanism '{recipe.name}' is played under adjacencies {found}; expected exactly one for all its games"
        )
    adjacency = adjacencies.pop()
    stated = [one.claim(recipe.mechanism, delta=experiment.delta, adjacency=adjacency) for one in recipe.accountants]
    finite = [claim for claim in stated if math.isfinite(claim.epsilon)]
    protected = unit(recipe.mechanism)
    everything = [*(replace(claim, adjacency=adjacency) for claim in recipe.declared), *finite]
    claims = tuple(replace(claim, unit=protected) for claim in everything)
    return Stated(claims=claims, limit=limit_curve(recipe, adjacency))


def limit_curve(recipe: Recipe, adjacency: Adjacency) -> LimitCurve | None:
    """The most true positives that the mechanism itself leaves any attack; None where it has no such curve.

    It is the curve of one record's presence; the add direction is the same test with the roles exchanged.
    """
    mechanism = noisy_steps(recipe.mechanism)
    if mechanism is None or mechanism.noise_multiplier == 0 or adjacency is not Adjacency.ADD_REMOVE:
        return None
    fpr = np.concatenate([[0.0], np.geomspace(LEAST_FPR, 1, LIMIT_POINTS - 1)])
    tpr = dp_sgd_curve.sgd(mechanism.noise_multiplier, mechanism.sample_rate, mechanism.steps).tpr(fpr)
    source = "privacy-loss distribution of the claimed noise, sampling and steps"
    return LimitCurve(fpr=tuple(fpr.tolist()), tpr=tuple(tpr.tolist()), source=source)


def conclude(experiment: Experiment, recipe: Recipe, stated: Stated, games: Sequence[Played]) -> MechanismResult:
    """Bounds of all games held against each claim."""
    trusted = all(control.passed for game in games for control in game.result.controls)
    checks = _merged([check for game in games for check in game.checks])
    executed = all(check.status is not Status.FAILED for check in checks)
    inside = not judge.outside_families(checks)
    found = [bound for game in games for bound in game.bounds]
    verdicts = tuple(judge.judge(claim, found, trusted=trusted, executed=executed, inside=inside) for claim in stated.claims)
    return MechanismResult(
        name=recipe.name,
        mechanism=recipe.mechanism,
        claims=stated.claims,
        trajectories=_trajectories(experiment, recipe, stated.claims),
        bound_trajectories=tuple(curve for game in games for family, curve in game.trajectories if inside or family is None),
        games=tuple(game.result if inside else game.result.for_any_mechanism() for game in games),
        verdicts=verdicts,
        outcome=judge.of_mechanism(verdicts),
        utility=utility([game.observed for game in games], experiment.dataset),
        checks=checks,
        models=sum(game.result.models for game in games),
        limit=stated.limit,
    )


def _merged(checks: Sequence[Check]) -> tuple[Check, ...]:
    """One row per check over all games: the first failed one, else the first."""
    rows: dict[str, Check] = {}
    for check in checks:
        if check.code not in rows or (check.status is Status.FAILED and rows[check.code].status is not Status.FAILED):
            rows[check.code] = check
    return tuple(rows.values())


def _trajectories(experiment: Experiment, recipe: Recipe, claims: Sequence[Claim]) -> tuple[Trajectory, ...]:
    """What each accountant charges over the steps; nothing for a mechanism without a guarantee."""
    if not isinstance(recipe.mechanism, Repeated) or is_non_private(recipe.mechanism) or not claims:
        return ()
    return tuple(
        calibration.trajectory(accountant, recipe.mechanism, delta=experiment.delta, adjacency=claims[0].adjacency)
        for accountant in recipe.accountants
    )

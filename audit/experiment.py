"""The straight line: claims on paper, coins drawn, models trained, scores bounded, claims judged.

No step knows which attack, estimator or mechanism it runs; those are values made by `audit.assemble`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from audit import calibration, verdict
from audit.core.errors import ConfigError
from audit.core.mechanism import NonPrivate
from audit.core.protocols import Progress
from audit.core.results import Check, Claim, MechanismResult, Status, Trajectory
from audit.design import Experiment, Recipe
from audit.rounds import Played, play
from audit.store import Store
from audit.utility import utility


def run(experiment: Experiment, store: Store, progress: Progress) -> tuple[tuple[MechanismResult, ...], tuple[Played, ...]]:
    """What the audit finds for each recipe, and the games behind it; everything costly is kept in the store."""
    claims = {recipe.name: state_claims(recipe, experiment) for recipe in experiment.recipes}
    results, everything = [], []
    for recipe in experiment.recipes:
        games = [
            play(experiment, recipe, game, claims[recipe.name], (store, progress))
            for owner, game in experiment.pairs
            if owner is recipe
        ]
        results.append(conclude(experiment, recipe, claims[recipe.name], games))
        everything += games
    return tuple(results), tuple(everything)


def state_claims(recipe: Recipe, experiment: Experiment) -> tuple[Claim, ...]:
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
    return (*(replace(claim, adjacency=adjacency) for claim in recipe.declared), *finite)


def conclude(experiment: Experiment, recipe: Recipe, claims: tuple[Claim, ...], games: Sequence[Played]) -> MechanismResult:
    """Bounds of all games held against each claim."""
    found = [bound for game in games for bound in game.bounds]
    controls = [attack.control for game in games for attack in game.result.attacks]
    trusted = all(control is None or control.passed for control in controls)
    checks = _merged([check for game in games for check in game.checks])
    executed = all(check.status is not Status.FAILED for check in checks)
    verdicts = tuple(verdict.judge(claim, found, trusted=trusted, executed=executed) for claim in claims)
    return MechanismResult(
        name=recipe.name,
        mechanism=recipe.mechanism,
        claims=claims,
        trajectories=_trajectories(experiment, recipe, claims),
        bound_trajectories=tuple(curve for game in games for curve in game.trajectories),
        games=tuple(game.result for game in games),
        verdicts=verdicts,
        outcome=verdict.of_mechanism(verdicts),
        utility=utility([game.observed for game in games], experiment.dataset),
        checks=checks,
        models=sum(game.result.models for game in games),
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
    if isinstance(recipe.mechanism, NonPrivate) or not claims:
        return ()
    return tuple(
        calibration.trajectory(accountant, recipe.mechanism, delta=experiment.delta, adjacency=claims[0].adjacency)
        for accountant in recipe.accountants
    )

"""The straight line: claims on paper, coins drawn, models trained, scores bounded, claims judged.

No step knows which attack, estimator or mechanism it runs; those are values made by `audit.experiment.line.assemble`.
"""

from __future__ import annotations

from audit.core import stages
from audit.core.results import MechanismResult
from audit.core.training import Watcher
from audit.execution.store import Store
from audit.experiment.describe.utility import utility
from audit.experiment.games import hypothesis
from audit.experiment.games.insertion import insertions
from audit.experiment.games.spec import Experiment
from audit.experiment.line import game, judge
from audit.experiment.line.game import GameOutcome
from audit.experiment.line.rehearsal import playable
from audit.experiment.line.train import Resources


def run(
    experiment: Experiment,
    store: Store,
    watcher: Watcher = Watcher(),  # noqa: B008 (it is frozen)
) -> tuple[tuple[MechanismResult, ...], tuple[GameOutcome, ...]]:
    """Return what the audit finds for each recipe, and the games behind it; everything costly is kept in the store."""
    design, material, budget, execution = experiment.design, experiment.material, experiment.budget, experiment.execution
    dataset, delta = material.dataset, budget.delta
    stated_claims = {recipe.name: hypothesis.state(recipe, delta) for recipe in design.recipes}
    stages.LOG.info("rehearsing attacks on untrained models")
    games = playable(insertions(design, material, delta), dataset, execution.device)
    resources = Resources(dataset=dataset, execution=execution, store=store, watcher=watcher)
    outcomes: dict[str, list[GameOutcome]] = {recipe.name: [] for recipe in design.recipes}
    for insertion in games:
        name = insertion.training.name
        outcomes[name].append(game.play(insertion, stated_claims[name], budget, resources))
    results, trainings = [], set[str]()
    for recipe in design.recipes:
        own = outcomes[recipe.name]
        training = judge.Training(
            name=recipe.name,
            mechanism=recipe.mechanism,
            stated_claims=stated_claims[recipe.name],
            trajectories=hypothesis.charged(recipe, stated_claims[recipe.name].claims, delta),
            utility=utility([outcome.observed for outcome in own if outcome.observed is not None]),
            counted=recipe.trained_as not in trainings,
            shared=recipe.training,
        )
        results.append(judge.conclude(training, own))
        trainings.add(recipe.trained_as)
    return tuple(results), tuple(outcome for own in outcomes.values() for outcome in own)

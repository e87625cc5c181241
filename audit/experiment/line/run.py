"""The straight line: claims on paper, coins drawn, models trained, scores bounded, claims judged."""

from collections.abc import Sequence
from dataclasses import replace

from audit.core import training as stages
from audit.core.claims import Outcome
from audit.core.preflight import Preflight
from audit.core.results import MechanismResult
from audit.core.training import Watcher
from audit.execution.store import Store
from audit.experiment.describe.description import utility
from audit.experiment.games import hypothesis
from audit.experiment.games.prepared_game import prepare_games
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
    design, budget, execution = experiment.design, experiment.budget, experiment.execution
    dataset, delta = experiment.audit_inputs.dataset, budget.delta
    stated_claims = {training.name: hypothesis.state(training, delta) for training in design.training_designs}
    stages.LOG.info("rehearsing attacks on untrained models")
    games = playable(prepare_games(design, experiment.audit_inputs, delta), dataset, execution.device)
    resources = Resources(dataset=dataset, execution=execution, store=store, watcher=watcher)
    outcomes: dict[str, list[GameOutcome]] = {training_design.name: [] for training_design in design.training_designs}
    for prepared_game in games:
        name = prepared_game.training.name
        outcomes[name].append(game.play_game(prepared_game, stated_claims[name], budget, resources, len(games)))
    results, trainings = [], set[str]()
    for training_design in design.training_designs:
        own, stated = outcomes[training_design.name], stated_claims[training_design.name]
        training = judge.Training(
            name=training_design.name,
            mechanism=training_design.mechanism,
            stated_claims=stated,
            trajectories=hypothesis.charged(training_design, stated.claims, delta),
            utility=utility([outcome.observed for outcome in own if outcome.observed is not None]),
            counted=training_design.trained_as not in trainings,
            shared=training_design.training,
            preflight=_find_worst([outcome.preflight for outcome in own if outcome.preflight is not None]),
        )
        results.append(_conclude(training, own))
        trainings.add(training_design.trained_as)
    return tuple(results), tuple(outcome for own in outcomes.values() for outcome in own)


def _find_worst(preflights: Sequence[Preflight]) -> Preflight | None:
    """Return the preflight of the first game that something speaks against, else that of the first."""
    return next((result for result in preflights if result.doubt), preflights[0] if preflights else None)


def _conclude(training: judge.Training, games: Sequence[GameOutcome]) -> MechanismResult:
    """Return the result; a game with scores of the wrong sign voids it, unless another game refuted a claim."""
    result = judge.conclude(training, games)
    doubt = "" if training.preflight is None else training.preflight.doubt
    if not doubt or result.outcome is Outcome.VIOLATED:
        return result
    return judge.conclude(replace(training, doubt=doubt), games)

"""One game played on one recipe: coins, training, attacks, bounds, and the figures that go with them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from audit import measure, verdict
from audit.core.errors import ObservationError
from audit.core.game import Access, Game, Inclusion
from audit.core.protocols import Attack, Progress
from audit.core.records import Array, Planting, ReferenceView, Scores, TargetView
from audit.core.results import (
    AttackResult,
    BoundTrajectory,
    Check,
    GameResult,
    GroupResult,
    LowerBound,
    RecordExposure,
)
from audit.core.seeds import Seed
from audit.design import Experiment, Play, Recipe, Stated
from audit.store import Store
from audit.training_run import Observed, orders, train

CHECKPOINTS = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Played:
    """What came of one game."""

    result: GameResult
    trajectories: tuple[BoundTrajectory, ...]
    checks: tuple[Check, ...]
    observed: Observed
    scores: tuple[Scores, ...]

    @property
    def bounds(self) -> tuple[LowerBound, ...]:
        """All bounds of the game."""
        return tuple(bound for attack in self.result.attacks for bound in attack.bounds)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """A game on a recipe, after training: everything that attacks and statistics read."""

    experiment: Experiment
    recipe: Recipe
    game: Play
    seed: Seed
    planting: Planting
    observed: Observed
    rules: Game

    def attack(self, name: str, attack: Attack, steps: int | None = None) -> Scores:
        """The scores of all target runs, pooled; each run is attacked alone, with the dedicated references.

        Runs never serve as each other's reference: a guess that used another target's coins would break
        the independence that the one-run theorem rests on. `steps` cuts what was observed to the first steps.
        """
        mechanism = self.recipe.mechanism if steps is None else replace(self.recipe.mechanism, steps=steps)
        reference = self._reference(steps)
        values = []
        for run in range(self.planting.runs):
            view = replace(self._target(run, steps), mechanism=mechanism)
            values.append(attack.score(view, reference, self.seed.child(f"attack:{name}", run)))
        included = self.planting.included[: self.planting.runs].ravel()
        return Scores(values=np.concatenate(values), included=included, game=self.rules, attack=name, mechanism=mechanism)

    def _target(self, run: int, steps: int | None) -> TargetView:
        records, seen = self.planting.canaries.records, self.observed
        return TargetView(
            labels=None if records is None else records.labels,
            logits=None if seen.canary_logits is None else seen.canary_logits[run],
            products=None if seen.products is None else seen.products[run][:, :steps],
        )

    def _reference(self, steps: int | None) -> ReferenceView:
        seen = self.observed
        first, lost = self.planting.runs, seen.diverged[self.planting.runs :]
        own = first + np.flatnonzero(~lost) if lost.any() else slice(first, None)
        return ReferenceView(
            included=self.planting.included[own],
            logits=None if seen.canary_logits is None else seen.canary_logits[own],
            products=None if seen.products is None else seen.products[own][..., :steps],
        )


def play(experiment: Experiment, recipe: Recipe, game: Play, stated: Stated, tools: tuple[Store, Progress]) -> Played:
    """One game on one recipe, from coins to bounds. `tools`: where values are kept, and who hears of progress."""
    store, progress = tools
    seed = experiment.seed.child(f"recipe:{recipe.name}").child(f"game:{game.name}")
    planting = plant(experiment, game, seed)
    store.arrays(f"coins-{recipe.name}-{game.name}", lambda: {"included": planting.included})
    shared = (experiment.dataset, planting.canaries)
    observed = train(orders(experiment, recipe, game, planting), shared, store, experiment.executor, progress)
    refuse_lost(game, observed)
    one = Round(
        experiment=experiment,
        recipe=recipe,
        game=game,
        seed=seed,
        planting=planting,
        observed=observed,
        rules=rules_of(game, planting),
    )
    scores = [one.attack(name, attack) for name, attack in game.attacks]
    results = [judge_scores(one, found, stated, seed.child("bounds", index)) for index, found in enumerate(scores)]
    best = scores[max(range(len(results)), key=lambda index: results[index].auc)]
    return Played(
        result=GameResult(
            name=game.name,
            game=one.rules,
            attacks=tuple(results),
            records=exposed_records(one, best),
            groups=class_results(one, best),
            models=game.models,
        ),
        trajectories=tuple(curve for name, attack in game.attacks for curve in trajectories(one, name, attack)),
        checks=(*verdict.check_executed(recipe.mechanism, observed.executed), verdict.check_finite(observed.diverged)),
        observed=observed,
        scores=tuple(scores),
    )


def refuse_lost(game: Play, observed: Observed) -> None:
    """Nothing, or `ObservationError` where too few models stayed finite for the game to be played.

    A single target that diverged stays in: leaving runs out by their outcome would bias the bounds.
    """
    lost = observed.diverged
    advice = "lower the learning rate or the noise"
    if lost[: game.runs].all():
        raise ObservationError(f"game '{game.name}': all {game.runs} target runs diverged; {advice}")
    left = int((~lost[game.runs :]).sum())
    for name, attack in game.attacks:
        if left < attack.needs.references:
            raise ObservationError(
                f"game '{game.name}': {left} of {game.references} reference models stayed finite, "
                f"scorer '{name}' needs {attack.needs.references}; {advice}"
            )


def plant(experiment: Experiment, game: Play, seed: Seed) -> Planting:
    """The canaries, the same in all models of the game, and one coin per model and canary."""
    canaries = game.maker.make(experiment.dataset, game.count, experiment.parameters, seed.child("canaries"))
    coins = seed.child("coins").numpy().random((game.models, len(canaries)))
    return Planting(canaries=canaries, included=coins < game.inclusion_probability, runs=game.runs)


def rules_of(game: Play, planting: Planting) -> Game:
    """The game as it was played, and what it grants to statistics."""
    canaries = planting.canaries
    return Game(
        adjacency=game.adjacency,
        access=game.access,
        inclusion=Inclusion.COINS,
        canaries=len(canaries),
        runs=game.runs,
        references=game.references,
        inclusion_probability=game.inclusion_probability,
        independent_noise=canaries.orthogonal and game.access is Access.ALL_STEPS,
        canary=canaries.description,
    )


def judge_scores(one: Round, scores: Scores, stated: Stated, seed: Seed) -> AttackResult:
    """Bounds, negative control and figures of one attack."""
    experiment, estimators = one.experiment, one.game.estimators
    level = experiment.bound_confidence
    return measure.attack_result(
        scores,
        confidence=experiment.confidence,
        seed=seed,
        bounds=measure.bounds(scores, estimators, delta=experiment.delta, confidence=level, seed=seed),
        control=measure.negative_control(scores, estimators, delta=experiment.delta, confidence=level, seed=seed),
        claim=stated.tightest,
        limit=stated.limit,
    )


def trajectories(one: Round, name: str, attack: Attack) -> list[BoundTrajectory]:
    """Proven epsilon over the steps seen so far, a curve per estimator; each point holds at its level on its own."""
    total = one.recipe.mechanism.steps
    if one.observed.products is None or one.observed.products.shape[-1] != total:
        return []
    checkpoints = sorted({max(1, round(total * (i + 1) / CHECKPOINTS)) for i in range(CHECKPOINTS)})
    rows = []
    for steps in checkpoints:
        found = measure.bounds(
            one.attack(name, attack, steps),
            one.game.estimators,
            delta=one.experiment.delta,
            confidence=one.experiment.bound_confidence,
            seed=one.seed.child("trajectory", steps),
        )
        rows.append([bound.epsilon for bound in found])
    labels = [f"{name}, {found.estimator}" for found in found]
    curves = zip(labels, zip(*rows, strict=True), strict=True)
    return [BoundTrajectory(label=label, steps=tuple(checkpoints), epsilon=curve) for label, curve in curves]


def exposed_records(one: Round, scores: Scores) -> tuple[RecordExposure, ...]:
    """The canaries of the first target run whose scores stand out most, under keyed names."""
    canaries = one.planting.canaries
    if canaries.records is None:
        return ()
    count = len(canaries)
    first = replace(scores, values=scores.values[:count], included=scores.included[:count])
    rows = range(count) if canaries.identifiers is None else canaries.identifiers.tolist()
    names = [measure.keyed_name(one.experiment.seed, row) for row in rows]
    return measure.exposures(first, names, [f"{label:g}" for label in canaries.records.labels.tolist()])


def class_results(one: Round, scores: Scores) -> tuple[GroupResult, ...]:
    """Attack AUC and model accuracy on the canaries of each class, over all target runs."""
    records, logits = one.planting.canaries.records, one.observed.canary_logits
    if records is None or logits is None or not one.experiment.dataset.classes:
        return ()
    labels = [f"{label:g}" for label in records.labels.tolist()] * one.planting.runs
    correct: Array = (logits[: one.planting.runs].argmax(-1) == records.labels).ravel()
    return measure.group_results(scores, labels, correct)

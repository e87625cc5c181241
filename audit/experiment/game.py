"""One game played on one recipe: coins, training, attacks, bounds, and the figures that go with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attacks.signals.logits import Logits
from attacks.signals.step_products import StepProducts
from audit.bounds import simulation as certificates
from audit.core import event_reading
from audit.core.claims import Certificate, Detectable, LowerBound
from audit.core.data import Array
from audit.core.evaluation import Evaluation
from audit.core.evidence import Watched
from audit.core.protocols import Attack, Chooser
from audit.core.results import AttackResult, BoundTrajectory, Check, GameResult, GroupResult, RecordExposure
from audit.core.seeds import Seed
from audit.core.training import Progress
from audit.core.views import Scores, View
from audit.execution.store import Store
from audit.experiment import figures, judge, leave_one_out_summary, stopping
from audit.experiment.attack import Round, part, refuse_lost, refuse_lost_references
from audit.experiment.insertion import Planted
from audit.experiment.spec import Experiment, Play, Stated
from audit.experiment.train import Observed, orders, spread_over, train


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Played:
    """What came of one game."""

    result: GameResult
    trajectories: tuple[tuple[str | None, BoundTrajectory], ...]  # with the family inside which each holds
    checks: tuple[Check, ...]
    observed: Observed
    scores: tuple[Scores, ...]

    @property
    def bounds(self) -> tuple[LowerBound, ...]:
        """All bounds of the game."""
        return self.result.bounds


def play(experiment: Experiment, one: Planted, stated: Stated, tools: tuple[Store, Progress]) -> Played:
    """One game on one recipe, from coins to bounds. `tools`: where values are kept, and who hears of progress."""
    store, progress = tools
    store.private.arrays(f"coins-{one.recipe.name}-{one.game.name}", lambda: {"included": one.planting.included})
    found = orders(experiment, one.recipe, one.game, one.planting)
    jobs = list(zip(one.game.portions(experiment.models_per_job), found, strict=True))
    watch = watch_of(experiment, one.game, stated)
    scores: list[list[Scores]] = []

    def enough(done: int) -> bool:
        rows = jobs[done - 1][0]
        if not watch.ends or rows.start >= one.game.runs:
            return False
        references = [job for job in jobs if job[0].start >= one.game.runs]
        look = part(experiment, one, [*references, jobs[done - 1]], store)
        refuse_lost_references(look)
        scores.append([look.attack(name, attack) for name, attack in one.game.attacks])
        return watch.proves(stopping.joined(scores))

    count = train(found, (experiment.dataset, one.planting.canaries), (store, experiment.executor, progress), enough)
    if count < len(jobs):
        left = sum(len(rows) for rows, _ in jobs[count:])
        stopping.LOG.info(
            "%s, game %s: stopped early, a claim is refuted; %d runs spared", one.recipe.name, one.game.name, left
        )
    return concluded(part(experiment, one, jobs[:count], store), stated)


def watch_of(experiment: Experiment, game: Play, stated: Stated) -> stopping.Watch:
    """What the game is asked while it goes on: nothing where it does not stop."""
    return stopping.Watch(
        estimators=stopping.anytime(game.estimators) if game.stops else (),
        claims=stated.claims,
        delta=experiment.delta,
        confidence=experiment.bound_confidence,
        planned=game.runs,
        looks=game.looks(experiment.models_per_job),
    )


def concluded(one: Round, stated: Stated) -> Played:
    """All that attacks and statistics find in what was observed."""
    refuse_lost(one)
    recipe, game, seed, observed = one.recipe, one.game, one.seed, one.observed
    scores = [one.attack(name, attack) for name, attack in game.attacks]
    seeds = [seed.child("bounds", index) for index in range(len(scores))]
    results = [
        judge_scores(one, attack, found, stated, own)
        for (_, attack), found, own in zip(game.attacks, scores, seeds, strict=True)
    ]
    best = scores[max(range(len(results)), key=lambda index: results[index].auc)]
    certified, detectable = simulated(one, stated)
    return Played(
        result=GameResult(
            name=game.name,
            game=one.rules,
            attacks=tuple(results),
            records=exposed_records(one, best),
            groups=class_results(one, best),
            models=len(observed.diverged),
            note="; ".join(chosen(one)),
            certificates=certified,
            detectable=detectable,
            evaluation=described(one),
            watched=watched(one, scores, stated),
        ),
        trajectories=tuple(
            curve
            for (name, attack), own in zip(game.attacks, seeds, strict=True)
            for curve in trajectories(one, name, attack, own)
        ),
        checks=(*judge.check_executed(recipe.mechanism, observed.executed), judge.check_finite(observed.diverged)),
        observed=observed,
        scores=tuple(scores),
    )


def chosen(one: Round) -> list[str]:
    """What attacks that choose between others took here, and why, in words; decided by counts, never by scores."""
    lost, runs = one.observed.diverged, one.planting.runs
    own = one.planting.included[runs : len(lost)][~lost[runs:]]
    found = []
    for name, attack in one.game.attacks:
        if isinstance(attack, Chooser):
            kind, reason = attack.choose(len(own), own.shape[1], online=bool(own.any()))
            found.append(f"'{name}' took {kind}: {reason}")
    return found


def judge_scores(one: Round, attack: Attack, scores: Scores, stated: Stated, seed: Seed) -> AttackResult:
    """Bounds, negative control and figures of one attack."""
    experiment, estimators = one.experiment, one.game.alone(attack)
    level, looks = experiment.bound_confidence, one.game.looks(experiment.models_per_job)
    found = figures.attack_result(
        scores,
        confidence=figures.share(experiment.confidence, looks),
        seed=seed,
        bounds=figures.bounds(scores, estimators, delta=experiment.delta, confidence=level, seed=seed),
        control=figures.negative_control(scores, estimators, delta=experiment.delta, confidence=level, seed=seed)
        if estimators
        else None,
        claim=stated.tightest,
        limit=stated.limit,
    )
    return replace(stopping.paid(found, experiment.confidence, looks), access=one.game.level(attack))


def watched(one: Round, scores: Sequence[Scores], stated: Stated) -> Watched | None:
    """How training went and what all attacks show together, where it could stop at the first proof."""
    watch = watch_of(one.experiment, one.game, stated)
    return watch.result(scores, one.seed.child("watched")) if watch.ends else None


def simulated(one: Round, stated: Stated) -> tuple[tuple[Certificate, ...], tuple[Detectable, ...]]:
    """How often the bounds of this game are wrong, and what they would have caught, by simulating it."""
    experiment = one.experiment
    if not experiment.certificates:
        return (), ()
    path = certificates.Path(
        attacks=tuple(tuple(one.game.estimators_of(attack)) for _, attack in one.game.attacks),
        game=replace(one.rules, runs=one.game.runs),
        mechanism=one.recipe.mechanism,
        delta=experiment.delta,
        level=experiment.bound_confidence,
        together=one.game.stops,
    )
    return certificates.certify(path, experiment.certificates), certificates.detectable(path, stated.claims)


def trajectories(one: Round, name: str, attack: Attack, seed: Seed) -> list[tuple[str | None, BoundTrajectory]]:
    """Proven epsilon over the steps seen so far, a curve per estimator; each point holds at its level on its own.

    `seed` is that of the attack's bounds, so that the last point is the bound which the tables state.
    """
    if StepProducts() not in attack.needs.signals or one.game.stops:
        return []  # bounds of a fixed size say nothing of a sample that was chosen by what it showed
    checkpoints = spread_over(event_reading.steps(one.recipe.mechanism))
    rows = []
    for steps in checkpoints:
        found = figures.bounds(
            one.attack(name, attack, steps),
            one.game.estimators_of(attack),
            delta=one.experiment.delta,
            confidence=one.experiment.bound_confidence,
            seed=seed,
        )
        rows.append([bound.epsilon for bound in found])
    return [
        (bound.family, BoundTrajectory(label=_label(name, bound), steps=checkpoints, epsilon=curve))
        for bound, curve in zip(found, zip(*rows, strict=True), strict=True)
    ]


def _label(name: str, bound: LowerBound) -> str:
    return f"{name}, {bound.estimator}{f' (inside {bound.family})' if bound.family else ''}"


def described(one: Round) -> Evaluation | None:
    """What all models of the game that stayed finite say of its attacks on records, each of them once the target."""
    records, kept = one.planting.canaries.records, np.flatnonzero(~one.observed.diverged)
    if records is None or not one.experiment.dataset.classes:
        return None
    signals = {key: value[kept] for key, value in one.observed.signals.items()}
    views = View(signals=signals, included=one.planting.included[kept])
    models = leave_one_out_summary.Models(
        views=views,
        labels=records.labels,
        runs=int(np.sum(kept < one.planting.runs)),
        names=record_names(one),
        columns=columns(one),
    )
    return leave_one_out_summary.describe(one.game.attacks, models, prior=one.game.prior, seed=one.seed.child("described"))


def columns(one: Round) -> dict[str, Array]:
    """The columns that records are grouped by: their class, and the user's column where the data has one."""
    canaries, dataset = one.planting.canaries, one.experiment.dataset
    if canaries.records is None:
        return {}
    found = {"class": np.array([f"{label:g}" for label in canaries.records.labels.tolist()])}
    if (
        dataset.groups is not None
        and canaries.identifiers is not None
        and np.isin(canaries.identifiers, dataset.pool_index).all()
    ):
        order = np.argsort(dataset.pool_index)
        place = order[np.searchsorted(dataset.pool_index, canaries.identifiers, sorter=order)]
        found["group"] = np.asarray(dataset.groups)[place].astype(str)
    return found


def record_names(one: Round) -> list[str]:
    """A keyed name for each canary."""
    canaries = one.planting.canaries
    known = canaries.identifiers is not None and len(np.unique(canaries.identifiers)) == len(canaries)
    rows = canaries.identifiers.tolist() if known and canaries.identifiers is not None else range(len(canaries))
    return one.experiment.names.names(rows)


def exposed_records(one: Round, scores: Scores) -> tuple[RecordExposure, ...]:
    """The canaries of the first target run whose scores stand out most, under keyed names."""
    canaries = one.planting.canaries
    if canaries.records is None:
        return ()
    count = len(canaries)
    first = replace(scores, values=scores.values[:count], included=scores.included[:count])
    return figures.exposures(first, record_names(one), [f"{label:g}" for label in canaries.records.labels.tolist()])


def class_results(one: Round, scores: Scores) -> tuple[GroupResult, ...]:
    """Attack AUC and model accuracy on the canaries of each class and each of the user's groups, over all target runs."""
    records, logits = one.planting.canaries.records, one.observed.signals.get(Logits.key)
    if records is None or logits is None or not one.experiment.dataset.classes:
        return ()
    level = figures.share(one.experiment.confidence, one.game.looks(one.experiment.models_per_job))
    correct: Array = (logits[: one.planting.runs].argmax(-1) == records.labels).ravel()
    found: list[GroupResult] = []
    for column, values in columns(one).items():
        named = values.tolist() if column == "class" else [f"{column} {value}" for value in values]
        found += figures.group_results(scores, named * one.planting.runs, level, correct)
    return tuple(found)

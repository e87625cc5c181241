"""What the scores and the models of one game show: bounds, controls, simulations, records, groups, leave-one-out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attacks.signals.logits import Logits
from attacks.signals.step_products import StepProducts
from audit.bounds import budget as bounding
from audit.bounds import control, simulation
from audit.bounds.budget import Budget
from audit.core import event_reading
from audit.core.claims import Certificate, Detectable
from audit.core.data import Array
from audit.core.evaluation import Evaluation
from audit.core.events import Event
from audit.core.game import Game, Inclusion
from audit.core.game_results import AttackResult, GameResult, GroupResult, RecordExposure
from audit.core.protocols import Chooser, Estimator
from audit.core.results import BoundTrajectory
from audit.core.seeds import Seed
from audit.core.views import Scores, View
from audit.experiment import figures, leave_one_out_summary, records, stopping
from audit.experiment.attack import GameModels, score
from audit.experiment.insertion import Insertion, rules_of
from audit.experiment.records import RecordTable
from audit.experiment.spec import Play, StatedClaims
from audit.experiment.train import spread_over

OF_A_SPLIT = "membership was decided by a data split, so no epsilon follows"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundTerms:
    """On what terms scores are bounded.

    Attributes:
        rules: of the game, as an adversary with all its access played it.
        planned: target runs at most.
        estimators: of each attack, in the order of the scores.
        mechanism: what is claimed to have been run; None where nobody says.
        watch: of a game that stops at the first proof, whose estimators bound all attacks together.
    """

    name: str
    rules: Game
    planned: int
    estimators: tuple[tuple[Estimator, ...], ...]
    seed: Seed
    watch: stopping.Watch
    mechanism: Event | None = None


def terms_of(insertion: Insertion, watch: stopping.Watch) -> BoundTerms:
    """Those of a game with its coins drawn."""
    play = insertion.play
    return BoundTerms(
        name=play.name,
        rules=rules_of(play, insertion.planting, play.access),
        planned=play.runs,
        estimators=tuple(attack.estimators for attack in play.attacks),
        seed=insertion.seed,
        watch=watch,
        mechanism=insertion.mechanism,
    )


def bound_game(scores: Sequence[Scores], terms: BoundTerms, claims: StatedClaims, budget: Budget) -> GameResult:
    """All that follows from the scores alone: figures, bounds and negative controls, and simulations of this very game."""
    watch = terms.watch
    attacks = [
        _attack(score, () if watch.ends else estimators, claims, budget, (terms.seed.child("bounds", index), watch.looks))
        for index, (score, estimators) in enumerate(zip(scores, terms.estimators, strict=True))
    ]
    certificates, detectable = _simulate(terms, claims, budget)
    return GameResult(
        name=terms.name,
        game=terms.rules,
        attacks=tuple(attacks),
        certificates=certificates,
        detectable=detectable,
        watched=watch.result(scores, terms.seed.child("watched")) if watch.ends and scores else None,
    )


def _attack(
    scores: Scores, estimators: Sequence[Estimator], claims: StatedClaims, budget: Budget, look: tuple[Seed, int]
) -> AttackResult:
    """Bounds, negative control and figures of one attack."""
    seed, looks = look
    by_coins = scores.game.inclusion is Inclusion.COINS
    result = figures.attack_result(
        scores,
        confidence=bounding.share(budget.confidence, looks),
        seed=seed,
        bounds=bounding.bounds(scores, estimators, delta=budget.delta, confidence=budget.level, seed=seed),
        control=control.negative_control(scores, estimators, delta=budget.delta, confidence=budget.level, seed=seed)
        if estimators
        else None,
        claim=claims.tightest if by_coins else None,
        limit=claims.limit if by_coins else None,
    )
    return replace(stopping.pay_looks(result, budget.confidence, looks), access=scores.game.access)


def _simulate(
    terms: BoundTerms, claims: StatedClaims, budget: Budget
) -> tuple[tuple[Certificate, ...], tuple[Detectable, ...]]:
    """How often the bounds of this game are wrong, and what they would have caught, by simulating it."""
    bounding_attacks = tuple(estimators for estimators in terms.estimators if estimators)
    if not budget.certificates or not bounding_attacks:
        return (), ()
    path = simulation.Path(
        attacks=bounding_attacks,
        game=replace(terms.rules, runs=terms.planned),
        mechanism=terms.mechanism,
        delta=budget.delta,
        level=budget.level,
        together=terms.watch.ends,
    )
    return simulation.certify(path, budget.certificates), simulation.detectable(path, claims.claims)


def describe(
    result: GameResult, models: GameModels, scores: Sequence[Scores], table: RecordTable, confidence: float
) -> GameResult:
    """The result with what the models besides show of records and groups, and of their own number. Proves no epsilon."""
    split = () if models.insertion.planting.by_coins else (OF_A_SPLIT,)
    absences = records.absences(table) if _are_classified(models) else ()
    complete_result = replace(
        result,
        models=len(models.observed.diverged),
        note="; ".join((*models.insertion.notes, *split, *_remarks(models), *absences)),
    )
    if not scores or result.game.choices > 1:  # what follows is about records that are in or out
        return complete_result
    best = scores[max(range(len(scores)), key=lambda index: result.attacks[index].auc)]
    return replace(
        complete_result,
        records=_exposure(models, best, table),
        groups=_groups(models, best, table, confidence),
        evaluation=_evaluation(models, table),
    )


def _remarks(models: GameModels) -> list[str]:
    """What attacks that choose between others took here, and why, in words; decided by counts, never by scores."""
    own = models.insertion.planting.included[models.references]
    remarks = []
    for attack in models.insertion.play.attacks:
        if isinstance(attack.attack, Chooser):
            kind, reason = attack.attack.choose(len(own), own.shape[1], online=bool(own.any()))
            remarks.append(f"'{attack.name}' took {kind}: {reason}")
    return remarks


def trajectories(models: GameModels, budget: Budget) -> tuple[tuple[str | None, BoundTrajectory], ...]:
    """Proven epsilon over the steps seen so far, a curve per attack that sees them and estimator, with its family.

    Each point holds at its level on its own. Seeds are those of the attacks' bounds, so that the last point is the bound
    which the tables state. Bounds of a fixed size say nothing of a sample that was chosen by what it showed.
    """
    play, mechanism = models.insertion.play, models.insertion.mechanism
    if mechanism is None or play.stops:
        return ()
    checkpoints = spread_over(event_reading.steps(mechanism))
    curves = []
    for index, attack in enumerate(play.attacks):
        if StepProducts() in attack.attack.needs.signals:
            seed = models.insertion.seed.child("bounds", index)
            rows = [
                bounding.bounds(
                    score(models, attack, steps),
                    attack.estimators,
                    delta=budget.delta,
                    confidence=budget.level,
                    seed=seed,
                )
                for steps in checkpoints
            ]
            for curve in zip(*rows, strict=True):
                bound, epsilon = curve[-1], tuple(point.epsilon for point in curve)
                label = f"{attack.name}, {bound.estimator}{f' (inside {bound.family})' if bound.family else ''}"
                curves.append((bound.family, BoundTrajectory(label=label, steps=checkpoints, epsilon=epsilon)))
    return tuple(curves)


def _evaluation(models: GameModels, table: RecordTable) -> Evaluation | None:
    """What all models of the game that stayed finite say of its attacks on records, each of them once the target."""
    if not _are_classified(models):
        return None
    planting, finite = models.insertion.planting, np.flatnonzero(~models.observed.diverged)
    signals = {key: value[finite] for key, value in models.observed.signals.items()}
    everyone = leave_one_out_summary.LeaveOneOutModels(
        views=View(signals=signals, included=planting.included[finite]),
        labels=models.labels,
        runs=int(np.sum(finite < planting.runs)),
        table=table,
    )
    play: Play = models.insertion.play
    attacks = [(attack.name, attack.attack) for attack in play.attacks]
    return leave_one_out_summary.describe(attacks, everyone, prior=play.prior, seed=models.insertion.seed.child("described"))


def _are_classified(models: GameModels) -> bool:
    """Whether canaries are records of classes, or of losses alone."""
    if models.insertion.planting.canaries.records is None:
        return False
    return models.labels is None or models.labels.dtype.kind in "iu"


def _exposure(models: GameModels, scores: Scores, table: RecordTable) -> tuple[RecordExposure, ...]:
    """The canaries of the first target run whose scores stand out most, under keyed names."""
    if models.insertion.planting.canaries.records is None:
        return ()
    count = len(table.names)
    first = replace(scores, values=scores.values[:count], included=scores.included[:count])
    return records.exposures(first, table.names, table.labels)


def _groups(models: GameModels, scores: Scores, table: RecordTable, confidence: float) -> tuple[GroupResult, ...]:
    """Attack AUC and model accuracy on the canaries of each class and each of the user's groups, over all target runs."""
    runs, logits = models.insertion.planting.runs, models.observed.signals.get(Logits.key)
    if not _are_classified(models):
        return ()
    correct: Array | None = None if logits is None else (logits[:runs].argmax(-1) == models.labels).ravel()
    results: list[GroupResult] = []
    for column, values in table.columns.items():
        group_names = values.tolist() if column == "class" else [f"{column} {value}" for value in values]
        results += records.group_results(scores, group_names * runs, confidence, correct)
    return tuple(results)

"""What the models of one game show beside its bounds: records, groups, answers to triggers, bounds over the steps."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals._reductions import PredictedClasses
from attacks.signals._white_box import StepProducts
from attacks.signals.logits import Logits
from audit.bounds import budget as bounding
from audit.bounds.budget import Budget
from audit.core import event_reading
from audit.core.canaries import Canaries
from audit.core.coins import some_models
from audit.core.data import Array, Dataset
from audit.core.game_results import AttackResult, GameResult, LevelCount, SecretFigures, SecretScorer, SecretUnit, TriggerResult
from audit.core.lower_bounds import BoundTrajectory
from audit.core.phrases import join_clauses, phrase
from audit.core.protocols import Attack, Chooser
from audit.core.results import Metric
from audit.core.views import Scores, View
from audit.experiment.describe import leave_one_out_summary
from audit.experiment.games import records
from audit.experiment.games.attack import score
from audit.experiment.games.hypothesis import ClaimLimits
from audit.experiment.games.job_specs import spread_over
from audit.experiment.games.observed import GameModels, Observations
from audit.experiment.games.utility_figures import ACCURACY, ORDER

# What attacks on texts get of planted secrets, and of those that were not planted: exposure and extraction in a report.
ROUNDING = 1e-9  # of a figure that a level is compared with, relative


def with_secrets(result: AttackResult, attack: Attack, scores: Scores, canaries: Canaries) -> AttackResult:
    """Return the attack's result with its figures on secrets, if its scores of texts have a unit."""
    records = canaries.records
    if not isinstance(attack, SecretScorer) or records is None or not records.are_texts:
        return result
    predicted = records.labels >= 0
    starts = predicted & ~np.pad(predicted, ((0, 0), (1, 0)))[:, :-1]  # a user's texts are side by side, each with its secret
    texts = canaries.payload.copies * int(starts.sum(axis=1).max())
    return replace(result, secrets=secret_figures(scores, attack.unit, texts))


def secret_figures(scores: Scores, unit: SecretUnit, texts: int) -> SecretFigures:
    """Return means and counts of a unit on both sides; `texts` is how many training texts hold a planted secret."""
    sides = scores.members, scores.nonmembers
    counts = [[int((side >= level * (1 - ROUNDING)).sum()) for side in sides] for level in unit.levels]
    return SecretFigures(
        quantity=unit.quantity,
        members=len(scores.members),
        nonmembers=len(scores.nonmembers),
        mean_members=float(scores.members.mean()),
        mean_nonmembers=float(scores.nonmembers.mean()),
        by_chance=unit.by_chance,
        levels=tuple(
            LevelCount(level=level, members=planted, nonmembers=absent)
            for level, (planted, absent) in zip(unit.levels, counts, strict=True)
        ),
        texts=texts,
    )


SPLIT_REMARK = "membership was decided by a data split, so no epsilon follows"
OF_A_GROUP = "what is guessed is about a group of records: a claim for one record leaves it what it leaves the whole group"


def describe(result: GameResult, models: GameModels, scores: Sequence[Scores], confidence: float) -> GameResult:
    """Return the result with what the models show of records and groups, their own and number."""
    prepared_game = models.prepared_game
    if result.game.choices == 1:
        result = replace(result, attacks=_with_secrets(result.attacks, models, scores))
    group = (OF_A_GROUP,) if result.game.secret == "property" else ()
    split = () if prepared_game.assignment.by_coins else (SPLIT_REMARK,)
    absences = records.absences(prepared_game.records) if models.are_classified and result.game.choices == 1 else ()
    complete = replace(
        result,
        models=len(models.observed.diverged),
        note=join_clauses((*prepared_game.notes, *split, *group, *_remarks(models), *absences)),
    )
    if not scores or result.game.choices > 1 or result.game.aim != "membership":  # what follows is about records in or out
        return complete
    best = scores[max(range(len(scores)), key=lambda index: result.attacks[index].auc_or_zero)]
    correct, table = _correct(models), prepared_game.records
    return replace(
        complete,
        records=() if prepared_game.assignment.canaries.records is None else records.most_exposed(best, table),
        groups=records.by_column(best, table, confidence, correct) if models.are_classified else (),
        evaluation=leave_one_out_summary.evaluate(models) if models.are_classified else None,
    )


def _with_secrets(results: Sequence[AttackResult], models: GameModels, scores: Sequence[Scores]) -> tuple[AttackResult, ...]:
    """Return the attacks, those on texts with their figures on secrets."""
    plans = {plan.name: plan.attack for plan in models.prepared_game.game_design.attacks}
    canaries = models.prepared_game.assignment.canaries
    return tuple(
        with_secrets(result, plans[values.attack], values, canaries) if values.attack in plans else result
        for result, values in zip(results, scores, strict=True)
    )


def _remarks(models: GameModels) -> list[str]:
    """Return what attacks that choose between others took here, and the evidence, in words; no coin of a target decides."""
    rows, signals = models.references, models.observed.signals
    remarks: list[str] = []
    for attack in models.prepared_game.game_design.attacks:
        if isinstance(attack.attack, Chooser):
            included = some_models(models.prepared_game.assignment.included, rows)
            own_signals = {key: signals[key][rows] for key in attack.attack.needs.keys if key in signals}
            kind, reason = attack.attack.choose(View(signals=own_signals, included=included), models.labels)
            remarks.append(phrase("'{attack}' took {choice}: {reason}", attack=attack.name, choice=kind, reason=reason))
    return remarks


def _correct(models: GameModels) -> Array | None:
    """`(runs * m,)` whether each target run is right on each canary; None if outputs or classes are not known."""
    runs = models.prepared_game.assignment.runs
    classes = reading.predicted_classes(models.observed.signals, slice(runs)) if models.are_classified else None
    return None if classes is None else np.asarray(classes == models.labels).ravel()


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


def trigger_result(models: GameModels, dataset: Dataset, claim_limits: ClaimLimits) -> TriggerResult | None:
    """Return the figures of a game of backdoors over its targets that stayed finite; None for other games, or without such."""
    assignment = models.prepared_game.assignment
    canaries, observed = assignment.canaries, models.observed
    finite = np.flatnonzero(~observed.diverged[: assignment.runs])
    if canaries.payload.aim != "backdoor" or canaries.records is None or not len(finite):
        return None
    classes = reading.predicted_classes(observed.signals, finite)
    if classes is None:
        return None
    is_hit = classes == canaries.records.labels
    included = assignment.included[finite]
    with_records, hits_with = int(included.sum()), int((is_hit & included).sum())
    without_records, hits_without = int((~included).sum()), int((is_hit & ~included).sum())
    together = ClaimLimits(claim=claim_limits.claim).of_group(canaries.payload.copies)
    accuracy = None
    if ACCURACY in observed.test_figures:
        counts = np.rint(observed.test_figures[ACCURACY][finite] * len(dataset.test))  # whole again: the mean of all at once
        accuracy = float(counts.sum() / (len(finite) * len(dataset.test)))
    return TriggerResult(
        records=canaries.payload.copies,
        with_records=with_records,
        hits_with=hits_with,
        without_records=without_records,
        hits_without=hits_without,
        accuracy=accuracy,
        # no attacker brings an answer that is given with chance q above 1 - f(q), f of the group (Ma, Zhu and Hsu 2019, arXiv
        # 1903.09860; docs/theory/groups.md, "What a claim leaves poisoned records")
        allowed=None if together.claim is None else float(together.tpr(hits_without / max(without_records, 1))),
    )


def utility(games: Sequence[Observations]) -> tuple[Metric, ...]:
    """Mean and spread over models of accuracy, macro-F1 and AUC (regression: MSE and R2; texts: perplexity).

    Models that diverged are left out. Those with records as canaries are preferred: crafted gradients attack utility too.
    """
    natural = [game for game in games if {Logits.key, PredictedClasses.key} & game.signals.keys()] or list(games)
    tests = [game for game in natural if game.test_figures and not game.diverged.all()]
    metrics = []
    for name in sorted(tests[0].test_figures if tests else (), key=ORDER.index):
        values = np.concatenate([game.test_figures[name][~game.diverged] for game in tests])
        spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        metrics.append(Metric(name=name, value=float(values.mean()), spread=spread, models=len(values)))
    return tuple(metrics)


def side_accuracy(models: GameModels) -> tuple[Metric, ...]:
    """Accuracy and loss of the first model on its members and its nonmembers, for a model without test records."""
    target, included = models.observed, models.prepared_game.assignment.included[0]
    view = View(signals={key: value[0] for key, value in target.signals.items()}, labels=models.labels)
    loss, logits = reading.losses(view, reading.NO_REFERENCE, "loss")[0], view.get(Logits.key)
    rows = []
    for side, name in ((included, "members"), (~included, "nonmembers")):
        if logits is not None:
            right = float(np.mean(logits[side].argmax(-1) == np.asarray(models.labels)[side]))
            rows.append(Metric(name=f"accuracy on {name}", value=right, spread=0.0, models=1))
        rows.append(Metric(name=f"loss on {name}", value=float(loss[side].mean()), spread=0.0, models=1))
    return tuple(rows)

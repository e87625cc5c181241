"""What all trained models of a game say about its attacks, each once the target: read beside the bounds, never as one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals._reductions import PredictedClasses
from attacks.signals.logits import Logits
from audit.core.coins import as_coins, some_models, take_models
from audit.core.data import Array
from audit.core.evaluation import (
    Calibrated,
    Evaluation,
    Fidelity,
    GroupSpread,
    RecordSpread,
    ScorerSpread,
    UnitSpread,
    Usage,
    UsageSpread,
)
from audit.core.protocols import Attack, Chooser
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.describe import leave_one_out
from audit.experiment.describe.leave_one_out import LeaveOneOut
from audit.experiment.describe.resemblance import Resemblance
from audit.experiment.games.observed import GameModels, Room, as_slice, in_memory
from audit.experiment.games.records import RecordTable
from audit.stats.scoring import usage
from audit.stats.spread import evenly

LEAST_CANARIES = 20  # fewer on average on a side than half of this and a model has no ROC to speak of
LEAST_REFERENCES = 3  # of the fidelity check, and of an estimated share
LEAST_UNITS = 20  # values of a column under which it names groups, not units
MOST_WORK = 100_000_000  # (target, reference, canary) triples an attack: about a minute or two
LEAST_TARGETS = 64  # whatever they cost
CHOOSER_TARGETS = 4  # of an attack that tries many others for each of them
MOST_RECORDS = 20
FPRS = (0.1, 0.01, 0.001)
NOMINAL_FPRS = (0.01, 0.001)
FOUND_AT = 0.01  # or one nonmember, if there are fewer than a hundred


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeaveOneOutModels:
    """All models of one game, the `runs` targets first; `labels` `(m,)`, None if only losses are known."""

    views: View
    labels: Array | None
    runs: int
    table: RecordTable
    room: Room = in_memory


def evaluate(models: GameModels) -> Evaluation | None:
    """Return what all models of a game that stayed finite say of its attacks on records, each of them once the target."""
    prepared_game, finite = models.prepared_game, np.flatnonzero(~models.observed.diverged)
    rows = as_slice(finite)
    signals = {key: value[rows] for key, value in models.observed.signals.items()}
    everyone = LeaveOneOutModels(
        views=View(signals=signals, included=some_models(prepared_game.assignment.included, rows)),
        labels=models.labels,
        runs=int(np.sum(finite < prepared_game.assignment.runs)),
        table=prepared_game.records,
        room=models.observed.room,
    )
    attacks = [(attack.name, attack.attack) for attack in prepared_game.game_design.attacks]
    return describe(attacks, everyone, prior=prepared_game.game_design.prior, seed=prepared_game.seed.child("described"))


def describe(
    attacks: Sequence[tuple[str, Attack]], models: LeaveOneOutModels, *, prior: float, seed: Seed
) -> Evaluation | None:
    """Leave-one-out figures of every attack, and what the strongest says of records, groups and thresholds.

    Every model is a target and attacked with all others as references. Only where that is more than `MOST_WORK`, in games of
    hundreds of references, the targets are as many models as that allows, and `LEAST_TARGETS` at least, evenly spread. An
    attack that chooses between others represents the one that it took; alone in a game it is tried on `CHOOSER_TARGETS`. None
    if a model has too few canaries on a side for rates to mean anything.
    """
    included = as_coins(models.views.included)
    able = [(name, attack) for name, attack in attacks if attack.needs.references < len(included)]
    able = [(name, attack) for name, attack in able if not isinstance(attack, Chooser)] or able
    members = included.sum(axis=1)
    outside = included.shape[1] - members
    if len(included) < 2 or not able or included.shape[1] < LEAST_CANARIES or np.minimum(members, outside).min() < 2:
        return None
    targets = _targets(*included.shape)
    views = reading.with_confidences(models.views, models.labels)
    results = {}
    for name, attack in able:
        places = evenly(len(targets), CHOOSER_TARGETS) if isinstance(attack, Chooser) else slice(None)
        own_seed, rows = seed.child(name), targets[places].tolist()
        results[name] = leave_one_out.leave_one_out(attack, views, models.labels, own_seed, rows, room=models.room)
    spreads = {name: leave_one_out.spreads(result, FPRS) for name, result in results.items()}
    at_fpr = max(FOUND_AT, 1 / int(outside.min()))
    leading = max(spreads, key=lambda name: spreads[name][0].mean)
    exposure = leave_one_out.exposure(results[leading], at_fpr)
    return Evaluation(
        targets=len(results[leading].models),
        scorers=tuple(ScorerSpread(scorer=name, figures=spread) for name, spread in spreads.items()),
        leading=leading,
        at_fpr=at_fpr,
        reproducibility=_none_if_nan(exposure.reproducibility),
        chance=_none_if_nan(exposure.chance),
        records=_records(exposure, results[leading], models),
        thresholds=_thresholds(results[leading], prior),
        groups=tuple(
            GroupSpread(column=column, group=group, canaries=int(np.sum(values == group)), auc=spread)
            for column, values in models.table.columns.items()
            for group, spread in leave_one_out.by_group(results[leading], values).items()
        ),
        fidelity=_fidelity(models),
        units=_units(results[leading], models.table.columns),
        spared=len(included) - len(targets),
        usage=usage_spread(results[leading], leading),
    )


def _targets(models: int, canaries: int) -> Array:
    """Return which models are targets: all if that is affordable, else evenly spread ones."""
    return evenly(models, min(models, max(LEAST_TARGETS, MOST_WORK // (models * canaries))))


def _units(result: leave_one_out.LeaveOneOut, columns: Mapping[str, Array]) -> tuple[UnitSpread, ...]:
    """The attack on a unit's records at once, for each of the user's columns that names enough units."""
    unit_spreads = []
    for column, values in columns.items():
        units, figures = leave_one_out.by_unit(result, values, FPRS) if column != "class" else (0, ())
        if units >= LEAST_UNITS:
            records = len(values) / len(np.unique(values))
            unit_spreads.append(UnitSpread(column=column, units=units, records=records, figures=figures))
    return tuple(unit_spreads)


def _records(
    exposure: leave_one_out.Exposure, result: leave_one_out.LeaveOneOut, models: LeaveOneOutModels
) -> tuple[RecordSpread, ...]:
    """The worst records, of those that some target trained on."""
    trainings = result.included.sum(axis=0)
    return tuple(
        RecordSpread(
            record=models.table.names[record],
            label=models.table.labels[record],
            fpr=float(exposure.fpr[record]),
            found=float(exposure.found[record]),
            targets=int(trainings[record]),
        )
        for record in leave_one_out.worst_records(exposure, MOST_RECORDS).tolist()
        if trainings[record]
    )


def _thresholds(result: leave_one_out.LeaveOneOut, prior: float) -> tuple[Calibrated, ...]:
    """Thresholds at the rates that the non-members of the other models resolve."""
    outside = (~result.included).sum(axis=1)
    rates = [fpr for fpr in NOMINAL_FPRS if fpr * (outside.sum() - outside.max()) >= 1]
    return tuple(leave_one_out.calibrate(result, fpr, prior) for fpr in rates)


def _fidelity(models: LeaveOneOutModels) -> Fidelity | None:
    """The check of the target run that its references resemble least."""
    coins, runs = models.views.included, models.runs
    if coins is None or len(models.views) - runs < LEAST_REFERENCES:
        return None
    keys = models.views.signals.keys() if models.labels is not None else set()
    if Logits.key not in keys and PredictedClasses.key not in keys:
        return None
    own = View(included=take_models(coins, slice(runs, None)), signals=_rows(models.views, slice(runs, None)))
    references = Resemblance(own, models.labels, models.room)
    targets = [View(labels=models.labels, signals=_rows(models.views, run)) for run in range(runs)]
    comparisons = [references.of(target, coins[run]) for run, target in enumerate(targets)]
    return max(comparisons, key=lambda comparison: (not comparison.matches, comparison.distance))


def _rows(models: View, rows: slice | int) -> dict[str, Array]:
    return {key: array[rows] for key, array in models.signals.items()}


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


CONFIDENCE = 0.95


def usage_spread(result: LeaveOneOut, scorer: str, confidence: float = CONFIDENCE) -> UsageSpread | None:
    """The estimate of each model, with the rates of all others, beside what is true; None of fewer than four models."""
    if len(result.values) <= LEAST_REFERENCES:
        return None
    fprs, tprs, shares = usage.member_rates(result.values, result.included, usage.candidate_thresholds(result.values))
    estimates = []
    for row, share in enumerate(shares):
        remainder = np.delete(np.arange(len(shares)), row)
        estimates.append(usage.estimate_share(share, fprs[remainder], tprs[remainder], confidence, result.included.shape[1]))
    truths = result.included.mean(axis=1)
    points = np.array([estimate[0] for estimate in estimates])
    inside = [low <= truth <= high for (_, low, high), truth in zip(estimates, truths, strict=True)]
    is_told = ~np.isnan(points)
    return UsageSpread(
        scorer=scorer,
        target=make_usage(estimates[0], confidence, len(shares) - 1),
        truth=float(truths[0]),
        error=float(np.abs(points - truths)[is_told].mean()) if is_told.any() else None,
        covered=float(np.mean(inside)),
        targets=len(shares),
    )


def make_usage(estimate: tuple[float, float, float], confidence: float, references: int) -> Usage:
    """Return the estimate `(share, lower, upper)` as a result; a share of NaN is no point estimate."""
    share, low, high = estimate
    point = None if math.isnan(share) else share
    return Usage(share=point, lower=low, upper=high, confidence=confidence, references=references)

"""From a trained model and its members and nonmembers to a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attacks.signals import _reading as reading
from audit.checks import blind
from audit.checks import membership as coins
from audit.core import checks
from audit.core.claims import Certificate, Detectable, Outcome, Verdict
from audit.core.data import Array
from audit.core.results import AttackResult, AuditReport, Check, DataSummary, GameResult, GroupResult, MechanismResult, Metric
from audit.core.views import Scores, View
from audit.data.members import Evidence, Side, gather, without_overlap
from audit.experiment import figures, judge, outputs, trained_report
from audit.experiment.scores import granted_estimators, inverted, judged, simulated
from audit.experiment.settings import Settings
from audit.experiment.trained_case import Case, attack_results, game_of, scored

SPLIT_NOTE = (
    "Membership was decided by a data split, not by recorded coins: there is no randomness to reason from, so no epsilon "
    "follows. The figures below describe this attack on these records."
)
BIASED_NOTE = (
    "Members can be told from nonmembers without the model: the split is biased, and the attack figures below are not leakage. "
    "Take members and nonmembers from the same source at random."
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inspection:
    """A report and what it was made from.

    Attributes:
        names: `(n,)` keyed names of the audited records; `included` `(n,)` bool; `labels` `(n,)` or None.
        scores: attack to `(n,)` scores.
    """

    report: AuditReport
    names: tuple[str, ...]
    included: Array
    labels: Array | None
    scores: Mapping[str, Array]


def inspect(target: Any, members: Side, nonmembers: Side, settings: Settings | None = None) -> AuditReport:
    """The report on a trained model: what attacks on its outputs find out about its training records; see `examine`."""
    return examine(target, members, nonmembers, settings).report


def examine(target: Any, members: Side, nonmembers: Side, settings: Settings | None = None) -> Inspection:
    """The report on a trained model, with the scores of every record.

    Args:
        target: a `torch.nn.Module`, a function of `(n, ...)` arrays (float32, or whole numbers as they were
            given), or any `Target` (`audit.subjects`). Its outputs are logits or probabilities, `(n, classes)`.
        members: records it was trained on, exactly as it takes them: `(x, y)`, `Records`, or the path of an npz with x and y.
        nonmembers: records of the same kind that it was not trained on.
        settings: delta, confidence, coins and the rest; None takes the defaults.

    Raises:
        ConfigError: a setting that cannot be used.
        DataError: records or coins that cannot be used; the message names what to do.
        ObservationError: the model's outputs are not finite.
    """
    settings = settings or Settings()
    evidence = gather(members, nonmembers)
    membership, by_coins = coins.settled(settings.coins, settings.randomised_seed, evidence.included, evidence.index)
    evidence = without_overlap(evidence, settings.overlap, by_coins=by_coins)
    found, remarks = outputs.observed(target, evidence.inputs, evidence.labels)
    view = View.of(labels=evidence.labels, logits=found, predicted_labels=found.argmax(axis=-1)[None])
    remarks = [*_dropped(evidence), *remarks]
    return _inspection(view, evidence, settings, (membership, by_coins), remarks)


def examine_outputs(
    view: View,
    included: Array,
    settings: Settings | None = None,
    *,
    inputs: Array | None = None,
    groups: Array | None = None,
    index: Array | None = None,
    source: tuple[str, str] = ("predictions", ""),
) -> Inspection:
    """The same from outputs that were recorded elsewhere, so that a model of any framework can be audited.

    Args:
        view: labels with logits, or losses, of `n` records.
        included: `(n,)` bool, which of them are members.
        inputs: `(n, ...)` where known; without them the first guard cannot run.
        groups: `(n,)` text that slices results.
        index: `(n,)` position of each record among the coins; None where members, and nonmembers, are in the order of theirs.
        source: name of the file and sha256 of its bytes.

    Raises:
        ConfigError: a setting that cannot be used.
        DataError: one side is empty, or the coins are not those of these records.
    """
    settings = settings or Settings()
    size, included = len(included), np.asarray(included, bool)
    checks.both_sides(included, "the audit")
    decided = coins.settled(settings.coins, settings.randomised_seed, included, index)
    labels = np.zeros(size, np.int64) if view.labels is None else np.asarray(view.labels)
    evidence = Evidence(
        inputs=np.empty((size, 0), np.float32) if inputs is None else np.asarray(inputs),
        labels=labels,
        included=included,
        rows=np.arange(size),
        index=index,
        groups=groups,
        name=source[0],
        sha256=source[1],
    )
    return _inspection(view, evidence, settings, decided, [])


def inspect_outputs(view: View, included: Array, settings: Settings | None = None, **known: Any) -> AuditReport:
    """The report of `examine_outputs`, which says what can be given in `known`."""
    return examine_outputs(view, included, settings, **known).report


def _dropped(evidence: Evidence) -> list[str]:
    if not evidence.dropped:
        return []
    return [f"{evidence.dropped} records were left out because they occur on both sides."]


def _inspection(
    view: View, evidence: Evidence, settings: Settings, decided: tuple[Check, bool], remarks: list[str]
) -> Inspection:
    membership, by_coins = decided
    case = Case(view=view, evidence=evidence, game=game_of(evidence, by_coins), settings=settings)
    guard = _guard(case)
    scores = scored(case)
    attacks, comparisons = attack_results(case, scores)
    verdicts = _verdicts(case, attacks, guard)
    name = settings.title or evidence.name
    result = MechanismResult(
        name=name,
        mechanism=None,
        claims=settings.claims,
        trajectories=(),
        bound_trajectories=(),
        games=(_game_result(case, attacks, scores[0]),),
        verdicts=verdicts,
        outcome=Outcome.INVALID if guard.biased else judge.of_mechanism(verdicts),
        utility=_utility(case),
        checks=(membership, guard.check),
        models=1,
    )
    notes = [BIASED_NOTE] * guard.biased + [SPLIT_NOTE] * (not by_coins) + remarks + _low_accuracy(case)
    notes += [remark for remark in (inverted(attacks[0]),) if remark]
    classes = _classes(view)
    report = trained_report.report(
        settings,
        kind="model",
        title=name,
        model=f"{settings.model}, {f'{classes} outputs' if classes else 'losses only'}",
        data=_data(evidence, classes),
        result=result,
        notes=tuple(notes),
        comparisons=comparisons,
        config=settings.text(
            model=settings.model, audited=evidence.name, sha256=evidence.sha256, records=len(evidence.included)
        ),
    )
    return Inspection(
        report=report,
        names=case.names,
        included=evidence.included,
        labels=view.labels,
        scores={one.attack: one.values for one in scores},
    )


def _guard(case: Case) -> blind.Guard:
    if not case.evidence.inputs.size:
        return blind.NOT_RUN
    labels = None if case.view.labels is None else case.evidence.labels
    return blind.guard(case.evidence.inputs, labels, case.evidence.included, case.settings.stream)


def _verdicts(case: Case, attacks: Sequence[AttackResult], guard: blind.Guard) -> tuple[Verdict, ...]:
    found = judged(case.settings, attacks, sound=not guard.biased)
    if guard.biased:
        reason = "members can be told from nonmembers without the model, so scores show the split's bias"
        return tuple(replace(one, reason=reason) for one in found)
    if not case.by_coins:
        reason = "membership was decided by a data split, not by recorded coins, so no epsilon can be proven or refuted"
        return tuple(replace(one, reason=reason) for one in found)
    return tuple(found)


def _game_result(case: Case, attacks: tuple[AttackResult, ...], scores: Scores) -> GameResult:
    evidence = case.evidence
    labels = [""] * len(case.names) if case.view.labels is None else [str(label) for label in evidence.labels]
    groups: tuple[GroupResult, ...] = ()
    level = case.settings.confidence
    if case.view.labels is not None:
        groups += figures.group_results(scores, [f"class {label}" for label in labels], level, case.correct)
    if evidence.groups is not None:
        groups += figures.group_results(scores, [f"group {group}" for group in evidence.groups], level, case.correct)
    certified, detectable = _simulated(case, attacks)
    return GameResult(
        name="membership",
        game=case.game,
        attacks=attacks,
        records=figures.exposures(scores, case.names, labels),
        groups=groups,
        models=1,
        certificates=certified,
        detectable=detectable,
        note="" if case.by_coins else "membership was decided by a data split, so no epsilon follows",
    )


def _simulated(case: Case, attacks: Sequence[AttackResult]) -> tuple[tuple[Certificate, ...], tuple[Detectable, ...]]:
    if not case.by_coins:
        return (), ()
    used = sum(bool(attack.bounds) for attack in attacks)
    return simulated(case.game, granted_estimators(case.game, case.settings.estimators), case.settings, attacks=used)


def _utility(case: Case) -> tuple[Metric, ...]:
    rows = []
    loss = reading.losses(case.view, reading.NO_REFERENCE, "loss")[0]
    for side, name in ((case.evidence.included, "members"), (~case.evidence.included, "nonmembers")):
        if case.correct is not None:
            rows.append(Metric(name=f"accuracy on {name}", value=float(case.correct[side].mean()), spread=0.0, models=1))
        rows.append(Metric(name=f"loss on {name}", value=float(loss[side].mean()), spread=0.0, models=1))
    return tuple(rows)


def _low_accuracy(case: Case) -> list[str]:
    """A remark where the model is no better on its own training records than always naming the commonest class."""
    if case.correct is None:
        return []
    labels = case.evidence.labels[case.evidence.included]
    accuracy = float(case.correct[case.evidence.included].mean())
    guess = float(np.bincount(labels).max() / len(labels))
    if accuracy > guess:
        return []
    return [
        f"The model is right on {accuracy:.1%} of the members, no more than always naming one class ({guess:.1%}): are the "
        "records exactly as the model takes them (scaling, order of classes)?"
    ]


def _classes(view: View) -> int:
    logits = view.get("logits")
    return 0 if logits is None else int(logits.shape[1])


def _data(evidence: Evidence, classes: int) -> DataSummary:
    members = int(evidence.included.sum())
    shape = evidence.inputs.shape[1:]
    known = evidence.inputs.size > 0
    return DataSummary(
        name=evidence.name,
        source="members (train) and nonmembers (pool) as given",
        sha256=evidence.sha256,
        train=members,
        pool=len(evidence.included) - members,
        test=0,
        classes=classes,
        features=" x ".join(str(size) for size in shape) if known else "not given",
    )

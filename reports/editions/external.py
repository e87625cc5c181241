"""The external edition of a report: nothing that points at a record, a membership, a person or a machine.

The internal edition is the report as it was written. Whoever holds the internal one can make the external one again, byte for
byte; the way back needs what is left out.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import replace

from audit.core.claims import Claim, Verdict
from audit.core.costs import CostSheet
from audit.core.evaluation import Evaluation
from audit.core.evidence import Watched
from audit.core.game_results import (
    AttackResult,
    GameResult,
    GroupResult,
    GuessResult,
    TriggerResult,
)
from audit.core.lower_bounds import ReportedBound
from audit.core.provenance import BudgetLedger, DataSummary, Provenance
from audit.core.results import AuditReport, Check, GateResult, MechanismResult
from reports.editions import digits
from reports.editions.thresholds import SMALLEST_GROUP, coarse, without_counts
from reports.formats.json import to_json

MARK = "external edition"
WITHHELD = "withheld in this edition"
TITLES = {"model": "Audit of a trained model", "scores": "Audit of attack scores", "table": "Audit of a synthetic table"}
"""In place of a title that is the name of a file."""
_ABSENT = re.compile(r"no canary is of .*so nothing is said of such records", re.DOTALL)
"""The remark that names the values of columns, persons among them, which no canary has; values may hold any text."""
_UNNAMED = "some groups have no canary, so nothing is said of their records"
_ANSWERS = re.compile(r"\b[\d.]+% of the (members|nonmembers)\b")
"""How many of one side the model answers right, in a remark: whoever asks the model knows which records the few others are."""
_RATE = re.compile(r"tpr@(\d+(?:\.\d+)?)%|tpr_at_(\d+)_percent")
"""A gate about a true positive rate, with its false positive rate in per cent."""
_PLACE = re.compile(r"(?<![\w.])(?:~|[A-Za-z]:)?[/\\][^\s;,\"'()]*[^\s;,.\"'()]|\b\w+://\S+")
"""A path or a URL."""


def external(report: AuditReport, title: str | None = None) -> AuditReport:
    """The report without records, small groups, seeds, hashes, configuration and arguments; a report of its own, so marked.

    Guarantee: no `RecordExposure` or `RecordSpread`; no group, rate, bin or step of a curve that speaks of fewer than
        `SMALLEST_GROUP` records, no two of an attack whose difference does or speaks of one side alone, no group whose size
        with the total tells that of fewer, and no more digits than pages print; no seed, no hash of data, model or
        configuration (which somebody who guesses them could check), no file name, and no text of the configuration or of the
        command's arguments is left in any field, but what the owner declares: title, names of trainings and games, claims, what
        lies outside of them (without paths) and who answers for the system. Its identifier follows from its own content alone.
    Not withheld: how well an attack does. Whoever scores the records as a perfect attack did learns from its AUC and its bounds
        who was a member; and figures of two attacks that order the records almost alike may differ by few of them.

    Args:
        title: in place of the report's own; those of trained models and score tables are file names, and always replaced.
    """
    if _is_external(report):
        return report
    name = (title or TITLES.get(report.kind, report.title)).removesuffix(f" ({MARK})")
    edition = replace(
        report,
        id="",
        title=f"{name} ({MARK})",
        model=_model(report),
        data=None if report.data is None else _data(report.data, report.kind),
        mechanisms=tuple(_mechanism(result, report.kind) for result in report.mechanisms),
        config="",
        settings=(),
        config_lines=(),
        engagement=None if report.engagement is None else replace(report.engagement, auditor="", reviewer=""),
        origins=(),
        provenance=_provenance(report.provenance),
        ledger=None if report.ledger is None else _ledger(report.ledger),
        costs=tuple(_costs(sheet, report.kind) for sheet in report.costs),
        policy=tuple(_gate(gate, report) for gate in report.policy),
        notes=tuple(_note(note) for note in report.notes),
    )
    return replace(edition, id=f"PX-{hashlib.sha256(to_json(edition)).hexdigest()[:8].upper()}")


def _is_external(report: AuditReport) -> bool:
    """True if it is an external edition already: of its title alone, which is the owner's, nothing follows."""
    origin = report.provenance
    is_bare = origin.seed is None and not (origin.config_sha256 or report.config or report.settings or report.config_lines)
    is_unnamed = report.data is None or report.data.source == WITHHELD
    records = any(game.records for result in report.mechanisms for game in result.games)
    return report.title.endswith(f"({MARK})") and is_bare and is_unnamed and not records


def _note(text: str) -> str:
    return _ANSWERS.sub(rf"a share ({WITHHELD}) of the \1", _PLACE.sub(WITHHELD, text))


def _model(report: AuditReport) -> str:
    """The kind of model; its options may name a factory, and a trained one is described by its file and hash."""
    if report.kind == "run":
        return report.model if ":" not in report.model else f"a model of the owner's, {report.model.rpartition(', ')[2]}"
    return f"trained elsewhere, {report.model.rpartition(', ')[2]}" if report.kind == "model" else report.model


def _data(data: DataSummary, kind: str) -> DataSummary:
    name = data.name if kind == "run" else "records given"
    return replace(data, name=name, source=WITHHELD, sha256="")


def _provenance(provenance: Provenance) -> Provenance:
    command = " ".join(provenance.command.split()[:2])
    return replace(provenance, command=command, seed=None, config_sha256="", device="", threads=0)


def _gate(gate: GateResult, report: AuditReport) -> GateResult:
    """The gate with the figure that this edition shows elsewhere; without one that it shows nowhere, or knows nothing of."""
    name = gate.gate.lower()
    if gate.found is None or "claimed" in name or "accuracy" in name:
        return gate
    if "proven" in name:
        return replace(gate, found=digits.epsilon(gate.found, [gate.limit]))
    if "auc" in name:
        return replace(gate, found=round(gate.found, digits.DIGITS))
    percent = _RATE.search(name)
    return replace(gate, found=None if percent is None else _told_rate(report, float(percent[1] or percent[2]) / 100))


def _told_rate(report: AuditReport, target: float) -> float | None:
    """Return the largest true positive rate at a target if the attack that reaches it tells it in this edition."""
    results = [result for result in report.mechanisms if result.claims] or report.mechanisms
    attacks = [attack for result in results for game in result.games for attack in game.attacks]
    rows = [
        (row.tpr, edition.tpr)
        for attack in attacks
        for row, edition in zip(attack.tpr_at, coarse(attack).tpr_at, strict=True)
        if row.tpr is not None and math.isclose(row.target_fpr, target)
    ]
    largest = max((rate for rate, _ in rows), default=None)
    return largest if any(rate == largest and edition is not None for rate, edition in rows) else None


def _mechanism(result: MechanismResult, kind: str) -> MechanismResult:
    name = result.name if kind == "run" else kind
    return replace(
        result,
        name=name,
        games=tuple(_game(game, result.claims) for game in result.games),
        verdicts=tuple(_verdict(verdict, result.claims) for verdict in result.verdicts),
        bound_trajectories=tuple(digits.trajectory(curve) for curve in result.bound_trajectories),
        checks=tuple(_check(check) for check in result.checks),
    )


def _check(check: Check) -> Check:
    """The row without paths and numbers that name where coins came from; reports of older versions print their seed there."""
    value = "recorded coins, one for each record" if "coins from" in check.value else _PLACE.sub(WITHHELD, check.value)
    return replace(check, value=value)


def _verdict(verdict: Verdict, claims: Sequence[Claim]) -> Verdict:
    return replace(verdict, bound=None if verdict.bound is None else _bound(verdict.bound, claims))


def _bound(bound: ReportedBound, claims: Sequence[Claim]) -> ReportedBound:
    return without_counts(digits.bound(bound, claims), WITHHELD)


def _ledger(book: BudgetLedger) -> BudgetLedger:
    """The ledger without the owner's remarks."""
    return replace(book, releases=tuple(replace(release, note="") for release in book.releases))


def _costs(sheet: CostSheet, kind: str) -> CostSheet:
    return sheet if kind == "run" else replace(sheet, trainings=(kind,))


def _game(game: GameResult, claims: Sequence[Claim]) -> GameResult:
    return replace(
        game,
        records=(),
        groups=tuple(digits.group(group) for group in _groups(game.groups)),
        note=_PLACE.sub(WITHHELD, _ABSENT.sub(_UNNAMED, game.note)),
        attacks=tuple(_attack(attack, claims) for attack in game.attacks),
        evaluation=None if game.evaluation is None else _evaluation(game.evaluation, game.game.canaries),
        trigger=None if game.trigger is None else _triggers(game.trigger),
        watched=None if game.watched is None else _stopping_record(game.watched, claims),
    )


def _groups(groups: Sequence[GroupResult]) -> tuple[GroupResult, ...]:
    """The groups of each column that are large, and of them so many that the rest, which totals give away, is large or none."""
    large_groups: list[GroupResult] = []
    for is_class in (True, False):
        column = [group for group in groups if group.group.startswith("group ") != is_class]
        column.sort(key=_smaller_side, reverse=True)
        count = sum(_smaller_side(group) >= SMALLEST_GROUP for group in column)
        while 0 < count < len(column) and _rest(column[count:]) < SMALLEST_GROUP:
            count -= 1
        large_groups += column[:count]
    return tuple(group for group in groups if group in large_groups)


def _smaller_side(group: GroupResult) -> int:
    return min(group.members, group.nonmembers)


def _rest(groups: Sequence[GroupResult]) -> int:
    """Return how many records some groups hold together on the smaller side."""
    return min(sum(group.members for group in groups), sum(group.nonmembers for group in groups))


def _guesses(guesses: GuessResult) -> GuessResult:
    """The row, but for the number of likeliest values that were true: few, none or all would name the values."""
    imputed = guesses.imputed or 0
    return guesses if min(imputed, guesses.secrets - imputed) >= SMALLEST_GROUP else replace(guesses, imputed=None)


def _triggers(result: TriggerResult) -> TriggerResult | None:
    """The row, None where fewer than `SMALLEST_GROUP` triggers were answered or missed: which ones tells what was planted."""
    with_records = (result.hits_with, result.with_records - result.hits_with)
    without_records = (result.hits_without, result.without_records - result.hits_without)
    small = any(0 < count < SMALLEST_GROUP for count in (*with_records, *without_records))
    return None if small or min(result.with_records, result.without_records) < SMALLEST_GROUP else result


def _stopping_record(stopping: Watched, claims: Sequence[Claim]) -> Watched:
    """The bounds without the course of the evidence, which tells after each model whether its guesses were right."""
    return replace(stopping, evidence=(), bounds=tuple(_bound(bound, claims) for bound in stopping.bounds))


def _evaluation(evaluation: Evaluation, canaries: int) -> Evaluation:
    """The figures over all models that are not of few records; `canaries` is how many were audited."""
    usage = evaluation.usage
    if usage is not None and min(usage.truth, 1 - usage.truth) * canaries < SMALLEST_GROUP - 0.5:
        usage = None  # its share tells how many were trained on
    groups = tuple(group for group in evaluation.groups if group.canaries >= 2 * SMALLEST_GROUP)
    units = tuple(unit for unit in evaluation.units if unit.units >= 2 * SMALLEST_GROUP)
    return digits.evaluation(replace(evaluation, records=(), groups=groups, units=units, usage=usage))


def _attack(attack: AttackResult, claims: Sequence[Claim]) -> AttackResult:
    edition = digits.attack(coarse(attack), claims)
    return replace(
        edition,
        secrets=None if edition.secrets is None else replace(edition.secrets, mean_members=None, mean_nonmembers=None),
        guesses=None if edition.guesses is None else _guesses(edition.guesses),
        bounds=tuple(without_counts(bound, WITHHELD) for bound in edition.bounds),
    )

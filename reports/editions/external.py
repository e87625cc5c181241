"""The external edition of a report: nothing that points at a record, a membership, a person or a machine.

The internal edition is the report as it was written. Whoever holds the internal one can make the external one again, byte for
byte; the way back needs what is left out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

from audit.core.claims import LowerBound, Verdict
from audit.core.evaluation import Evaluation
from audit.core.evidence import Watched
from audit.core.game_results import (
    AttackResult,
    GameResult,
    GroupResult,
    GuessResult,
    Histogram,
    RocCurve,
    TprAtFpr,
    TriggerResult,
)
from audit.core.provenance import BudgetLedger, DataSummary, Provenance
from audit.core.results import AuditReport, Check, MechanismResult
from reports.formats.json import to_json

SMALLEST_GROUP = 10
MARK = "external edition"
WITHHELD = "withheld in this edition"
TITLES = {"model": "Audit of a trained model", "scores": "Audit of attack scores"}
"""In place of a title that is the name of a file."""
_ABSENT = re.compile(r"no canary is of .*so nothing is said of such records", re.DOTALL)
"""The remark that names the values of columns, persons among them, which no canary has; values may hold any text."""
_UNNAMED = "some groups have no canary, so nothing is said of their records"
_PLACE = re.compile(r"(?<![\w.])(?:~|[A-Za-z]:)?[/\\][^\s;,\"'()]*[^\s;,.\"'()]|\b\w+://\S+")
"""A path or a URL."""


def external(report: AuditReport, title: str | None = None) -> AuditReport:
    """The report without records, small groups, seeds, hashes, configuration and arguments; a report of its own, so marked.

    Guarantee: no `RecordExposure` or `RecordSpread`; no group, bin or step of a curve that speaks of fewer than
        `SMALLEST_GROUP` records, and no group whose size with the total tells that of fewer; no seed, no hash of data, model or
        configuration (which somebody who guesses them could check), no file name, and no text of the configuration or of the
        command's arguments is left in any field, but what the owner declares: title, names of trainings and games, claims, what
        lies outside of them (without paths) and who answers for the system. Its identifier follows from its own content alone.

    Args:
        title: in place of the report's own; those of trained models and score tables are file names, and always replaced.
    """
    if report.title.endswith(f"({MARK})"):
        return report
    name = title or TITLES.get(report.kind, report.title)
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
        notes=tuple(_PLACE.sub(WITHHELD, note) for note in report.notes),
    )
    return replace(edition, id=f"PX-{hashlib.sha256(to_json(edition)).hexdigest()[:8].upper()}")


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


def _mechanism(result: MechanismResult, kind: str) -> MechanismResult:
    name = result.name if kind == "run" else kind
    return replace(
        result,
        name=name,
        games=tuple(_game(game) for game in result.games),
        verdicts=tuple(_verdict(verdict) for verdict in result.verdicts),
        checks=tuple(_check(check) for check in result.checks),
    )


def _check(check: Check) -> Check:
    """The row without paths and numbers that name where coins came from; reports of older versions print their seed there."""
    value = "recorded coins, one for each record" if "coins from" in check.value else _PLACE.sub(WITHHELD, check.value)
    return replace(check, value=value)


def _verdict(verdict: Verdict) -> Verdict:
    return replace(verdict, bound=None if verdict.bound is None else _bound(verdict.bound))


def _bound(bound: LowerBound) -> LowerBound:
    return replace(bound, seed=None)


def _ledger(book: BudgetLedger) -> BudgetLedger:
    """The ledger without the owner's remarks."""
    return replace(book, releases=tuple(replace(release, note="") for release in book.releases))


def _game(game: GameResult) -> GameResult:
    return replace(
        game,
        records=(),
        groups=_groups(game.groups),
        note=_PLACE.sub(WITHHELD, _ABSENT.sub(_UNNAMED, game.note)),
        attacks=tuple(_attack(attack) for attack in game.attacks),
        evaluation=None if game.evaluation is None else _evaluation(game.evaluation),
        trigger=None if game.trigger is None else _triggers(game.trigger),
        watched=None if game.watched is None else _stopping_record(game.watched),
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
    """The row, None where it counts fewer than `SMALLEST_GROUP` triggers: which ones those were tells what was planted."""
    sizes = (result.with_records, result.without_records)
    hits = (result.hits_with, result.hits_without)
    small = any(size < SMALLEST_GROUP for size in sizes) or any(0 < count < SMALLEST_GROUP for count in hits)
    return None if small else result


def _stopping_record(stopping: Watched) -> Watched:
    """The bounds without the course of the evidence, which tells after each model whether its guesses were right."""
    return replace(stopping, evidence=(), bounds=tuple(_bound(bound) for bound in stopping.bounds))


def _evaluation(evaluation: Evaluation) -> Evaluation:
    groups = tuple(group for group in evaluation.groups if group.canaries >= 2 * SMALLEST_GROUP)
    units = tuple(unit for unit in evaluation.units if unit.units >= 2 * SMALLEST_GROUP)
    return replace(evaluation, records=(), groups=groups, units=units)


def _attack(attack: AttackResult) -> AttackResult:
    return replace(
        attack,
        roc=_roc(attack.roc),
        tpr_at=tuple(_rate(rate) for rate in attack.tpr_at),
        histogram=_histogram(attack.histogram),
        guesses=None if attack.guesses is None else _guesses(attack.guesses),
        bounds=tuple(_bound(bound) for bound in attack.bounds),
    )


def _rate(rate: TprAtFpr) -> TprAtFpr:
    """The row, empty where it speaks of a few records only."""
    positives = (rate.true_positives or 0) + (rate.false_positives or 0)
    if positives == 0 or positives >= SMALLEST_GROUP:
        return rate
    return TprAtFpr(
        target_fpr=rate.target_fpr,
        tpr=None,
        realised_fpr=None,
        lower=None,
        upper=None,
        false_positives=None,
        true_positives=None,
        allowed=rate.allowed,
    )


def _roc(curve: RocCurve) -> RocCurve:
    """The curve at points between which at least `SMALLEST_GROUP` records lie: its steps would tell each record's side."""
    indices = [0]
    last = len(curve.fpr) - 1
    for index in range(1, last):
        if min(_records(curve, indices[-1], index), _records(curve, index, last)) >= SMALLEST_GROUP:
            indices.append(index)
    indices = [*indices, last] if last else indices

    def coarse(column: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(column[index] for index in indices)

    return replace(
        curve,
        fpr=coarse(curve.fpr),
        tpr=coarse(curve.tpr),
        lower=coarse(curve.lower),
        upper=coarse(curve.upper),
    )


def _records(curve: RocCurve, start: int, end: int) -> int:
    """Return how many records lie between two points."""
    members = (curve.tpr[end] - curve.tpr[start]) * curve.members
    return round(members + (curve.fpr[end] - curve.fpr[start]) * curve.nonmembers)


def _histogram(histogram: Histogram) -> Histogram:
    """The counts in as few bins of equal width as it takes for each to be empty or hold `SMALLEST_GROUP` records.

    As in any histogram of a report, the outermost bins take in what lies outside.
    """
    count = len(histogram.members)
    for width in (width for width in range(1, count + 1) if count % width == 0):
        candidate = _fold(_merge(histogram, width))
        if all(total == 0 or total >= SMALLEST_GROUP for total in _totals(candidate)):
            return candidate
    return _merge(histogram, count)


def _merge(histogram: Histogram, width: int) -> Histogram:
    starts = range(0, len(histogram.members), width)
    return Histogram(
        edges=(*(histogram.edges[start] for start in starts), histogram.edges[-1]),
        members=tuple(sum(histogram.members[start : start + width]) for start in starts),
        nonmembers=tuple(sum(histogram.nonmembers[start : start + width]) for start in starts),
    )


def _fold(histogram: Histogram) -> Histogram:
    """The same without small bins at its ends, which their neighbours take in."""
    while len(histogram.members) > 1 and _totals(histogram)[0] < SMALLEST_GROUP:
        histogram = Histogram(
            edges=histogram.edges[1:], members=_first(histogram.members), nonmembers=_first(histogram.nonmembers)
        )
    while len(histogram.members) > 1 and _totals(histogram)[-1] < SMALLEST_GROUP:
        members, nonmembers = _first(histogram.members[::-1])[::-1], _first(histogram.nonmembers[::-1])[::-1]
        histogram = Histogram(edges=histogram.edges[:-1], members=members, nonmembers=nonmembers)
    return histogram


def _first(counts: tuple[int, ...]) -> tuple[int, ...]:
    """The counts with the first two as one."""
    return (counts[0] + counts[1], *counts[2:])


def _totals(histogram: Histogram) -> list[int]:
    return [members + nonmembers for members, nonmembers in zip(histogram.members, histogram.nonmembers, strict=True)]

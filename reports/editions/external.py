"""Editions of one report: the internal one holds everything, the external one nothing that points at a person or a machine."""

from __future__ import annotations

from dataclasses import replace

from audit.core.evaluation import Evaluation
from audit.core.results import AuditReport, BudgetLedger, GameResult

SMALLEST_GROUP = 10
MARK = "external edition"


def external(report: AuditReport) -> AuditReport:
    """The report without records, small groups, configuration and command line; a report of its own, marked in its title.

    Guarantee: no `RecordExposure` or `RecordSpread`, no group with fewer than `SMALLEST_GROUP` members or nonmembers, and
        no text of the configuration or of the command's arguments is left in any field.
    """
    if report.title.endswith(f"({MARK})"):
        return report
    mechanisms = tuple(replace(one, games=tuple(_game(game) for game in one.games)) for one in report.mechanisms)
    command = " ".join(report.provenance.command.split()[:2])
    return replace(
        report,
        title=f"{report.title} ({MARK})",
        mechanisms=mechanisms,
        config="",
        origins=(),
        provenance=replace(report.provenance, command=command),
        ledger=None if report.ledger is None else _ledger(report.ledger),
    )


def _ledger(book: BudgetLedger) -> BudgetLedger:
    """The ledger without the owner's remarks."""
    return replace(book, releases=tuple(replace(one, note="") for one in book.releases))


def _game(game: GameResult) -> GameResult:
    kept = tuple(one for one in game.groups if min(one.members, one.nonmembers) >= SMALLEST_GROUP)
    return replace(game, records=(), groups=kept, evaluation=None if game.evaluation is None else _evaluation(game.evaluation))


def _evaluation(found: Evaluation) -> Evaluation:
    kept = tuple(one for one in found.groups if one.canaries >= 2 * SMALLEST_GROUP)
    return replace(found, records=(), groups=kept)

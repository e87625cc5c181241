"""The page on who can learn what: every party of every training that is not the same to all, in one table and one figure."""

from __future__ import annotations

from audit.core.results import AuditReport
from reports import parties
from reports.figures import _parties
from reports.formats import figures
from reports.pages.blocks import Items, Paragraph, Section
from reports.tables.parties import parties as table
from reports.words.language import say
from reports.words.phrases import figure_block

RULES = ("central", "sum", "dropout", "final", "unit")


def section(report: AuditReport) -> tuple[Section, ...]:
    """Return the page; nothing if no training is seen by several parties."""
    results = parties.of_report(report)
    if not results:
        return ()
    blocks = (
        Paragraph(text=say("party.lead")),
        figure_block(figures.planned(report)[_parties.NAME]),
        table(results, report.delta),
        Items(items=tuple(say(f"party.{rule}") for rule in RULES)),
    )
    return (Section(title=say("party.title"), blocks=blocks),)

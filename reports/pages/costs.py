"""What a mechanism costs by several accountants, next to the proven bracket: pages of a report, or one beside it."""

import math
from collections.abc import Sequence

from audit.core.costs import CostLine, CostSheet
from audit.core.results import AuditReport
from audit.core.rounding import SPACE
from reports.figures import _costs
from reports.formats import figures
from reports.pages.blocks import Block, Column, Mono, Paragraph, Section, Table, Text, layout, small_table
from reports.words import named
from reports.words.language import at_delta, down, near, not_measured, power, recorded, say, up
from reports.words.phrases import figure_block, join_words

DIGITS = 4
_ROUNDING = {"upper": up, "lower": down, "estimate": near}


def section(report: AuditReport) -> tuple[Section, ...]:
    """A section for each mechanism with costs in the report; none if no one asked for them."""
    drawings = figures.planned(report)
    return tuple(
        Section(
            title=say("costs.of", names=join_words(sheet.trainings)),
            blocks=blocks(sheet, figure_block(drawings[_costs.name(sheet)]) if _costs.is_drawn(sheet) else None),
        )
        for sheet in report.costs
    )


def blocks(sheet: CostSheet, drawing: Block | None) -> tuple[Block, ...]:
    """The mechanism with the truth in words, claims beside it, the drawing, and as far as the sheet has it what else costs."""
    group = say("costs.group", size=sheet.group_size) if sheet.group_size > 1 else ""
    about = say(
        "costs.about",
        mechanism=sheet.mechanism,
        adjacency=named.adjacency(sheet.adjacency),
        group=group,
        at_delta=at_delta(sheet.delta),
        truth=truth(sheet),
    )
    changes = [recorded(line.label).replace(" x", f"{SPACE}×") for line in sheet.what_if]
    deltas = [power(delta) for delta in sheet.deltas]
    tables = (
        (say("costs.what_if"), say("costs.changes"), sheet.what_if, changes),
        (say("costs.other_deltas"), "δ", sheet.curve, deltas),
    )
    return (
        Paragraph(text=about),
        Paragraph(text=say("costs.bracket")),
        _claims(sheet),
        *((drawing,) if drawing is not None else ()),
        *(_lines(sheet, *table) for table in tables if table[2]),
    )


def truth(sheet: CostSheet) -> str:
    """The bracket on the true epsilon in words, or why there is none."""
    return sheet.doubt or say("costs.truth", low=down(sheet.lower, DIGITS), high=up(sheet.upper, DIGITS))


def _claims(sheet: CostSheet) -> Table:
    rows = tuple(
        (
            Mono(row.accountant),
            row.source or say("word.none"),
            not_measured() if row.epsilon is None else _ROUNDING[row.side](row.epsilon, DIGITS),
            _factor(row.epsilon, sheet.upper),
            recorded(row.note) or say("word.none"),
        )
        for row in sheet.claims
    )
    columns = layout("table.accountant costs.states_itself:1 >ε >costs.times_the_truth costs.note:1.2")
    return small_table(say("costs.claims"), columns, rows)


def _factor(epsilon: float | None, upper: float) -> str:
    """A claim over the upper end, if both are numbers above 0."""
    return not_measured() if epsilon is None or not 0 < upper < math.inf else f"{epsilon / upper:.3f}"


def _lines(sheet: CostSheet, caption: str, first: str, lines: Sequence[CostLine], labels: Sequence[str]) -> Table:
    sides = [row.side for row in sheet.claims]
    rows: list[tuple[Text, ...]] = []
    for label, line in zip(labels, lines, strict=True):
        claims = (
            not_measured() if value is None else _ROUNDING[side](value, DIGITS)
            for side, value in zip(sides, line.claims, strict=True)
        )
        rows.append((label, down(line.lower, DIGITS), up(line.upper, DIGITS), *claims))
    titles = (say("costs.at_least"), say("costs.at_most"), *sheet.accountants)
    columns = (Column(title=first), *(Column(title=title, right=True, share=1) for title in titles))
    return small_table(caption, columns, rows)

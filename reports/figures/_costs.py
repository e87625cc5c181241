"""The privacy curve of a mechanism: the bracket on the truth as a band, each accountant's claim as a line."""

from __future__ import annotations

from audit.core.costs import CostSheet
from reports.figures import _plots
from reports.figures._plots import Plan
from reports.figures.accountants import paint_privacy_curve
from reports.words.language import say
from reports.words.numbers import count, power
from reports.words.phrases import join_words

HEIGHT_MM = 72


def name(sheet: CostSheet) -> str:
    """The figure's file name."""
    return _plots.file_name("costs", *sheet.trainings)


def plan(sheet: CostSheet) -> Plan:
    """The figure with its words."""
    ends = {"low": power(min(sheet.deltas)), "high": power(max(sheet.deltas))}
    return Plan(
        name=name(sheet),
        caption=say("costs.curve"),
        alt=say("costs.curve_alt", lines=count(len(sheet.accountants)), names=join_words(sheet.accountants), **ends),
        height_mm=HEIGHT_MM,
        paint=lambda figure: paint_privacy_curve(
            figure,
            {accountant: [line.claims[place] for line in sheet.curve] for place, accountant in enumerate(sheet.accountants)},
            sheet.deltas,
            ([line.lower for line in sheet.curve], [line.upper for line in sheet.curve]),
        ),
    )


def drawing(sheet: CostSheet) -> tuple[bytes, bytes]:
    """SVG and PNG of the figure on its own."""
    figure = plan(sheet)
    return _plots.draw(figure.height_mm, figure.paint)

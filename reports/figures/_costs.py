"""The privacy curve of a mechanism: the bracket on the truth as a band, each accountant's claim as a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from audit.core.costs import CostLine, CostSheet
from reports.figures import _plots
from reports.figures._plots import Plan
from reports.figures.accountants import paint_course, paint_privacy_curve
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
    has_course = len(sheet.course) > 1
    lines = {"lines": count(len(sheet.accountants)), "names": join_words(sheet.accountants)}

    def paint(figure: Any) -> None:
        paint_privacy_curve(figure, _claims(sheet, sheet.curve), sheet.deltas, _bracket(sheet.curve), lower=0.5 * has_course)
        if has_course:
            orders = [line.label for line in sheet.course]
            paint_course(figure, _claims(sheet, sheet.course), sheet.course_steps, _bracket(sheet.course), orders)

    return Plan(
        name=name(sheet),
        caption=say("costs.curve_and_course") if has_course else say("costs.curve"),
        alt=say("costs.curve_and_course_alt", **lines, **ends) if has_course else say("costs.curve_alt", **lines, **ends),
        height_mm=HEIGHT_MM * (2 if has_course else 1),
        paint=paint,
    )


def _claims(sheet: CostSheet, lines: Sequence[CostLine]) -> dict[str, list[float | None]]:
    return {accountant: [line.claims[place] for line in lines] for place, accountant in enumerate(sheet.accountants)}


def _bracket(lines: Sequence[CostLine]) -> tuple[list[float], list[float]]:
    return [line.lower for line in lines], [line.upper for line in lines]


def drawing(sheet: CostSheet) -> tuple[bytes, bytes]:
    """SVG and PNG of the figure on its own."""
    figure = plan(sheet)
    return _plots.draw(figure.height_mm, figure.paint)

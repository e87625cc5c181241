"""The privacy curve of a mechanism: the bracket on the truth as a band, each accountant's claim as a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from audit.core.costs import CostLine, CostSheet
from reports.figures import _plots
from reports.figures._plots import Plan
from reports.figures.accountants import DrawnCosts, paint_course, paint_privacy_curve
from reports.words.language import count, power, say
from reports.words.phrases import join_words

HEIGHT_MM = 72


def name(sheet: CostSheet) -> str:
    """The figure's file name."""
    return _plots.file_name("costs", *sheet.trainings)


def is_drawn(sheet: CostSheet) -> bool:
    """True if there is more than one point to draw of a sheet."""
    return bool(sheet.curve) or len(sheet.course) > 1


def plan(sheet: CostSheet) -> Plan:
    """The figure with its words: the privacy curve, below it the course over the steps; one alone if it is all there is."""
    has_curve, has_course = bool(sheet.curve), len(sheet.course) > 1
    names = [name for place, name in enumerate(sheet.accountants) if not _is_band(sheet, place)]
    keys = {
        (True, True): ("costs.curve_and_course", "costs.curve_and_course_alt"),
        (True, False): ("costs.curve", "costs.curve_alt"),
        (False, True): ("costs.course", "costs.course_alt"),
    }
    caption, alt = keys[has_curve, has_course]
    values = {"lines": count(len(names)), "names": join_words(names)}
    if has_curve:
        values |= {"low": power(min(sheet.deltas)), "high": power(max(sheet.deltas))}

    def paint(figure: Any) -> None:
        if has_curve:
            paint_privacy_curve(figure, _costs(sheet, sheet.curve, sheet.deltas), lower=0.5 * has_course)
        if has_course:
            orders = [line.label for line in sheet.course]
            course = _costs(sheet, sheet.course, sheet.course_steps)
            paint_course(figure, course, orders, sheet.delta, share=1 - 0.5 * has_curve)

    return Plan(
        name=name(sheet),
        caption=say(caption),
        alt=say(alt, **values),
        height_mm=HEIGHT_MM * (has_curve + has_course),
        paint=paint,
    )


def _is_band(sheet: CostSheet, place: int) -> bool:
    """True for the accountant with the bracket's own upper ends as claims, which the band shows."""
    lines = (*sheet.curve, *sheet.course)
    return all(line.claims[place] == line.upper for line in lines)


def _costs(sheet: CostSheet, lines: Sequence[CostLine], places: Sequence[float]) -> DrawnCosts:
    claims = {
        name: [line.claims[place] for line in lines]
        for place, name in enumerate(sheet.accountants)
        if not _is_band(sheet, place)
    }
    return DrawnCosts(claims=claims, places=places, bracket=([line.lower for line in lines], [line.upper for line in lines]))


def drawing(sheet: CostSheet) -> tuple[bytes, bytes]:
    """SVG and PNG of the figure on its own."""
    figure = plan(sheet)
    return _plots.draw(figure.height_mm, figure.paint)

"""The page on what a mechanism costs, of a mechanism that no report is about: one HTML file in the style of the report."""

from audit.core.costs import CostSheet
from reports.figures import _costs
from reports.formats import html
from reports.pages import costs
from reports.words.language import say
from reports.words.phrases import figure_block


def page(sheet: CostSheet) -> bytes:
    """The page, with the blocks that a report has of such a sheet."""
    plan = _costs.plan(sheet)
    svg, _ = _costs.drawing(sheet)
    return html.standalone(say("costs.title"), costs.blocks(sheet, figure_block(plan)), {plan.name: svg})

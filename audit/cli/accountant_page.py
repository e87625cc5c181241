"""What `audit accountant epsilon` prints, as a page in the style of the report: claims, privacy curve, what-if table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from audit.cli import accountant_options as shared

if TYPE_CHECKING:
    from audit.api.accountant_rows import CurvePoint
    from audit.core.tables import Table

CLAIM_COLUMNS = ("accountant", "epsilon", "times the truth", "note")
WHAT_IF_COLUMNS = ("changes", "truth at least", "truth at most")
CURVE_COLUMNS = ("delta", "truth at least", "truth at most")
Cells = Sequence[tuple[str, ...]]


def write(path: Path, mechanism: str, terms: str, truth: str, answers: tuple[Cells, Cells, Table[CurvePoint]]) -> None:
    """Write the page of one mechanism.

    Args:
        mechanism: what it is about, in words.
        terms: neighbouring data sets and group.
        answers: cells of the claims, cells of the what-if table (none for no table), points of the curve.

    Raises:
        OutputError: the file cannot be written.
    """
    from audit.accounting.regression import files
    from reports.figures.accountants import epsilon_over_delta
    from reports.pages.costs import CostTable, costs_page

    claims, variants, points = answers
    names = tuple(points[0].claims)
    curve = [
        (
            f"{point.delta:g}",
            shared.bound(point.lower, "lower"),
            shared.bound(point.upper),
            *(shared.bound(point.claims[name]) for name in names),
        )
        for point in points
    ]
    tables = [CostTable(caption="What each accountant claims", columns=CLAIM_COLUMNS, rows=claims)]
    if variants:
        tables.append(CostTable(caption="What if", columns=(*WHAT_IF_COLUMNS, *names), rows=variants))
    tables.append(CostTable(caption="Epsilon at other deltas", columns=(*CURVE_COLUMNS, *names), rows=curve))
    ends = ([point.lower for point in points], [point.upper for point in points])
    lines = {name: [point.claims[name] for point in points] for name in names}
    svg, _ = epsilon_over_delta(lines, [point.delta for point in points], ends)
    files.write(path, costs_page(f"{mechanism}, {terms}", truth, tables, svg))

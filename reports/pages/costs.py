"""A page beside the report: what a mechanism costs by several accountants, next to the proven bracket on the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.formats import html
from reports.pages.blocks import Block, Column, Figure, Paragraph, Table

TITLE = "What it costs"
_BRACKET = (
    "The truth is the epsilon of the mechanism itself, not of a model. Where two ends are stated they are proved: an upper "
    "bound below them is wrong, one above them is safe, and the factor beside it says what it costs. Upper bounds are rounded "
    "up, lower ones down."
)
_CURVE = "The privacy curve: the proven bracket as a band, each accountant's claim as a line"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTable:
    """A table of texts: in its first column what the row is about, then figures; a column called `note` holds words."""

    caption: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def costs_page(mechanism: str, truth: str, tables: Sequence[CostTable], curve: bytes) -> bytes:
    """Return the page as one HTML file: the mechanism, the truth in words, the first table, the curve, the other tables."""
    blocks: list[Block] = [Paragraph(text=f"{mechanism}. {truth}"), Paragraph(text=_BRACKET), _table(tables[0])]
    blocks.append(Figure(name="curve", caption=f"{_CURVE}.", alt=_CURVE))
    return html.standalone(TITLE, [*blocks, *(_table(table) for table in tables[1:])], {"curve": curve})


def _table(table: CostTable) -> Table:
    columns = tuple(Column(title=title, right=place > 0 and title != "note") for place, title in enumerate(table.columns))
    return Table(caption=table.caption, columns=columns, rows=tuple(table.rows))

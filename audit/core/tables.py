"""Results that are tables: tuples of rows that a data frame can be made of, in a notebook as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pandas as pd

Row = TypeVar("Row")


class Table(tuple[Row, ...]):
    """Rows of one dataclass: a tuple in every respect, and a table if one is wanted.

    >>> from audit.core.results import GateResult
    >>> gate = GateResult(gate="max_auc", limit=0.6, found=0.55, met=True)
    >>> Table([gate]).to_pandas().columns.tolist()
    ['gate', 'limit', 'found', 'met']
    """

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame: one row each, columns named as the fields of the rows."""
        return frame([{name: getattr(row, name) for name in _names(row)} for row in self])


def frame(rows: Sequence[Mapping[str, object]], columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a data frame of rows by column name; `columns` also names those of an empty one."""
    import pandas as pd

    return pd.DataFrame(list(rows), columns=None if columns is None else list(columns))


def html(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return an HTML table in which every text is escaped.

    >>> html(["name"], [["<b>"]])
    '<table><tr><th>name</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _names(row: object) -> list[str]:
    if not is_dataclass(row):
        raise TypeError(f"a table holds rows of one dataclass, not {type(row).__name__}")
    return [field.name for field in fields(row)]

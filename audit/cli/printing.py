"""What every command prints on stdout: one JSON object for programs, a table for people."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]


def print_json(found: Any) -> None:
    """Prints JSON that every parser reads: numbers that are not finite become "Infinity", "-Infinity" and "NaN".

    >>> print_json({"ceiling": float("inf")})
    {
     "ceiling": "Infinity"
    }
    """
    print(json.dumps(_strict(found), indent=1, allow_nan=False))


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _strict(one) for name, one in value.items()}
    return [_strict(one) for one in value] if isinstance(value, list | tuple) else value


def stdout_console() -> Any:
    """A `rich` console on stdout; as wide as tables need where stdout is a file or a pipe, which have no width."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=180)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Prints a title and, where there are rows, a table; cells of its first column are never broken over lines."""
    from rich import box
    from rich.table import Table

    console = stdout_console()
    console.print(title, highlight=False, markup=False)
    if not rows:
        return
    table = Table(box=box.SIMPLE_HEAD)
    for place, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=place == 0)
    for row in rows:
        table.add_row(*(str(cell).replace("[", "\\[") for cell in row))
    console.print(table)

"""`audit lookup`: the record behind a name in a report, for whoever holds the key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli.printing import AsJson, print_result
from audit.core.errors import DataError

if TYPE_CHECKING:
    from audit.core.results import AuditReport

ROWS = 1_000_000


def lookup(
    source: Annotated[Path, typer.Argument(metavar="RUN_DIR|FILE", help="A run folder, or its report.json or report.pdf.")],
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of records, as the report prints them.")],
    key: Annotated[
        Path | None, typer.Option("--key", help="File with the key. Default: private/record-key in the run folder.")
    ] = None,
    count: Annotated[int, typer.Option("--rows", min=1, help="Number of rows to search.")] = ROWS,
    as_json: AsJson = False,
) -> int:
    """Find the rows of records that a report names; needs the key. Exit code 2 if a name matches no row."""
    from audit.cli.report_files import load
    from audit.execution import run_folder
    from audit.experiment.games import records

    document = load(source)
    folder = source if source.is_dir() else source.parent
    secret = records.RecordKey(records.read_key(key or folder / run_folder.RECORD_KEY))
    rows = secret.rows(names, count)
    missing = [name for name in names if name not in rows]
    if missing:
        raise DataError(
            f"none of {count:,} rows is called '{missing[0]}' under this key; is it the key of {source}? Or give more --rows"
        )
    places = {name: {"row": rows[name], "where": row_meaning(document, rows[name])} for name in names}
    print_result(as_json, places, *(f"{name}: {place['where']}" for name, place in places.items()))
    return 0


def row_meaning(report: AuditReport, row: int) -> str:
    """Return what the row counts."""
    if report.kind == "model":
        return f"row {row}, counted from 0 over the members in the order of their file, and on over the nonmembers"
    return f"row {row} of the data as they were read, counted from 0 (of a canary that the audit made, its number)"

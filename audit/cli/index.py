"""`audit index`: all audits of a folder in one page for a browser."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli.printing import AsJson, print_result
from audit.cli.report_files import JSON, load
from audit.core.errors import DataError, OutputError
from audit.core.files import write_whole

if TYPE_CHECKING:
    from reports.index import IndexRow


def index(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder with runs in it, at any depth.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Page to write. Default: FOLDER/index.html.")] = None,
    language: Annotated[str, typer.Option("--lang", help="Language, a name that `audit ls languages` lists.")] = "en",
    as_json: AsJson = False,
) -> int:
    """Write one HTML page of all audits in a folder: claimed, proven, ceiling, verdict, policy, and their course over time."""
    from reports import index as pages

    if not folder.is_dir():
        raise DataError(f"'{folder}' is not a folder; name the folder that holds the runs")
    target = output or folder / pages.FILE
    entries, unreadable = _collect(folder, target.absolute().parent)
    if not entries:
        raise DataError(f"no {JSON} that can be read lies in '{folder}'; name the folder that holds the runs")
    try:
        write_whole(target, pages.document(entries, unreadable, language).encode())
    except OSError as error:
        raise OutputError(f"cannot write '{target}': {error.strerror}; choose another --output") from error
    values = {"page": str(target), "audits": [entry.report.id for entry in entries], "unreadable": unreadable}
    gaps = (f"not read: {path}: {reason}" for path, reason in sorted(unreadable.items()))
    print_result(as_json, values, *gaps, f"{len(entries)} audit{'' if len(entries) == 1 else 's'} in {target}")
    return 0


def _collect(folder: Path, base: Path) -> tuple[list[IndexRow], dict[str, str]]:
    """Every run under a folder, and every report.json that could not be read with the reason; links are not followed."""
    from reports.index import IndexRow

    entries, unreadable = [], {}
    for path in sorted(folder.rglob(JSON)):
        run = path.parent
        if path.is_symlink() or run.is_symlink():
            continue
        try:
            report = load(path)
        except DataError as error:
            unreadable[path.relative_to(folder).as_posix()] = str(error)
            continue
        names = tuple(sorted(file.name for file in run.iterdir() if file.is_file()))
        relative = Path(os.path.relpath(run.absolute(), base)).as_posix()
        entries.append(IndexRow(folder="" if relative == "." else relative, files=names, report=report))
    return entries, unreadable

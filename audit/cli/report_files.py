"""Finished reports as commands read them: a run folder, its report.json or its report.pdf."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from audit.core import files
from audit.core.errors import DataError

if TYPE_CHECKING:
    from audit.core.results import AuditReport

JSON = "report.json"


def load(source: Path) -> AuditReport:
    """The report in a run folder, a report.json or a report.pdf; `DataError` if there is none that can be read."""
    from reports.formats import json, pdf

    path = source / JSON if source.is_dir() else source
    try:
        content = files.read(path)
    except OSError as error:
        raise DataError(
            f"cannot read '{path}': {error.strerror}; expected a run folder, a report.json or a report.pdf"
        ) from error
    try:
        return json.from_json(pdf.attachment(content) if content.startswith(b"%PDF-") else content)
    except DataError as error:  # it calls every file report.json
        words = str(error)
        raise DataError(f"{path}{words.removeprefix(JSON) if words.startswith(JSON) else f': {words}'}") from error

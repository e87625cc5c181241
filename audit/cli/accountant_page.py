"""What `audit accountant epsilon` writes of a sheet of costs: the privacy curve as CSV and drawing, the page of the report."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from audit.core.costs import CostSheet


def write(sheet: CostSheet, *, csv_file: Path | None, page: Path | None, plot: Path | None) -> None:
    """Write the files that were asked for.

    Raises:
        ConfigError: the plot is neither .svg nor .png.
        OutputError: a file cannot be written.
    """
    from audit.accounting.regression import files
    from reports import costs
    from reports.figures import _costs

    if csv_file is not None:
        files.write(csv_file, _csv(sheet).encode())
    if page is not None:
        files.write(page, costs.page(sheet))
    if plot is not None:
        files.write_figure(plot, _costs.drawing(sheet))


def _csv(sheet: CostSheet) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["delta", "truth_at_least", "truth_at_most", *sheet.accountants])
    for delta, line in zip(sheet.deltas, sheet.curve, strict=True):
        claims = ("" if value is None else value for value in line.claims)
        writer.writerow([delta, line.lower, line.upper, *claims])
    return stream.getvalue()

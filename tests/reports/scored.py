"""Run folders with the scores and the secret that an external edition is computed from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from audit.core.results import AuditReport
from audit.experiment.external.inspection import Settings, inspect_scores
from reports.formats.json import to_json

COUNT = 700
KEY = b"0123456789abcdef0123456789abcdef"


def scored_report(shift: float = 1.0, seed: int = 2**100 + 7, claim: float | None = 8.0) -> tuple[AuditReport, pd.DataFrame]:
    """A report on five attacks that order the records almost alike, as those on one model do, with its scores."""
    stream = np.random.default_rng(seed)
    included = stream.random(COUNT) < 0.5
    values = stream.normal(size=COUNT) + shift * included
    columns = {
        name: values + width * stream.normal(size=COUNT) for name, width in zip("abcde", (0, 0.05, 0.1, 0.2, 0.4), strict=True)
    }
    settings = Settings(claim_epsilon=claim, certificates=0, created="2026-01-15T12:34:56Z", title="people.csv")
    report = inspect_scores(columns, included, settings, name="people.csv")
    frames = [pd.DataFrame({"attack": name, "score": column, "member": included}) for name, column in columns.items()]
    return report, pd.concat(frames, ignore_index=True)


def scored_folder(path: Path, shift: float = 1.0, seed: int = 2**100 + 7) -> Path:
    """Write the folder of such a report and return it."""
    report, table = scored_report(shift, seed)
    (path / "private").mkdir(parents=True)
    (path / "private" / "record-key").write_bytes(KEY)
    (path / "report.json").write_bytes(to_json(report))
    table.to_parquet(path / "scores.parquet", index=False)
    return path

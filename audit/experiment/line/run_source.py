"""A finished run as it is written again: its report, its config, and its scores."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit.config import yaml_text
from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.results import AuditReport
from audit.core.seeds import Seed
from audit.execution import recompute
from audit.execution.run_folder import SEED

Difference = tuple[str, Any, Any]  # place, what is written, what follows
Place = tuple[str, str, str]  # training, game and attack
_TEXT, _WHOLE = "(large_)?string", r"u?int\d+"
COLUMNS = dict.fromkeys(("mechanism", "game", "attack", "record"), _TEXT)  # of scores.parquet, with their types
COLUMNS |= {"label": f"{_TEXT}|{_WHOLE}|null", "run": _WHOLE, "canary": _WHOLE, "member": "bool"}
COLUMNS |= {"score": f"float|double|{_WHOLE}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSource:
    """A report with its config and, by training, game and attack, scores and memberships `(n,)` each.

    `unread` is filled while sections are written again: what is not, with the reason.
    """

    folder: Path
    report: AuditReport
    config: Mapping[str, Any]
    tables: Mapping[Place, tuple[Array, Array]]
    unread: list[str] = field(default_factory=list)

    @property
    def seed(self) -> int | None:
        """Return the seed of all draws; None if the folder does not hold it."""
        path = self.folder / SEED
        own_seed = int(path.read_text(encoding="utf-8")) if path.is_file() else None
        return self.report.provenance.seed if own_seed is None else own_seed

    def game_seed(self, training: str, game: str) -> Seed:
        seed = Seed(self.seed or 0)
        return seed.child(f"recipe:{training}").child(f"game:{game}") if self.report.kind == "run" else seed


def section(config: Mapping[str, Any], key: str, name: str) -> Mapping[str, Any]:
    """Return the row of that name in a list of a config; empty if there is none."""
    rows = (row for row in config.get(key) or () if isinstance(row, Mapping))
    return next((row for row in rows if row.get("name") == name), {})


def read_source(folder: Path, report: AuditReport) -> RunSource:
    """Return a report with what is beside it, or `DataError` if the scores are not as `audit` writes them."""
    config, path = yaml_text.read(report.config)[0] or {}, folder / "scores.parquet"
    if path.is_file():
        _refuse_form(path)
    columns = recompute.read_scores(folder, report, recompute.NumberCheck())
    tables = {key: (column["scores"], column["member"]) for key, column in columns.items()}
    return RunSource(folder=folder, report=report, config=config, tables=tables)


def _refuse_form(path: Path) -> None:
    from pyarrow import parquet

    schema, facts = parquet.read_schema(path), parquet.read_metadata(path).metadata or {}
    if further := set(facts) - {b"pandas", b"ARROW:schema"}:
        raise DataError(f"scores.parquet: holds {sorted(further)} beside its columns, which `audit` never writes")
    index = json.loads(facts.get(b"pandas", b"{}")).get("index_columns", ())
    if any(isinstance(row, str) or (row["start"], row["step"]) != (0, 1) for row in index):
        raise DataError("scores.parquet: has an index of its own, which `audit` never writes")
    for column in schema:
        if not re.fullmatch(COLUMNS.get(column.name, ""), str(column.type)):
            raise DataError(f"scores.parquet: column '{column.name}' is not as `audit` writes it")

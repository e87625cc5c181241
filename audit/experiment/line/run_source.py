"""A finished run as it is written again: its report, its config, and its scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from audit.config import yaml_text
from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.results import AuditReport
from audit.core.seeds import Seed
from audit.execution.run_folder import SEED

Difference = tuple[str, Any, Any]  # place, what is written, what follows
Place = tuple[str, str, str]  # training, game and attack
# columns of scores.parquet, and the kinds of their types
COLUMNS = {"mechanism": "OUT", "game": "OUT", "attack": "OUT", "record": "OUT", "label": "OUTiu", "run": "i", "canary": "i"}
COLUMNS |= {"member": "b", "score": "fiu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSource:
    """A report with its config and, by training, game and attack, scores and memberships `(n,)` each.

    Attributes:
        unread: filled while sections are written again: what is not, with the reason.
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
        """Return the stream of a game's draws."""
        seed = Seed(self.seed or 0)
        return seed.child(f"recipe:{training}").child(f"game:{game}") if self.report.kind == "run" else seed


def section(config: Mapping[str, Any], key: str, name: str) -> Mapping[str, Any]:
    """Return the row of that name in a list of a config; empty if there is none."""
    rows = (row for row in config.get(key) or () if isinstance(row, Mapping))
    return next((row for row in rows if row.get("name") == name), {})


def read_source(folder: Path, report: AuditReport) -> RunSource:
    """Return a report with what is beside it.

    Raises:
        DataError: the scores are not as `audit` writes them.
    """
    config, path = yaml_text.read(report.config)[0] or {}, folder / "scores.parquet"
    tables = dict(_read_tables(path, report)) if path.is_file() else {}
    return RunSource(folder=folder, report=report, config=config, tables=tables)


def _read_tables(path: Path, report: AuditReport) -> Iterator[tuple[Place, tuple[Array, Array]]]:
    import pandas as pd
    from pyarrow import parquet

    if further := set(parquet.read_metadata(path).metadata or ()) - {b"pandas", b"ARROW:schema"}:
        raise DataError(f"scores.parquet: holds {sorted(further)} beside its columns, which `audit` never writes")
    table = pd.read_parquet(path)
    first = next(((result.name, game.name) for result in report.mechanisms for game in result.games), ("", ""))
    index = table.index
    if not (isinstance(index, pd.RangeIndex) and (index.start, index.step) == (0, 1)):
        raise DataError("scores.parquet: has an index of its own, which `audit` never writes")
    for name in table:
        kind = "T" if isinstance(table[name].dtype, pd.StringDtype) else table[name].dtype.kind
        if isinstance(table[name].dtype, pd.CategoricalDtype) or kind not in COLUMNS.get(str(name), ""):
            raise DataError(f"scores.parquet: column '{name}' is not as `audit` writes it")
    table = table.assign(**{key: part for key, part in zip(("mechanism", "game"), first, strict=True) if key not in table})
    for (training, game, attack), rows in table.groupby(["mechanism", "game", "attack"], sort=False):  # type: ignore[misc]
        if "canary" in rows:
            order = rows["run"].to_numpy() * (rows["canary"].max() + 1) + rows["canary"].to_numpy()
            if not np.array_equal(order, np.arange(len(rows))):
                raise DataError(f"scores.parquet: canaries of '{training}', '{game}', '{attack}' are not in their order")
        yield (str(training), str(game), str(attack)), (rows["score"].to_numpy(np.float64), rows["member"].to_numpy(bool))

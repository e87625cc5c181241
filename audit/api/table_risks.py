"""Risks of a synthetic table in one call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.core.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

    from audit.core.results import AuditReport
    from audit.experiment.external.table_risks import TableSettings

    Table = str | Path | pd.DataFrame


def table_risks(
    synthetic: Table,
    training: Table,
    control: Table,
    *,
    categorical: tuple[str, ...] = (),
    settings: TableSettings | None = None,
    title: str = "",
    command: str = "audit.table_risks",
) -> AuditReport:
    """The report on the risks of a synthetic table to the records that it was made from; its `table` holds the risks.

    Singling out, linkability and inference (Giomi et al. 2023), each on training records and, as the control attack, on records
    of the same people that the table was made without: best, training and control are a random split of one table.
    Whether an excess is beyond chance is an exact test; no epsilon follows.

    Args:
        synthetic: a pandas frame, or a CSV or Parquet file; `training` and `control` likewise, with the same columns.
        categorical: columns of numbers that are names of categories (a postcode), compared for equality alone.
        settings: attacks, columns to infer and to link, confidence, seed; `audit.TableSettings`.

    Raises:
        DataError: tables that cannot be read, are too small or have other columns; the message names which.
        ConfigError: settings that do not fit the tables.
    """
    from attacks.tables.columns import read_frames
    from audit.data.source import combined_sha256
    from audit.experiment.external.table_report import TableSource, inspect_table
    from audit.experiment.external.table_risks import TableSettings
    from audit.experiment.games.settings import Settings

    sides = {"synthetic": synthetic, "training": training, "control": control}
    frames: dict[str, Any] = {}
    names: dict[str, str] = {}
    files: list[tuple[str, bytes]] = []
    for side, table in sides.items():
        frames[side], names[side], content = read_side(table, side)
        files.append((names[side], content))
    tables = read_frames(frames["synthetic"], frames["training"], frames["control"], categorical)
    table_settings = settings or TableSettings()
    general = Settings(
        confidence=table_settings.confidence, seed=table_settings.seed, title=title, command=command, certificates=0
    )
    source = TableSource(**names, sha256=combined_sha256(files))
    return inspect_table(tables, table_settings, general, source)


def read_side(table: Any, side: str) -> tuple[Any, str, bytes]:
    """The frame, its name, and the bytes to hash; `ConfigError` for neither a pandas table nor a path."""
    import pandas as pd

    from audit.data.frames import read_table, with_exact_numbers
    from audit.data.source import read_bytes

    if isinstance(table, pd.DataFrame):
        return table, side, pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes()
    if not isinstance(table, str | Path):
        raise ConfigError(f"{side} is a {type(table).__name__}; expected a pandas table or the path of a file")
    path = Path(table)
    content = read_bytes(path, side)
    return with_exact_numbers(read_table(content, path), content, path), path.name, content

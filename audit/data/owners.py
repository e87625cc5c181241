"""Which client a record of a table belongs to, if columns say so: a call day, a speaker, an occupation and an age band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from audit import plugins
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError

_KEYS = ("columns", "widths", "runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRule:
    """How columns of a table name clients.

    Attributes:
        columns: their values together name the client.
        widths: numeric columns that are cut into bands of that width.
        runs: a client is a run of neighbouring rows with equal values, such as a day in a file that is sorted by date; the same
            values further down are another client.
    """

    columns: Sequence[str]
    widths: Mapping[str, float] = field(default_factory=dict)
    runs: bool = False

    @classmethod
    def of(cls, value: Any) -> OwnerRule | None:
        """The rule of `data.client`: a column, a list of them, or a mapping with the keys of this class; else `ConfigError`."""
        if value is None:
            return None
        spec = value if isinstance(value, Mapping) else {"columns": [value] if isinstance(value, str) else value}
        plugins.refuse_unknown(spec, _KEYS, "data.client")
        columns, widths, runs = spec.get("columns"), spec.get("widths", {}), spec.get("runs", False)
        if not isinstance(columns, list | tuple) or not columns or not all(isinstance(name, str) for name in columns):
            raise ConfigError(f"data.client.columns is {columns!r}; expected a list of column names")
        if not isinstance(widths, Mapping) or any(name not in columns for name in widths):
            raise ConfigError(f"data.client.widths is {widths!r}; expected widths of {', '.join(columns)}")
        for name, width in widths.items():
            if isinstance(width, bool) or not isinstance(width, int | float) or not width > 0:
                raise ConfigError(f"data.client.widths.{name} is {width!r}; expected a number above 0")
        if not isinstance(runs, bool):
            raise ConfigError(f"data.client.runs is {runs!r}; expected true or false")
        return cls(columns=tuple(columns), widths=dict(widths), runs=runs)

    def read(self, frame: Any, place: Path) -> Array:
        """Return the client of each row, text `(n,)`; `DataError` if a column with a width holds other things than numbers."""
        parts = [self._values(frame, name, place) for name in self.columns]
        names = np.asarray(["/".join(values) for values in zip(*parts, strict=True)], dtype=str)
        if not self.runs:
            return names
        starts = np.concatenate([[False], names[1:] != names[:-1]]) if len(names) else np.zeros(0, bool)
        numbers = np.cumsum(starts)
        return np.asarray([f"{name}/{number}" for name, number in zip(names, numbers, strict=True)], dtype=str)

    def _values(self, frame: Any, name: str, place: Path) -> list[str]:
        if name not in self.widths:
            return [str(value).strip() for value in frame[name]]
        width = self.widths[name]
        try:
            bands = np.floor(frame[name].to_numpy(dtype=np.float64) / width)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{place}: column '{name}' is cut into bands for data.client, and holds no numbers: {error}"
            ) from error
        if not np.isfinite(bands).all():
            raise DataError(f"{place}: column '{name}' is cut into bands for data.client, and has missing values")
        return [f"{band * width:g}" for band in bands]

"""Tables: CSV (plain or gzipped) and Parquet, with a declared label and declared categorical columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from audit import plugins
from audit.core import checks
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.phrases import join_clauses, phrase
from audit.data import typed
from audit.data.frames import read_table
from audit.data.owners import OwnerRule
from audit.data.source import (
    VOCABULARY,
    Part,
    Scaling,
    Source,
    combined_sha256,
    locate,
    numbered,
    read_bytes,
    target_values,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One or two tables with the same columns. Categorical columns become 0/1 indicators, numbers are scaled.

    Attributes:
        path: `.csv`, `.csv.gz` or `.parquet` (any other name is read as CSV); what train and pool are drawn from.
        test_path: the table's own test part, or None.
        label: the column to predict.
        categorical: columns with names as values, also if they look like numbers.
        columns: names of the columns of files without a header line; None if the first line has them.
        drop: columns that the model does not get.
        group: column that slices results; it stays a feature unless it is also in `drop`.
        client: columns that name the client of a federated training whose record a row is (`split: column`): a name, a list, or
            `{columns: [...], widths: {age: 5}, runs: true}` (`audit.data.owners.OwnerRule`). They stay features too.
        ranges: `{column: [low, high]}` public limits of numeric columns, scaled to [-1, 1]. A numeric column without
            them is standardised with the mean and standard deviation of the train split: a figure computed from
            private records, which no accountant covers.
        classes: label values in order; None takes those found, sorted.
        label_suffix: text cut off the end of a label (UCI Adult's test file writes `>50K.`).
        separator: between columns; `" "` represents any white space.
        skip_rows, test_skip_rows: lines to leave out at the top of each file.
        task: "classification" or "regression".
    """

    path: str
    label: str
    test_path: str | None = None
    root: str = "."
    categorical: Sequence[str] = ()
    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()
    group: str | None = None
    client: Any = None
    ranges: Mapping[str, Sequence[float]] = field(default_factory=dict)
    classes: Sequence[Any] | None = None
    label_suffix: str = ""
    separator: str = ","
    skip_rows: int = 0
    test_skip_rows: int | None = None
    task: str = "classification"

    def __post_init__(self) -> None:
        typed.text(path=self.path, root=self.root, label=self.label, separator=self.separator)
        typed.text(label_suffix=self.label_suffix, task=self.task)
        typed.optional_text(test_path=self.test_path, group=self.group)
        typed.columns(categorical=self.categorical, drop=self.drop)
        if self.columns is not None:
            typed.columns(columns=self.columns)
        typed.lines(skip_rows=self.skip_rows)
        if self.test_skip_rows is not None:
            typed.lines(test_skip_rows=self.test_skip_rows)
        OwnerRule.of(self.client)
        typed.mapping(ranges=self.ranges)
        typed.label_list(self.classes)

    def read(self) -> Source:
        checks.choice(self.task, "data.task", ("classification", "regression"))
        frames, read = [], []
        second = self.skip_rows if self.test_skip_rows is None else self.test_skip_rows
        for name, skip in ((self.path, self.skip_rows), (self.test_path, second)):
            if name is not None:
                place = locate(self.root, name)
                content = read_bytes(place, "table")
                read.append((place.name, content))
                frames.append((place, self._frame(content, place, skip)))
        columns = self._features(frames)
        values = {name: self._values(frames, name) for name in columns if name in self.categorical}
        names = None if self.task == "regression" else self._class_names(frames)
        parts = [
            Part(
                inputs=self._encode(frame, place, columns, values),
                labels=self._labels(frame, place, names),
                groups=None if self.group is None else np.asarray(frame[self.group].astype(str), dtype=str),
            )
            for place, frame in frames
        ]
        owner_rule = OwnerRule.of(self.client)
        if owner_rule is not None:
            place, frame = frames[0]
            parts[0] = replace(parts[0], owners=owner_rule.read(frame, place))
        scaling = self._scaling(columns, values)
        standardisation = "numeric columns standardised with the mean and standard deviation of the train split"
        descriptions = [standardisation] * bool(scaling.standardised_columns) + [VOCABULARY] * bool(values)
        return Source(
            origin=join_clauses([phrase("table {files}", files=", ".join(name for name, _ in read)), *descriptions]),
            sha256=combined_sha256(read),
            classes=0 if names is None else len(names),
            main=parts[0],
            test=parts[1] if len(parts) == 2 else None,
            scaling=scaling,
            columns=_spans(columns, values),
        )

    def _frame(self, content: bytes, place: Path, skip: int) -> Any:
        frame = read_table(
            content, place, columns=None if self.columns is None else list(self.columns), separator=self.separator, skip=skip
        )
        owner_rule = OwnerRule.of(self.client)
        by_option = {
            "label": [self.label],
            "categorical": self.categorical,
            "drop": self.drop,
            "client": [] if owner_rule is None else owner_rule.columns,
            "group": [] if self.group is None else [self.group],
            "ranges": list(self.ranges),
        }
        for key, columns in by_option.items():
            for name in columns:
                if name not in frame.columns:
                    hint = plugins.hint(str(name), [str(column) for column in frame.columns])
                    raise DataError(
                        f"{place} has no column '{name}' (data.{key}).{hint} It has: {', '.join(map(str, frame.columns))}"
                    )
        return frame

    def _features(self, frames: list[tuple[Path, Any]]) -> list[str]:
        columns = [name for name in frames[0][1].columns if name != self.label and name not in self.drop]
        for place, frame in frames[1:]:
            lacking = [name for name in columns if name not in frame.columns]
            if lacking:
                raise DataError(
                    f"{place} lacks {', '.join(map(str, lacking))}, which {frames[0][0]} has; expected the same columns"
                )
        if not columns:
            raise DataError(f"{frames[0][0]} has no feature column beside the label '{self.label}'; is 'separator' right?")
        return columns

    def _values(self, frames: list[tuple[Path, Any]], name: str) -> list[str]:
        return sorted({str(value) for _, frame in frames for value in frame[name].unique()})

    def _class_names(self, frames: list[tuple[Path, Any]]) -> list[str]:
        if self.classes is not None:
            return [str(name) for name in self.classes]
        # of the table to train on: no other class can be learnt
        names = {name for place, frame in frames[:1] for name in self._label_text(frame, place)}
        numbers = all(name.lstrip("-").isdecimal() for name in names)
        return sorted(names, key=int) if numbers else sorted(names)  # as numbers: 10 comes after 9

    def _label_text(self, frame: Any, place: Path) -> list[str]:
        column = frame[self.label]
        if column.isna().any():
            row = int(np.flatnonzero(column.isna())[0])
            raise DataError(
                f"{place}: label column '{self.label}' is empty in {numbered(row, 'row')}; remove or repair that row"
            )
        if column.dtype.kind == "f" and not (column == column.round()).all():
            raise DataError(
                f"{place}: label column '{self.label}' holds numbers that are not integers; "
                "expected class names (for a continuous target set 'task: regression')"
            )
        # 1.0 and 1 are one class, however a table was written
        text = column.astype("int64").astype(str) if column.dtype.kind == "f" else column.astype(str)
        return [value.strip().removesuffix(self.label_suffix) for value in text]

    def _labels(self, frame: Any, place: Path, names: list[str] | None) -> Array:
        if names is None:
            return target_values(_numbers(frame[self.label], place, self.label), f"{place}: label column '{self.label}'")
        position = {name: i for i, name in enumerate(names)}
        text = self._label_text(frame, place)
        for row, value in enumerate(text):
            if value not in position:
                raise DataError(
                    f"{place}: label '{value}' in {numbered(row, 'row')} of column '{self.label}' is none of "
                    f"{', '.join(names)}; correct the row, 'classes' or 'label_suffix'"
                )
        return np.array([position[value] for value in text], np.int64)

    def _encode(self, frame: Any, place: Path, columns: list[str], values: dict[str, list[str]]) -> Array:
        blocks = []
        for name in columns:
            if name in values:
                levels = np.array(values[name])
                text = np.asarray(frame[name].astype(str), dtype=str)
                blocks.append((text[:, None] == levels[None, :]).astype(np.float64))
            else:
                blocks.append(_numbers(frame[name], place, name)[:, None])
        return np.concatenate(blocks, axis=1)

    def _scaling(self, columns: list[str], values: dict[str, list[str]]) -> Scaling:
        offset: list[float] = []
        unit: list[float] = []
        blocks_scaled = []
        for name in columns:
            if name in values:
                offset += [0.0] * len(values[name])
                unit += [1.0] * len(values[name])
            elif name in self.ranges:
                low, high = _limits(self.ranges[name], name)
                offset.append((low + high) / 2)
                unit.append((high - low) / 2)
            else:
                blocks_scaled.append(len(offset))
                offset.append(0.0)
                unit.append(1.0)
        return Scaling(offset=np.array(offset), unit=np.array(unit), standardised_columns=tuple(blocks_scaled))


def _spans(columns: list[str], values: dict[str, list[str]]) -> dict[str, tuple[int, int]]:
    # a numeric column is one feature, as "1" has one letter
    ends = np.cumsum([len(values.get(name, "1")) for name in columns]).tolist()
    return {name: (end - len(values.get(name, "1")), end) for name, end in zip(columns, ends, strict=True)}


def _limits(pair: Sequence[float], name: str) -> tuple[float, float]:
    try:
        low, high = (checks.finite(float(value), f"data.ranges.{name}") for value in pair)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"data.ranges.{name} is {pair!r}; expected two numbers, [low, high]") from error
    if low >= high:
        raise ConfigError(f"data.ranges.{name} is [{low}, {high}]; expected low < high")
    return low, high


def _numbers(column: Any, place: Path, name: str) -> Array:
    """The column as float64, or `DataError` naming the first row that is no finite number."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype) or column.dtype.kind not in "biuf":
        as_number = pd.to_numeric(column.astype(str), errors="coerce")
        bad = as_number.isna().to_numpy()
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise DataError(
                f"{place}: column '{name}' holds {str(column.iloc[row])!r} in {numbered(row, 'row')}, which is not a number; "
                "name the column in 'categorical' or in 'drop', or repair the row"
            )
        column = as_number
    numbers = np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    bad = ~np.isfinite(numbers)
    if bad.any():
        raise DataError(
            f"{place}: column '{name}' has {int(bad.sum())} values that are missing, NaN or infinite, the first in "
            f"{numbered(int(np.flatnonzero(bad)[0]), 'row')}; repair those rows, or put the column in 'drop'"
        )
    return numbers


PLUGIN = Table

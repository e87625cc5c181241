"""The audited records in a report: their names, keyed with a secret that no report holds, their groups, the outliers."""

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from audit.core import files
from audit.core.canaries import Canaries
from audit.core.data import Array, Dataset
from audit.core.errors import ConfigError
from audit.core.game_results import GroupResult, RecordExposure
from audit.core.phrases import phrase
from audit.core.views import Scores
from audit.stats.bounds import roc

KEY_BYTES = 16
DIGITS = 10
_HEX = re.compile(rb"[0-9a-f]{32,128}")


@dataclass(frozen=True, slots=True)
class RecordKey:
    """The secret behind the names of one audit, at least 32 hexadecimal digits; `repr` does not show it."""

    text: bytes

    def __post_init__(self) -> None:
        if not _HEX.fullmatch(self.text):
            raise ConfigError("a record key has at least 32 hexadecimal digits (0-9a-f); make one with `openssl rand -hex 16`")

    def __repr__(self) -> str:
        return "RecordKey(...)"

    def name(self, row: int) -> str:
        """The name of one record, `DIGITS` hexadecimal digits (HMAC-SHA256, RFC 2104)."""
        return hmac.digest(self.text, f"record:{row}".encode(), "sha256").hex()[:DIGITS]

    def names(self, rows: Iterable[int]) -> list[str]:
        return [self.name(row) for row in rows]

    def rows(self, names: Iterable[str], count: int) -> dict[str, int]:
        """The row of each name, the first below `count` that has it; a name that no row has is left out."""
        remaining, rows_by_name = set(names), {}
        for row in range(count):
            if not remaining:
                break
            name = self.name(row)
            if name in remaining:
                rows_by_name[name] = row
                remaining.remove(name)
        return rows_by_name


def new_key() -> RecordKey:
    return RecordKey(secrets.token_hex(KEY_BYTES).encode())


def read_key(path: Path) -> bytes:
    """The key in a file, as text; `ConfigError` if the file cannot be read, or holds none."""
    try:
        text = files.read(path).strip()
    except OSError as error:
        raise ConfigError(f"cannot read the record key '{path}': {error.strerror}; expected the file of a run's key") from error
    return RecordKey(text).text


MOST_NAMED = 10  # groups without a canary that a note names


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordTable:
    """What a report says of each canary that is a record.

    Attributes:
        names: keyed names.
        labels: true labels as text, "" if they are not known.
        columns: name of a column to its value for each canary, `(m,)` text; "class" is the label's.
        absent: name of a column to the values that records of the pool have and no canary has.
    """

    names: tuple[str, ...]
    labels: tuple[str, ...]
    columns: Mapping[str, Array]
    absent: Mapping[str, Sequence[str]] = field(default_factory=dict)


def make_record_table(canaries: Canaries, dataset: Dataset, key: RecordKey) -> RecordTable:
    """The canaries under names that only the holder of the key can trace back, their class and the user's column."""
    rows = canaries.payload.identifiers
    has_rows = rows is not None and len(np.unique(rows)) == len(canaries)
    names = tuple(key.names(rows.tolist() if has_rows and rows is not None else range(len(canaries))))
    if canaries.records is None:
        return RecordTable(names=names, labels=("",) * len(canaries), columns={})
    has_column = canaries.records.labels.ndim == 1
    labels = tuple(f"{label:g}" for label in canaries.records.labels.tolist()) if has_column else ("",) * len(canaries)
    columns = {"class": np.array(labels)} if has_column else {}
    has_classes = has_column and dataset.classes
    everywhere = {"class": [f"{label:g}" for label in np.unique(dataset.pool.labels)]} if has_classes else {}
    if dataset.groups is not None and rows is not None and np.isin(rows, dataset.pool_index).all():
        order = np.argsort(dataset.pool_index)
        place = order[np.searchsorted(dataset.pool_index, rows, sorter=order)]
        columns["group"] = np.asarray(dataset.groups)[place].astype(str)
        everywhere["group"] = np.unique(np.asarray(dataset.groups).astype(str)).tolist()
    absent = {column: sorted(set(values) - set(columns[column].tolist())) for column, values in everywhere.items()}
    return RecordTable(names=names, labels=labels, columns=columns, absent=absent)


def absences(table: RecordTable) -> list[str]:
    """Return what the tables of groups cannot show, in words: a sentence for each column with values that no canary has."""
    sentences: list[str] = []
    for column, values in table.absent.items():
        if values:
            names: str = ", ".join(values[:MOST_NAMED])
            if len(values) > MOST_NAMED:
                names = phrase("{names} and {count} more", names=names, count=len(values) - MOST_NAMED)
            sentences.append(
                phrase("no canary is of {column} {names}, so nothing is said of such records", column=column, names=names)
            )
    return sentences


def most_exposed(scores: Scores, table: RecordTable) -> tuple[RecordExposure, ...]:
    """The canaries of the first target run with the most outlying scores, under keyed names."""
    count = len(table.names)
    first = replace(scores, values=scores.values[:count], included=scores.included[:count])
    return exposures(first, table.names, table.labels)


def by_column(scores: Scores, table: RecordTable, confidence: float, correct: Array | None) -> tuple[GroupResult, ...]:
    """Attack AUC and model accuracy on the canaries of each class and each of the user's groups, over all target runs."""
    runs, results = len(scores.values) // max(len(table.names), 1), list[GroupResult]()
    for column, values in table.columns.items():
        group_names = values.tolist() if column == "class" else [f"{column} {value}" for value in values]
        results += group_results(scores, group_names * runs, confidence, correct)
    return tuple(results)


def exposures(
    scores: Scores, identifiers: Sequence[str], labels: Sequence[str], *, count: int = 30
) -> tuple[RecordExposure, ...]:
    """The `count` records with the highest scores; `fpr` is the share of nonmembers scored at least as high."""
    nonmembers = np.sort(scores.nonmembers)
    order = np.argsort(-scores.values, kind="stable")[:count]
    above = len(nonmembers) - np.searchsorted(nonmembers, scores.values[order], side="left")
    return tuple(
        RecordExposure(
            record=identifiers[i],
            label=labels[i],
            score=float(scores.values[i]),
            rank=rank + 1,
            fpr=float(above[rank] / max(len(nonmembers), 1)),
            member=bool(scores.included[i]),
        )
        for rank, i in enumerate(order.tolist())
    )


def group_results(
    scores: Scores, groups: Sequence[str], confidence: float, correct: Array | None = None
) -> tuple[GroupResult, ...]:
    """AUC, of at least two records a side, and accuracy in each slice. All intervals hold at once (Bonferroni)."""
    column = np.asarray(groups)
    names = sorted(set(groups))
    level = 1 - (1 - confidence) / len(names)
    results = []
    for name in names:
        in_group = column == name
        members, nonmembers = scores.values[in_group & scores.included], scores.values[in_group & ~scores.included]
        has_area = min(len(members), len(nonmembers)) > 1
        low, high = roc.auc_interval(members, nonmembers, level) if has_area else (None, None)
        results.append(
            GroupResult(
                group=str(name),
                members=len(members),
                nonmembers=len(nonmembers),
                auc=roc.auc(members, nonmembers) if has_area else None,
                accuracy=None if correct is None else float(np.mean(correct[in_group])),
                auc_lower=low,
                auc_upper=high,
            )
        )
    return tuple(results)

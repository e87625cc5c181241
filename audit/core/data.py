"""Arrays with meaning: records and data sets. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core import checks
from audit.core.errors import DataError
from audit.core.events import Unit
from audit.core.record_arrays import RecordArray

Array = NDArray[Any]
SPLIT = ("train", "pool", "test")  # the parts of a data set: keys of every kind of data, numbers of records


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Records:
    """Labelled examples. `inputs` is `(n, ...)` float32, or int64 if a model takes whole numbers (categories, tokens).

    `labels` is `(n,)` int64 for classes, float64 `(n, ...)` for numbers, bool `(n, labels)` for several yes or no labels.

    Texts are token numbers `(n, T)` with -1 behind their end; `labels` `(n, T)` int64 repeats the tokens that a model is to
    predict and is -1 elsewhere.

    `inputs` of many records, and of those mapped from a file, is a `RecordArray`: an array with rows that become numbers when
    they are asked for.
    """

    inputs: Array
    labels: Array

    def __post_init__(self) -> None:
        for name, value in (("inputs", self.inputs), ("labels", self.labels)):
            if not hasattr(value, "__len__") or getattr(value, "ndim", 1) == 0:
                raise DataError(f"{name} are a single {type(value).__name__}; expected an array with an entry per record")
        if len(self.inputs) != len(self.labels):
            raise DataError(f"{len(self.inputs)} inputs but {len(self.labels)} labels; expected as many of each")
        for part in fields(self):
            value = getattr(self, part.name)
            object.__setattr__(self, part.name, value if isinstance(value, RecordArray) else checks.frozen(value))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def are_texts(self) -> bool:
        """True if a record is a sequence of tokens and its labels are the tokens to predict."""
        return self.labels.ndim == 2 and self.labels.dtype.kind in "iu"

    @property
    def are_classified(self) -> bool:
        """True if each record is of one class."""
        return self.labels.ndim == 1 and self.labels.dtype.kind in "iu"

    def take(self, index: Array) -> Records:
        inputs: Any = self.inputs
        rows: Any = inputs.take_rows(index) if isinstance(inputs, RecordArray) else inputs[index]
        return Records(inputs=rows, labels=self.labels[index])


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The tokens of texts: numbers below `size`, of which the last `unused` occur in no text.

    Attributes:
        size: number of tokens, the unused ones included.
        unused: tokens that only canaries may hold.
        tokenizer: "bytes" (token 256 ends a text), or the name of the tokenizer that made them.
        text_length: of each text if a record holds several of one user side by side; 0 if a record is one text.
    """

    size: int
    unused: int = 0
    tokenizer: str = "bytes"
    text_length: int = 0

    @property
    def ordinary(self) -> int:
        """Number of tokens that texts may hold."""
        return self.size - self.unused


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dataset:
    """One data set, split once: `train` is in every model, canaries come from `pool`, utility is on `test`.

    Attributes:
        classes: number of classes, 0 if labels are numbers or several yes or no labels.
        sha256: of the bytes that were read, hex.
        source: where they came from, in words (no machine path).
        pool_index: `(len(pool),)` row of each pool record in the source.
        groups: user-given column per pool record, or None.
        owners: client that each train record belongs to, text, if the source says so.
        unaccounted: what reading took from the records that no accountant covers, in words.
        vocabulary: of texts; None for other records.
        columns: of a table, the features `[first, last)` that each column of the source became.
        unit: of privacy that a record is: "example", or "user" if a record holds all that a user has.
    """

    name: str
    source: str
    sha256: str
    classes: int
    train: Records
    pool: Records
    test: Records
    pool_index: Array
    groups: Array | None = None
    owners: Array | None = None
    unaccounted: tuple[str, ...] = ()
    vocabulary: Vocabulary | None = None
    columns: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unit: Unit = "example"

    @property
    def outputs(self) -> int:
        """Return how many outputs a model of the usual loss has: one a class, one a label, one for numbers."""
        if self.classes:
            return self.classes
        labels = self.train.labels
        return int(np.prod(labels.shape[1:])) if labels.dtype.kind in "bf" else 1

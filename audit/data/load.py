"""Data sets, read once, split once: `load` gives train, pool and test with the hash of what was read. Nothing is downloaded."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from audit import plugins
from audit.core.data import SPLIT, Array, Dataset, Records
from audit.core.errors import ConfigError, DataError
from audit.core.seeds import Seed
from audit.data import typed
from audit.data.source import STANDARDISATION, UNACCOUNTED, VOCABULARY, Part, Scaling, Source
from audit.data.users import group_source

__all__ = ["STANDARDISATION", "VOCABULARY", "load"]


PACKAGE = "audit.data.readers"
_COMMON = ("kind", "name", "records_per_user", *SPLIT)


class Reader(Protocol):
    """A data reader: its fields are the keys of its kind; `read` gives the parts before they are split and scaled."""

    def read(self) -> Source: ...


def load(spec: Mapping[str, Any], seed: Seed) -> Dataset:
    """The data set that `spec` describes, split into disjoint train, pool and test by `seed.child("split")`.

    Args:
        spec: `kind` (a file of `audit/data/readers`, or a third party's `package.module:Class`), `train`, `pool` and `test` as
            numbers of records (at most one of those drawn from the same file may be None, "the rest"; left out is None),
            `name`, `records_per_user` (a record is then a user with all records), and the keys of the kind, which are the
            fields of its class.
        seed: of the audit.

    Returns:
        Inputs are float32: images `(C, H, W)`, digits divided by 16 and other images scaled to [-1, 1] by public
        constants. If a table's columns were standardised with statistics of the train split, which no
        accountant covers, `source` contains `STANDARDISATION`.

    Raises:
        ConfigError: an unknown key (with the nearest match) or a value of the wrong kind.
        DataError: a file is missing, malformed or hostile, or holds fewer records than asked for.

    >>> data = load({"kind": "digits", "train": 1000, "pool": 200}, Seed(7))
    >>> len(data.train), len(data.pool), len(data.test), data.train.inputs.shape
    (1000, 200, 597, (1000, 1, 8, 8))
    """
    reader = _reader(spec)
    counts = {part: typed.records(part, spec.get(part)) for part in SPLIT}
    source = reader.read()
    if spec.get("records_per_user") is not None:
        source = group_source(source, spec["records_per_user"])
    generator = seed.child("split").numpy()
    rows = _split(source, counts, generator)
    scaling = source.scaling
    if scaling.standardised_columns:
        scaling = scaling.fit(source.main.inputs[rows["train"]])
    test_source = source.main if source.test is None else source.test
    dataset = Dataset(
        name=str(spec.get("name", spec["kind"])),
        source=source.origin,
        sha256=source.sha256,
        classes=source.classes,
        train=_take(source.main, rows["train"], scaling),
        pool=_take(source.main, rows["pool"], scaling),
        test=_take(test_source, rows["test"], scaling),
        pool_index=rows["pool"],
        groups=None if source.main.groups is None else source.main.groups[rows["pool"]],
        owners=None if source.main.owners is None else source.main.owners[rows["train"]],
        vocabulary=source.vocabulary,
        unaccounted=tuple(remark for words, remark in UNACCOUNTED.items() if words in source.origin),
        columns=source.columns,
        unit=source.unit,
    )
    _demand_two_classes(dataset)
    return dataset


def _reader(spec: Mapping[str, Any]) -> Reader:
    """Return the reader of a kind; a key that neither it nor every kind takes is an error."""
    own = {key: value for key, value in spec.items() if key not in _COMMON or key == "kind"}
    kind = own.get("kind")
    if isinstance(kind, str):
        allowed_keys, _ = plugins.keys(plugins.find(PACKAGE, kind, "data"))
        for key in own:
            if key not in (*_COMMON, *allowed_keys):
                near, takes = plugins.hint(key, _COMMON + allowed_keys), ", ".join((*_COMMON, *allowed_keys))
                raise ConfigError(f"data: unknown key '{key}' for kind '{kind}'.{near} It takes: {takes}")
    reader: Reader = plugins.build(PACKAGE, own, "data")
    return reader


def _split(source: Source, counts: dict[str, int | None], generator: np.random.Generator) -> dict[str, Array]:
    """Row numbers of each part: `test` from the source's own test part if it has one, else from the same rows."""
    if source.test is None:
        return _draw(len(source.main), counts, generator)
    rows = _draw(len(source.main), {part: counts[part] for part in ("train", "pool")}, generator)
    return rows | _draw(len(source.test), {"test": counts["test"]}, generator)


def _draw(size: int, counts: dict[str, int | None], generator: np.random.Generator) -> dict[str, Array]:
    quotas = ", ".join(f"{part} {'null' if count is None else count}" for part, count in counts.items())
    remainder = [part for part, count in counts.items() if count is None]
    if len(remainder) > 1:
        raise ConfigError(
            f"data: {quotas}, to be drawn from the same {size} records; at most one of them can be null ('the rest'), "
            f"so give a count for {' or '.join(remainder)}"
        )
    total = sum(count for count in counts.values() if count is not None)
    if total > size:
        raise DataError(f"data: {quotas} ask for {total} records, but there are {size}; ask for fewer")
    order = generator.permutation(size)
    rows, start = {}, 0
    for part, count in counts.items():
        stop = start + (size - total if count is None else count)
        rows[part] = order[start:stop]
        start = stop
    return rows


def _take(part: Part, rows: Array, scaling: Scaling) -> Records:
    return Records(inputs=scaling.rows(part, rows), labels=part.labels[rows])


def _demand_two_classes(dataset: Dataset) -> None:
    if dataset.classes == 0:
        return
    present = np.unique(np.concatenate([dataset.train.labels, dataset.pool.labels]))
    if len(present) < 2:
        raise DataError(
            f"data '{dataset.name}': train and pool hold the single class {', '.join(map(str, present)) or '(no record)'}; "
            "expected at least two classes (is 'label' the right column?)"
        )

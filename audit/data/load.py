"""Data sets, read once, split once: `load` gives train, pool and test with the hash of what was read. Nothing is downloaded."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from audit.core.data import Array, Dataset, Records
from audit.core.errors import ConfigError, DataError
from audit.core.seeds import Seed
from audit.data.readers.arrays import BreastCancer, Digits, Npz
from audit.data.readers.images import Cifar10, Idx
from audit.data.readers.tables import Table
from audit.data.source import STANDARDISED, VOCABULARY, Part, Scaling, Source

__all__ = ["STANDARDISED", "VOCABULARY", "kinds", "load"]


class _Reader(Protocol):
    def read(self) -> Source: ...


_READERS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "digits": (Digits, {}),
    "breast_cancer": (BreastCancer, {}),
    "mnist": (Idx, {"path": "MNIST", "title": "MNIST"}),
    "fashion_mnist": (Idx, {"path": "FashionMNIST", "title": "Fashion-MNIST"}),
    "cifar10": (Cifar10, {}),
    "npz": (Npz, {}),
    "table": (Table, {}),
}
_SPLIT = ("train", "pool", "test")
_COMMON = ("kind", "name", *_SPLIT)


def kinds() -> tuple[str, ...]:
    """The values that `kind` may have.

    >>> "digits" in kinds()
    True
    """
    return tuple(_READERS)


def load(spec: Mapping[str, Any], seed: Seed) -> Dataset:
    """The data set that `spec` describes, split into disjoint train, pool and test by `seed.child("split")`.

    Args:
        spec: `kind` (see `kinds`), `train`, `pool` and `test` as numbers of records (at most one of those drawn from the
            same file may be None, "the rest"; left out is None), `name`, and the keys of the kind: `path` and `root`
            for all that is read from files, further those of `data_arrays.Npz` and `data_tables.Table`.
        seed: of the audit.

    Returns:
        Inputs are float32: images `(C, H, W)`, digits divided by 16 and other images scaled to [-1, 1] by public
        constants. Where a table's columns were standardised with statistics of the train split, which no
        accountant covers, `source` contains `STANDARDISED`.

    Raises:
        ConfigError: an unknown key (with the nearest match) or a value of the wrong kind.
        DataError: a file is missing, malformed or hostile, or holds fewer records than asked for.

    >>> data = load({"kind": "digits", "train": 1000, "pool": 200}, Seed(7))
    >>> len(data.train), len(data.pool), len(data.test), data.train.inputs.shape
    (1000, 200, 597, (1000, 1, 8, 8))
    """
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in _READERS:
        raise ConfigError(f"data.kind is {kind!r}.{_near(kind, kinds())} Expected one of {', '.join(kinds())}")
    reader = _reader(kind, {key: value for key, value in spec.items() if key not in _COMMON})
    counts = {part: _count(spec.get(part), part) for part in _SPLIT}
    source = reader.read()
    generator = seed.child("split").numpy()
    chosen = _split(source, counts, generator)
    scaling = source.scaling.fit(source.main.inputs[chosen["train"]])
    held = source.main if source.test is None else source.test
    dataset = Dataset(
        name=str(spec.get("name", kind)),
        source=source.origin,
        sha256=source.sha256,
        classes=source.classes,
        train=_take(source.main, chosen["train"], scaling),
        pool=_take(source.main, chosen["pool"], scaling),
        test=_take(held, chosen["test"], scaling),
        pool_index=chosen["pool"],
        groups=None if source.main.groups is None else source.main.groups[chosen["pool"]],
        unaccounted=tuple(f"inputs {text}" for text in (STANDARDISED, VOCABULARY) if text in source.origin),
    )
    _demand_two_classes(dataset)
    return dataset


def _reader(kind: str, options: dict[str, Any]) -> _Reader:
    reader, defaults = _READERS[kind]
    allowed = tuple(one.name for one in dataclasses.fields(reader) if one.name != "title")
    for key, value in options.items():
        if key not in allowed:
            takes = ", ".join((*_COMMON, *allowed))
            raise ConfigError(f"data: unknown key '{key}' for kind '{kind}'.{_near(key, _COMMON + allowed)} It takes: {takes}")
        _check_type(kind, key, value)
    for one in dataclasses.fields(reader):
        required = one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
        if required and one.name not in options and one.name not in defaults:
            raise ConfigError(f"data: kind '{kind}' needs the key '{one.name}'")
    built: _Reader = reader(**{**defaults, **options})
    return built


_TEXT = ("path", "root", "label", "separator", "label_suffix", "task")
_OPTIONAL_TEXT = ("test_path", "group")
_LISTS = ("categorical", "columns", "drop")
_COUNTS = ("skip_rows", "test_skip_rows")


def _check_type(kind: str, key: str, value: Any) -> None:
    """Nothing, or `ConfigError` where a value is of another type than the key takes."""
    text, whole = isinstance(value, str), isinstance(value, int) and not isinstance(value, bool)
    listed = isinstance(value, list | tuple)
    if key in _TEXT or key in _OPTIONAL_TEXT:
        fits, expected = text or (key in _OPTIONAL_TEXT and value is None), "text"
    elif key in _LISTS:
        fits, expected = listed or (key == "columns" and value is None), "a list of column names"
    elif key in _COUNTS:
        fits, expected = (
            (whole and value >= 0) or (key == "test_skip_rows" and value is None),
            "a number of lines of at least 0",
        )
    elif key == "ranges":
        fits, expected = isinstance(value, Mapping), "a mapping of columns to [low, high]"
    elif kind == "table":  # classes
        fits, expected = listed or value is None, "a list of labels, or null for those found"
    else:
        fits, expected = (
            (whole and value >= 2) or value is None,
            "a number of at least 2, or null for the largest label plus one",
        )
    if not fits:
        raise ConfigError(f"data.{key} is {value!r}; expected {expected}")


def _near(word: object, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(str(word), known, n=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def _count(value: Any, part: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"data.{part} is {value!r}; expected a number of records of at least 0, or null for the rest")
    return value


def _split(source: Source, counts: dict[str, int | None], generator: np.random.Generator) -> dict[str, Array]:
    """Row numbers of each part: `test` from the source's own test part where it has one, else from the same rows."""
    if source.test is None:
        return _draw(len(source.main), counts, generator)
    chosen = _draw(len(source.main), {part: counts[part] for part in ("train", "pool")}, generator)
    return chosen | _draw(len(source.test), {"test": counts["test"]}, generator)


def _draw(size: int, counts: dict[str, int | None], generator: np.random.Generator) -> dict[str, Array]:
    named = ", ".join(f"{part} {'null' if count is None else count}" for part, count in counts.items())
    rest = [part for part, count in counts.items() if count is None]
    if len(rest) > 1:
        raise ConfigError(
            f"data: {named}, to be drawn from the same {size} records; at most one of them can be null ('the rest'), "
            f"so give a count for {' or '.join(rest)}"
        )
    asked = sum(count for count in counts.values() if count is not None)
    if asked > size:
        raise DataError(f"data: {named} ask for {asked} records, but there are {size}; ask for fewer")
    order = generator.permutation(size)
    chosen, start = {}, 0
    for part, count in counts.items():
        stop = start + (size - asked if count is None else count)
        chosen[part] = order[start:stop]
        start = stop
    return chosen


def _take(part: Part, rows: Array, scaling: Scaling) -> Records:
    return Records(inputs=scaling.apply(part.inputs[rows]), labels=part.labels[rows])


def _demand_two_classes(dataset: Dataset) -> None:
    if dataset.classes == 0:
        return
    present = np.unique(np.concatenate([dataset.train.labels, dataset.pool.labels]))
    if len(present) < 2:
        raise DataError(
            f"data '{dataset.name}': train and pool hold the single class {', '.join(map(str, present)) or '(no record)'}; "
            "expected at least two classes (is 'label' the right column?)"
        )

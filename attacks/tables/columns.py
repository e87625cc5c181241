"""Three tables of the same columns as arrays of numbers, and how far apart records of mixed columns are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.stats.spread import parts

_EXACT = 2**53  # whole numbers up to here are float64 exactly
NAMES = ("synthetic", "training", "control")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableTriple:
    """The tables, with categories as codes that all three share.

    Attributes:
        synthetic, training, control: `(n, columns)` float64; a missing number is NaN, a missing category its own code.
        names: of the columns; `is_category` `(columns,)`.
        spans: `(columns,)` largest less smallest number over all three tables, 1 of categories.
    """

    synthetic: Array
    training: Array
    control: Array
    names: tuple[str, ...]
    is_category: Array
    spans: Array

    def places(self, columns: Sequence[str], option: str) -> list[int]:
        """Return the positions of columns; `DataError` if there is no such column, or none is named."""
        missing = [name for name in columns if name not in self.names]
        if missing or not columns:
            problem = f"names no column '{missing[0]}'" if missing else "names no column"
            raise DataError(f"{option} {problem}; the tables have {', '.join(self.names)}")
        return [self.names.index(name) for name in columns]


def require_records(frame: Any, side: str) -> None:
    """Raise `DataError` if a table has no records, or several columns of one name."""
    if not len(frame) or not len(frame.columns):
        raise DataError(f"the {side} table has {len(frame)} rows and {len(frame.columns)} columns; expected records")
    names, counts = np.unique([str(name) for name in frame.columns], return_counts=True)
    if counts.max() > 1:
        raise DataError(
            f"the {side} table has {counts.max()} columns named '{names[counts.argmax()]}'; give each a name of its own"
        )


def read_frames(synthetic: Any, training: Any, control: Any, categorical: Sequence[str] = ()) -> TableTriple:
    """The tables of three pandas frames; columns of numbers are compared by distance, if not named in `categorical`. Raises
    `DataError` if a table is empty, the columns are not the same, or a column is numbers in one table and text in another.
    """
    frames = dict(zip(NAMES, (synthetic, training, control), strict=True))
    names = tuple(str(name) for name in training.columns)
    for side, frame in frames.items():
        require_records(frame, side)
        differences = sorted({str(name) for name in frame.columns} ^ set(names))
        if differences:
            raise DataError(
                f"the {side} table and the training table differ in column '{differences[0]}' ({len(differences)} such); "
                "expected the same columns in all three, in any order"
            )
    unknown = [name for name in categorical if name not in names]
    if unknown:
        raise DataError(f"categorical names no column '{unknown[0]}'; the tables have {', '.join(names)}")
    columns, is_category = [], []
    for name in names:
        sides = [frame[next(column for column in frame.columns if str(column) == name)] for frame in frames.values()]
        columns.append(_numbers(name, sides, as_category=name in categorical))
        is_category.append(columns[-1][1])
    tables = [np.stack([values[side] for values, _ in columns], axis=1) for side in range(len(NAMES))]
    return TableTriple(
        synthetic=tables[0],
        training=tables[1],
        control=tables[2],
        names=names,
        is_category=np.array(is_category),
        spans=_spans(tables, np.array(is_category)),
    )


def _numbers(name: str, sides: Sequence[Any], *, as_category: bool) -> tuple[list[Array], bool]:
    """The column in each table as numbers, and whether they are codes of categories."""
    is_number = [side.dtype.kind in "iuf" for side in sides]
    if all(is_number) and not as_category:
        _refuse_large(name, sides)
        arrays = [side.to_numpy(dtype=np.float64, na_value=np.nan) for side in sides]
        if any(np.isinf(array).any() for array in arrays):
            raise DataError(f"column '{name}' holds infinite numbers; expected finite ones, or missing cells")
        return arrays, False
    if any(is_number) and not all(is_number):
        kinds = ", ".join(f"{side} {values.dtype}" for side, values in zip(NAMES, sides, strict=True))
        raise DataError(
            f"column '{name}' is numbers in one table and not in another ({kinds}); give it the same form in all three"
        )
    if any(side.dtype.kind == "f" for side in sides) and all(is_number):  # missing cells turn 7 into 7.0, another text
        _refuse_rounded(name, sides)
        sides = [side.astype("Float64") for side in sides]
    texts = [side.astype(object).where(side.notna(), "").astype(str).to_numpy() for side in sides]
    # one coding for all three, or equal categories would differ
    codes = np.unique(np.concatenate(texts).astype(np.str_), return_inverse=True)[1].astype(np.float64)
    stops = np.cumsum([len(text) for text in texts])[:-1]
    return list(np.split(codes, stops)), True


def _refuse_large(name: str, sides: Sequence[Any]) -> None:
    """Raise `DataError` if whole numbers are so large that float64 makes different ones equal."""
    for side, values in zip(NAMES, sides, strict=True):
        present = values.dropna()
        if values.dtype.kind in "iu" and len(present) and max(abs(int(present.min())), abs(int(present.max()))) > _EXACT:
            raise DataError(
                f"column '{name}' of the {side} table holds whole numbers beyond 2^53, which cannot be told apart as numbers; "
                "name it in categorical, or give it as text"
            )


def _refuse_rounded(name: str, sides: Sequence[Any]) -> None:
    """Raise `DataError` if a category's numbers are so large that float64 has already made different ones equal."""
    for side, values in zip(NAMES, sides, strict=True):
        if max(abs(values.min()), abs(values.max())) >= _EXACT:
            raise DataError(
                f"column '{name}' of the {side} table holds numbers of 2^53 and more beside numbers with missing cells or "
                "fractions, so that different ones are read as equal; give it as text in all three tables"
            )


def _spans(tables: Sequence[Array], is_category: Array) -> Array:
    full = np.concatenate(tables)
    # a missing number takes the column's mean, which moves neither end; a column without any takes 0 to spare nanmean a warning
    complete = np.where(np.isnan(full), np.nanmean(np.where(np.isnan(full).all(axis=0), 0.0, full), axis=0), full)
    spans = complete.max(axis=0) - complete.min(axis=0)
    return np.where(is_category | (spans == 0), 1.0, spans)


def column_distance(tables: TableTriple, place: int, values: Array, candidates: Array) -> Array:
    """Distances `(a, n)` in one column: 0 or 1 of categories, the difference over the span of numbers; 1 to a missing number.

    References: Gower 1971, "A general coefficient of similarity and some of its properties".
    """
    first, second = values[:, place, None], candidates[None, :, place]
    if tables.is_category[place]:
        return np.asarray(first != second, dtype=np.float64)
    distance = np.abs(first - second) / tables.spans[place]
    missing = np.isnan(distance)  # also of two missing numbers, which are equal
    return np.where(missing, ~(np.isnan(first) & np.isnan(second)), distance) if missing.any() else distance


def distances(tables: TableTriple, places: Sequence[int], records: Array, candidates: Array) -> Iterator[tuple[slice, Array]]:
    """The sum of distances over columns, `(part, n)` for some of the records at a time, with which they are."""
    for part in parts(len(records), len(candidates)):
        total = np.zeros((part.stop - part.start, len(candidates)))
        for place in places:
            total += column_distance(tables, place, records[part], candidates)
        yield part, total

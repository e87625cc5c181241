"""What a synthetic table says of each record's presence among those that it was made from: several scores a record."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from attacks.tables.columns import TableTriple, distances, read_frames
from audit.core.data import Array

NEIGHBOURS = 5
BINS = 10
COLUMN_LIMIT = 16  # of which all pairs are counted
SMALLEST_DISTANCE = 1e-6  # of a distance, below which two records are the same


def membership_scores(synthetic: Any, training: Any, candidates: Any, categorical: tuple[str, ...] = ()) -> Array:
    """Scores of each candidate `(n, 6)`, higher if it seems to have been there; `DataError` if the columns differ.

    Columns: how much closer the closest few synthetic records are than the closest few training records, which is a ratio of
    densities (van Breugel et al. 2023); the same of the closest one; how much commoner its values are together, two columns
    at a time, than among the training records; and how often its categories, and its numbers, that no training record has
    are among the synthetic ones: distances add up all columns, and miss a generator that takes the values of each column off
    the data and draws the columns apart; and how much oftener than by chance two of its values that no training record has
    together are in one synthetic record, which finds columns that are copied in part. All are differences of logarithms.

    Args:
        synthetic, training, candidates: frames with the same columns; `training` without the candidates.
    """
    tables = read_frames(synthetic, training, candidates, categorical)
    closer = _log_nearest(tables, tables.training) - _log_nearest(tables, tables.synthetic)
    new = [_new_values(tables, np.flatnonzero(tables.is_category == kind)) for kind in (True, False)]
    return np.stack([closer.mean(axis=1), closer[:, 0], _pair_ratios(tables), *new, _new_pairs(tables)], axis=1)


def _log_nearest(tables: TableTriple, records: Array) -> Array:
    """Logarithms of the distances of candidates (the control table) to their closest records, `(n, k)`."""
    # as many of both tables, or their means would not compare
    count = min(NEIGHBOURS, len(tables.synthetic), len(tables.training))
    out = np.empty((len(tables.control), count))
    for part, total in distances(tables, range(len(tables.names)), tables.control, records):
        out[part] = np.sort(np.partition(total, count - 1, axis=1)[:, :count], axis=1)
    return np.log(np.maximum(out, SMALLEST_DISTANCE))


def _pair_ratios(tables: TableTriple) -> Array:
    """Mean logarithm of how much commoner two values are together among synthetic than among training records, `(n,)`."""
    codes = [_cut(tables, place) for place in range(min(len(tables.names), COLUMN_LIMIT))]
    pairs = list(combinations(codes, 2)) or [(codes[0], codes[0])]
    total = np.zeros(len(tables.control))
    for first, second in pairs:
        size = max(int(side.max()) for side in second) + 1
        synthetic, training, candidates = (a * size + b for a, b in zip(first, second, strict=True))
        cells = int(max(synthetic.max(), training.max(), candidates.max())) + 1
        shares = [np.bincount(side, minlength=cells)[candidates] / len(side) for side in (synthetic, training)]
        # a pair that is missing from a table counts as one record of it, so that logarithms are finite
        total += np.log(shares[0] + 1 / len(synthetic)) - np.log(shares[1] + 1 / len(training))
    return total / len(pairs)


def _new_values(tables: TableTriple, places: Array) -> Array:
    """Sum over the columns at `places` of how often synthetic records have a value of the candidate's that is new, `(n,)`.

    New is what no training record has. In logarithms; 0 if no value is new, or none is found.
    """
    size, total = len(tables.synthetic), np.zeros(len(tables.control))
    for place in places:
        synthetic, training, candidates = (table[:, place] for table in (tables.synthetic, tables.training, tables.control))
        values, counts = np.unique(synthetic, return_counts=True)
        at = np.minimum(np.searchsorted(values, candidates), len(values) - 1)
        is_found = (values[at] == candidates) & ~np.isin(candidates, training)
        total += np.log1p(np.where(is_found, counts[at], 0) * size)
    return total


def _new_pairs(tables: TableTriple) -> Array:
    """Sum over pairs of columns of the logarithm of how much commoner than by chance a candidate's values are together, `(n,)`.

    By chance is as often as both values apart would meet. 0 for a pair that a training record has, or that is not found.
    """
    total, size = np.zeros(len(tables.control)), len(tables.synthetic)
    ends = np.cumsum([size, len(tables.training)])
    columns = [_code(np.concatenate([table[:, place] for table in (tables.synthetic, tables.training, tables.control)]))
               for place in range(min(len(tables.names), COLUMN_LIMIT))]  # fmt: skip
    for first, second in combinations(columns, 2):
        pairs = _code(first * (second.max() + 1) + second)
        synthetic, training, candidates = np.split(pairs, ends)
        together = np.bincount(synthetic, minlength=pairs.max() + 1)[candidates]
        apart = [np.bincount(column[:size], minlength=column.max() + 1)[column[ends[1] :]] for column in (first, second)]
        is_found = (together > 0) & ~np.isin(candidates, training)
        chance = np.where(is_found, apart[0] * apart[1] / size, 1.0)
        total += np.where(is_found, np.maximum(np.log(np.where(is_found, together, 1) / chance), 0.0), 0.0)
    return total


def _code(values: Array) -> Array:
    """Whole numbers in place of values, equal ones alike."""
    return np.asarray(np.unique(values, return_inverse=True)[1])


def _cut(tables: TableTriple, place: int) -> tuple[Array, Array, Array]:
    """The column of each table as whole numbers: categories as they are, numbers by bins, each column with its own ends."""
    sides = [table[:, place] for table in (tables.synthetic, tables.training, tables.control)]
    if tables.is_category[place]:
        return tuple(side.astype(np.int64) for side in sides)  # type: ignore[return-value]
    present = sides[1][~np.isnan(sides[1])]
    edges = np.unique(np.quantile(present, np.linspace(0, 1, BINS + 1))) if len(present) else np.zeros(1)
    edges[-1] = np.nextafter(edges[-1], np.inf)  # the largest value itself is inside
    return tuple(np.where(np.isnan(side), 0, np.searchsorted(edges, side, side="right") + 1) for side in sides)  # type: ignore[return-value]

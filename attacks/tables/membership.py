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
    """Scores of each candidate `(n, 4)`, higher if it seems to have been there.

    Columns: the density of synthetic records compared with that of the training records (van Breugel et al. 2023), minus the
    logarithm of the distance to the closest synthetic record and to the closest few, and how much commoner its values are
    together, two columns at a time, than among the training records.

    Args:
        synthetic, training, candidates: frames with the same columns; `training` without the candidates.
        categorical: columns of numbers that are names.

    Raises:
        DataError: the columns differ.
    """
    tables = read_frames(synthetic, training, candidates, categorical)
    nearest = _log_nearest(tables, tables.synthetic)
    nearest_training = _log_nearest(tables, tables.training)
    density_ratio = nearest_training.mean(axis=1) - nearest.mean(axis=1)
    return np.stack([density_ratio, -nearest[:, 0], -nearest.mean(axis=1), _pair_ratios(tables)], axis=1)


def _log_nearest(tables: TableTriple, records: Array) -> Array:
    """Logarithms of the distances of candidates (the control table) to their closest records, `(n, k)`."""
    count = min(NEIGHBOURS, len(records))
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
        total += np.log(shares[0] + 1 / len(synthetic)) - np.log(shares[1] + 1 / len(training))
    return total / len(pairs)


def _cut(tables: TableTriple, place: int) -> tuple[Array, Array, Array]:
    """The column of each table as whole numbers: categories as they are, numbers by bins, each column with its own ends."""
    sides = [table[:, place] for table in (tables.synthetic, tables.training, tables.control)]
    if tables.is_category[place]:
        return tuple(side.astype(np.int64) for side in sides)  # type: ignore[return-value]
    present = sides[1][~np.isnan(sides[1])]
    edges = np.unique(np.quantile(present, np.linspace(0, 1, BINS + 1))) if len(present) else np.zeros(1)
    edges[-1] = np.nextafter(edges[-1], np.inf)  # the largest value itself is inside
    return tuple(np.where(np.isnan(side), 0, np.searchsorted(edges, side, side="right") + 1) for side in sides)  # type: ignore[return-value]

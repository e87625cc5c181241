"""The Gaussian loss of a pair of runs, releases being linear in normal draws: mu^2 = d' (A A')^+ d, block by block.

The releases of a run, put below one another, are v + A z with independent standard normal z. A neighbour with v + d and the
same A is told apart as N(0, 1) and N(mu, 1) are, where mu is the length of the shortest c with A c = d, and infinite if there
is none (Dong, Roth and Su 2022, example 1). Rows that share no draw are independent, so squares add up block by block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from audit.replay.recording import Array, Integers, NoiseRows, Recording

_TOLERANCE = 1e-6
_MOST_ROWS = 6000
"""Of one block: its pseudoinverse takes memory and time by the square and the cube."""


class UnequalNoiseError(ValueError):
    """The noise of the two runs differs: its deviation, or which draws it is made of, depends on the data."""


def gaussian_mu(first: Recording, second: Recording) -> float:
    """Return mu of the pair, over all releases of both runs; infinite if something moves that no noise covers.

    Raises:
        UnequalNoiseError: the releases are not the same linear forms of draws.
        ValueError: one block of releases that share draws is too large.
    """
    one, two = (_stack([release.rows for release in run.releases]) for run in (first, second))
    if one.value.shape != two.value.shape:
        raise UnequalNoiseError("the runs release different numbers of values")
    _compare(one, two)
    with np.errstate(invalid="ignore"):
        moved = two.value - one.value
    if not np.isfinite(moved).all():
        same = (one.value == two.value) | (np.isnan(one.value) & np.isnan(two.value))
        if not same[~np.isfinite(moved)].all():
            return math.inf
        moved = np.where(np.isfinite(moved), moved, 0.0)
    return math.sqrt(_squares(one, moved))


def _stack(parts: Sequence[NoiseRows]) -> NoiseRows:
    width = max((part.index.shape[-1] for part in parts), default=1)

    def fill(array: Any) -> Any:
        return np.pad(array, ((0, 0), (0, width - array.shape[-1])))

    if not parts:
        return NoiseRows(value=np.zeros(0), index=np.zeros((0, 1), dtype=np.int64), weight=np.zeros((0, 1)))
    return NoiseRows(
        value=np.concatenate([part.value for part in parts]),
        index=np.concatenate([fill(part.index) for part in parts]).astype(np.int64),
        weight=np.concatenate([fill(part.weight) for part in parts]),
    )


def _matrix(rows: NoiseRows) -> coo_array:
    size, width = rows.weight.shape
    place = np.repeat(np.arange(size), width)
    keep = rows.weight.ravel() != 0
    count = int(rows.index.max(initial=0)) + 1
    entries = (rows.weight.ravel()[keep], (place[keep], rows.index.ravel()[keep]))
    return coo_array(entries, shape=(size, count))


def _compare(one: NoiseRows, two: NoiseRows) -> None:
    """Refuse releases whose noise differs by more than rounding."""
    if one.weight.shape == two.weight.shape and np.array_equal(one.index, two.index):
        differs = np.abs(one.weight - two.weight) > _TOLERANCE * np.abs(one.weight)
        if not differs.any():
            return
        place = np.unravel_index(int(np.argmax(differs)), differs.shape)
        raise UnequalNoiseError(
            f"the deviation of noise changes from {abs(one.weight[place]):.4g} to {abs(two.weight[place]):.4g}"
        )
    first, second = (_covariance(rows) for rows in (one, two))
    gap = abs(first - second)
    if gap.nnz and gap.max() > _TOLERANCE * abs(first).max():
        raise UnequalNoiseError("the covariance of what is released changes")


def _covariance(rows: NoiseRows) -> Any:
    """Return A A', which alone is the law of what is released: of how many draws it is made does not show."""
    matrix = _matrix(rows).tocsr()
    return matrix @ matrix.T


def _squares(rows: NoiseRows, moved: Array) -> float:
    matrix = _matrix(rows)
    size = len(rows.value)
    if matrix.nnz == size == len(np.unique(matrix.row)) == len(np.unique(matrix.col)):  # each release has a draw of its own
        weights = np.zeros(size)
        weights[matrix.row] = matrix.data
        return float(np.square(moved / weights).sum())
    graph = coo_array((np.ones(matrix.nnz), (matrix.row, size + matrix.col)), shape=(size + matrix.shape[1],) * 2)
    _, labels = connected_components(graph, directed=False)
    return sum(_block(matrix, moved, *block) for block in _blocks(matrix, labels[:size], labels[size:]))


def _blocks(matrix: coo_array, row_labels: Integers, draw_labels: Integers) -> list[tuple[Integers, Integers]]:
    """Return blocks of the same shape together: rows `(b, m)` and draws `(b, k)` of b blocks."""
    used = np.unique(matrix.col)
    rows, draws = np.argsort(row_labels, kind="stable"), used[np.argsort(draw_labels[used], kind="stable")]
    names, row_counts = np.unique(row_labels, return_counts=True)
    draw_counts = np.array([0] * len(names))
    found, counts = np.unique(draw_labels[used], return_counts=True)
    draw_counts[np.searchsorted(names, found)] = counts
    row_starts, draw_starts = np.cumsum(row_counts) - row_counts, np.cumsum(draw_counts) - draw_counts
    blocks = []
    for shape in np.unique(np.stack([row_counts, draw_counts], axis=1), axis=0):
        chosen = np.flatnonzero((row_counts == shape[0]) & (draw_counts == shape[1]))
        blocks.append(
            (rows[row_starts[chosen, None] + np.arange(shape[0])], draws[draw_starts[chosen, None] + np.arange(shape[1])])
        )
    return blocks


def _block(matrix: coo_array, moved: Array, rows: Integers, draws: Integers) -> float:
    count, m = rows.shape
    if m > _MOST_ROWS:
        raise ValueError(f"{m} released numbers share draws of noise; at most {_MOST_ROWS} can be taken together")
    owner, place, column = (np.zeros(size, dtype=np.int64) for size in (matrix.shape[0], matrix.shape[0], matrix.shape[1]))
    owner[rows], place[rows] = np.arange(count)[:, None], np.arange(m)
    column[draws] = np.arange(draws.shape[1])
    mine = np.isin(matrix.row, rows)
    dense = np.zeros((count, m, draws.shape[1]))
    np.add.at(dense, (owner[matrix.row[mine]], place[matrix.row[mine]], column[matrix.col[mine]]), matrix.data[mine])
    d = moved[rows]
    scale = np.abs(dense).max(axis=-1, initial=0.0)
    scale[scale == 0] = 1.0
    dense, d = dense / scale[..., None], d / scale  # rows in units of their own noise: Adam's are of different sizes
    c = (np.linalg.pinv(dense, rcond=1e-9) @ d[..., None])[..., 0]
    left = np.abs((dense @ c[..., None])[..., 0] - d).max(initial=0.0)
    if left > _TOLERANCE * max(1.0, float(np.abs(d).max(initial=0.0))):
        return math.inf
    return float(np.square(c).sum())

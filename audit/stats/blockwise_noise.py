"""mu of v + A z against v + d + A z for many rows and normal draws z: mu^2 = d' (A A')^+ d, block by block of shared draws.

Rows that share no draw are independent, so the squares of blocks add up; within a block mu is the length of the shortest c
with A c = d, infinite if there is none. In A, given by rows, `index[i, j]` and `weight[i, j]` are draws and their factors (0
fills up).
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from audit.stats.arrays import Array

Integers = NDArray[np.int64]
_TOLERANCE = 1e-6  # of numbers in single precision
_MOST_ROWS = 6000  # of one block: its pseudoinverse takes memory and time by the square and the cube
_MOST_SHARED = 2000  # rows that share draws and are whitened together
_LEAST_ENERGY = 1e-6  # of a direction's noise, of its rows': below it, whitening makes rounding large


def blockwise_mu(index: Integers, weight: Array, moved: Array, size: Array | float = 0.0) -> float:
    """Return mu for a movement d `(m,)`, `index` and `weight` being `(m, w)`; infinite if d is outside of the range of A by
    more than the rounding of numbers of this `size`; `ValueError` if one block of rows that share draws is too large.

    >>> round(blockwise_mu(np.array([[0], [0], [1]]), np.array([[2.0], [2.0], [1.0]]), np.array([1.0, 1.0, 0.0])), 9)
    0.5
    """
    return math.sqrt(_squares(_matrix(index, weight), moved, np.maximum(np.abs(moved), size)))


def find_change(first: tuple[Integers, Array], second: tuple[Integers, Array]) -> str:
    """Return how the law of A z differs between two A by more than rounding, or ""; the number of draws does not show."""
    (one_index, first_rows), (two_index, two) = first, second
    if first_rows.shape == two.shape and np.array_equal(one_index, two_index):
        differs = np.abs(first_rows - two) > _TOLERANCE * np.abs(first_rows)
        if not differs.any():
            return ""
        place = np.unravel_index(int(np.argmax(differs)), differs.shape)
        return f"the deviation of noise changes from {abs(first_rows[place]):.4g} to {abs(two[place]):.4g}"
    covariances = [matrix @ matrix.T for matrix in (_matrix(*side).tocsr() for side in (first, second))]
    gap = abs(covariances[0] - covariances[1])
    changes = gap.nnz and gap.max() > _TOLERANCE * abs(covariances[0]).max()
    return "the covariance of what is released changes" if changes else ""


class Whitening:
    """The map of v + A z to v' + z', with z' standard normal: mu is then the length by which v' moves.

    Rows that share no draw are divided by their deviation; the others are turned to the principal axes of their noise.
    """

    def __init__(self, index: Integers, weight: Array) -> None:
        """Prepare the map of A, given by rows as above.

        Raises:
            ValueError: too many rows share draws, or a direction has next to no noise beside others.
        """
        matrix = _matrix(index, weight).tocsr()
        self._deviation = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
        common = np.flatnonzero(np.bincount(matrix.tocoo().col, minlength=matrix.shape[1]) > 1)
        self._shared = np.flatnonzero(np.asarray(abs(matrix[:, common]).sum(axis=1)).ravel())
        if len(self._shared) > _MOST_SHARED:
            raise ValueError(f"{len(self._shared)} released numbers share draws of noise; at most {_MOST_SHARED} are whitened")
        dense = matrix[self._shared].toarray() / self._deviation[self._shared, None]
        scales, axes = np.linalg.eigh(dense @ dense.T)
        if scales.min(initial=1.0) < _LEAST_ENERGY:
            raise ValueError("in a direction of released numbers there is next to no noise")
        self._turn = (axes / np.sqrt(scales)).T

    @property
    def deviations(self) -> Array | None:
        """The deviation of each row; None if rows share draws."""
        return None if len(self._shared) else self._deviation

    def whiten(self, values: Array) -> Array:
        """Return v' of v, `(m,)`."""
        units: Array = values / self._deviation
        units[self._shared] = self._turn @ units[self._shared]
        return units


def _matrix(index: Integers, weight: Array) -> coo_array:
    size, width = weight.shape
    keep = weight.ravel() != 0
    place = np.repeat(np.arange(size), width)[keep]
    return coo_array((weight.ravel()[keep], (place, index.ravel()[keep])), shape=(size, int(index.max(initial=0)) + 1))


def components(rows: Integers, columns: Integers, shape: tuple[int, int]) -> Integers:
    """Return a label of each row, then of each column of a matrix: equal for those that entries at these places join."""
    size = sum(shape)
    graph = coo_array((np.ones(len(rows)), (rows, shape[0] + columns)), shape=(size, size))
    return np.asarray(connected_components(graph, directed=False)[1])


def _squares(matrix: coo_array, movement: Array, rounded: Array) -> float:
    size = len(movement)
    if matrix.nnz == size and all(np.bincount(places).max(initial=0) <= 1 for places in matrix.coords):  # a draw each
        weights = np.zeros(size)
        weights[matrix.row] = matrix.data
        return float(np.square(movement / weights).sum())
    labels = components(matrix.row, matrix.col, matrix.shape)
    return sum(_block(matrix, (movement, rounded), *block) for block in _blocks(matrix, labels[:size], labels[size:]))


def _blocks(matrix: coo_array, row_labels: Integers, draw_labels: Integers) -> list[tuple[Integers, Integers]]:
    """Return blocks of the same shape together: rows `(b, m)` and draws `(b, k)` of b blocks."""
    columns = np.unique(matrix.col)
    rows, draws = np.argsort(row_labels, kind="stable"), columns[np.argsort(draw_labels[columns], kind="stable")]
    names, row_counts = np.unique(row_labels, return_counts=True)
    draw_counts = np.array([0] * len(names))
    labels, counts = np.unique(draw_labels[columns], return_counts=True)
    draw_counts[np.searchsorted(names, labels)] = counts
    row_starts, draw_starts = np.cumsum(row_counts) - row_counts, np.cumsum(draw_counts) - draw_counts
    blocks = []
    for shape in np.unique(np.stack([row_counts, draw_counts], axis=1), axis=0):
        places = np.flatnonzero((row_counts == shape[0]) & (draw_counts == shape[1]))
        blocks.append(
            (rows[row_starts[places, None] + np.arange(shape[0])], draws[draw_starts[places, None] + np.arange(shape[1])])
        )
    return blocks


def _block(matrix: coo_array, numbers: tuple[Array, Array], rows: Integers, draws: Integers) -> float:
    count, m = rows.shape
    if m > _MOST_ROWS:
        raise ValueError(f"{m} released numbers share draws of noise; at most {_MOST_ROWS} can be taken together")
    owner, place, column = (np.zeros(size, dtype=np.int64) for size in (matrix.shape[0], matrix.shape[0], matrix.shape[1]))
    owner[rows], place[rows] = np.arange(count)[:, None], np.arange(m)
    column[draws] = np.arange(draws.shape[1])
    inside = np.isin(matrix.row, rows)
    dense = np.zeros((count, m, draws.shape[1]))
    np.add.at(dense, (owner[matrix.row[inside]], place[matrix.row[inside]], column[matrix.col[inside]]), matrix.data[inside])
    d, rounded = (part[rows] for part in numbers)
    scale = np.abs(dense).max(axis=-1, initial=0.0)
    scale[scale == 0] = 1.0
    dense, d = dense / scale[..., None], d / scale  # rows in units of their own noise: Adam's are of different sizes
    c = (np.linalg.pinv(dense, rcond=1e-9) @ d[..., None])[..., 0]
    residual = np.abs((dense @ c[..., None])[..., 0] - d).max(initial=0.0)
    if residual > _TOLERANCE * max(1.0, float((rounded / scale).max(initial=0.0))):
        return math.inf
    return float(np.square(c).sum())

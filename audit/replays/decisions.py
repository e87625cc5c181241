"""Paths near decisions: a draw put between the places where a comparison flips on the data and on the neighbour.

A program that compares a released number with its data takes one branch on most paths: only a number between both thresholds
shows it.
"""

from __future__ import annotations

import numpy as np

from audit.replays.recording import EVENT, NUMBER, NoiseRows, Recording

_RANGES = {"normal": (-30.0, 30.0), "laplace": (-30.0, 30.0), "uniform": (0.0, 1.0), "exponential": (0.0, 30.0)}
_MOST_PATHS = 3  # paths of a pair


Runs = tuple[Recording, Recording]


def find_flips(late: Runs, early: Runs) -> list[dict[int, float]]:
    """Return, for some comparisons with an outcome that the data can change, the last draw of it and a value at which they do.

    Earlier draws are left as they were, so that the path up to the comparison stays the same.

    Args:
        late: recordings of the data and the neighbour with noise kept to the end, which shows what is compared.
        early: of the same draws with noise released at the first sum: the neighbour is handed those sums.
    """
    paths: list[dict[int, float]] = []
    for left, right in zip(late[0].releases, late[1].releases, strict=False):
        if left.kind != EVENT or right.kind != EVENT or left.rows.value.shape != right.rows.value.shape:
            continue
        for i in range(len(left.rows.value)):
            flips = [_threshold(side, entry.rows, i) for side, entry in zip(late, (left, right), strict=True)]
            if flips[0] is None or flips[1] is None or flips[0][0] != flips[1][0]:
                continue
            draw = flips[0][0]
            thresholds = np.sort([flips[0][1], flips[1][1] + _shift(early, draw)])
            low, high = np.clip(thresholds, *_RANGES[late[0].laws[draw]])
            if high - low > 1e-9 * (1 + abs(low)):
                paths.append({draw: float((low + high) / 2)})
    if not paths:
        return []
    return [paths[i] for i in np.unique(np.linspace(0, len(paths) - 1, min(_MOST_PATHS, len(paths))).astype(int))]


def _shift(early: Runs, draw: int) -> float:
    """Return by how much of a draw the released sum moves that holds it, 0 if it is released alone."""
    for left, right in zip(early[0].releases, early[1].releases, strict=False):
        if left.kind != NUMBER or left.rows.value.shape != right.rows.value.shape:
            continue
        rows, columns = np.nonzero((left.rows.index == draw) & (left.rows.weight != 0))
        if rows.size:
            movement = right.rows.value[rows[0]] - left.rows.value[rows[0]]
            return float(movement / left.rows.weight[rows[0], columns[0]])
    return 0.0


def _threshold(recording: Recording, rows: NoiseRows, place: int) -> tuple[int, float] | None:
    """Return the last draw of a row and the value of it at which the row is 0, or None if it has none of a known range."""
    index, weight = rows.index[place], rows.weight[place]
    names = index[weight != 0]
    if not names.size or recording.laws[int(names.max())] not in _RANGES:
        return None
    draw = int(names.max())
    own = float(weight[(index == draw) & (weight != 0)].sum())
    rest = float(rows.value[place] + weight @ recording.draws[index]) - own * float(recording.draws[draw])
    return (draw, -rest / own) if own and np.isfinite(rest) else None

"""Attacks by the closest synthetic record: which two halves of a record belong together, what a hidden column holds."""

from collections.abc import Sequence

import numpy as np

from attacks.tables.columns import TableTriple, column_distance, distances
from audit.core.data import Array

TOLERANCE = 0.05  # a number is inferred if the guess is within this share of it


def link_hits(tables: TableTriple, sides: tuple[Sequence[int], Sequence[int]], records: Array, neighbours: int) -> Array:
    """Return whether one synthetic record is among the closest to both sides of a record, `(n,)` bool.

    An attacker holds two tables about the same people, each with its own columns, and joins what is closest to the same
    synthetic record.

    References: Giomi et al. 2023, "A unified framework for quantifying privacy risk in synthetic data", section 4.3.
    """
    closest = [_closest(tables, side, records, neighbours) for side in sides]
    return np.array([bool(set(first) & set(second)) for first, second in zip(*closest, strict=True)])


def link_by_chance(synthetic_records: int, neighbours: int) -> float:
    """The chance that two random sets of so many synthetic records have one in common.

    >>> link_by_chance(100, 1)
    0.01
    """
    free = 1.0
    for drawn in range(neighbours):
        # the next draw misses the first set, too
        free *= max(0, synthetic_records - neighbours - drawn) / (synthetic_records - drawn)
    return round(1 - free, 12)  # a difference of numbers near 1: later digits are rounding


def _closest(tables: TableTriple, places: Sequence[int], records: Array, neighbours: int) -> list[list[int]]:
    rows: list[list[int]] = []
    for _, distance in distances(tables, places, records, tables.synthetic):
        rows += np.argpartition(distance, neighbours - 1, axis=1)[:, :neighbours].tolist()
    return rows


def inference_hits(tables: TableTriple, secrets: Sequence[int], records: Array) -> dict[int, Array]:
    """For each secret column whether the synthetic record that is closest in all others has its value, `(n,)` bool.

    References: Giomi et al. 2023, section 4.4.
    """
    everywhere = range(len(tables.names))
    answers = {secret: np.zeros(len(records), dtype=bool) for secret in secrets}
    for part, total in distances(tables, everywhere, records, tables.synthetic):
        for secret in secrets:
            # the secret column is taken off the sum, in place of one pass over both tables per secret
            remainder = total - column_distance(tables, secret, records[part], tables.synthetic)
            guess = tables.synthetic[np.argmin(remainder, axis=1), secret]
            answers[secret][part] = is_right(tables, secret, guess, records[part, secret])
    return answers


def is_right(tables: TableTriple, place: int, guess: Array, truth: Array) -> Array:
    """Return whether guesses count as the true values: equal categories, numbers within `TOLERANCE`; shapes are broadcast."""
    both_missing = np.isnan(guess) & np.isnan(truth)
    if tables.is_category[place]:
        return np.asarray(guess == truth)
    return np.asarray(both_missing | (np.abs(guess - truth) <= TOLERANCE * np.abs(truth)))


def infer_by_chance(tables: TableTriple, place: int, records: Array) -> float:
    """The chance that a random synthetic record's value counts as right, mean over records."""
    values, counts = np.unique(tables.synthetic[:, place], return_counts=True)
    right = is_right(tables, place, values[None, :], records[:, place, None])
    return float((right * counts).sum(axis=1).mean() / counts.sum())


def closest_distances(tables: TableTriple, records: Array, candidates: Array) -> Array:
    """The distance of each record to the closest candidate, mean over columns, `(n,)`; 0 for a copy."""
    closest = [total.min(axis=1) for _, total in distances(tables, range(len(tables.names)), records, candidates)]
    return np.concatenate(closest) / len(tables.names)

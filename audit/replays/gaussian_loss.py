"""The Gaussian loss of a pair of runs with releases that are linear in normal draws (Dong, Roth and Su 2022, example 1)."""

import math
from collections.abc import Sequence

import numpy as np

from audit.replays.recording import NoiseRows, Recording
from audit.stats.blockwise_noise import blockwise_mu, find_change


class UnequalNoiseError(ValueError):
    """The noise of the two runs differs: its law depends on the data."""


def gaussian_mu(first: Recording, second: Recording) -> float:
    """Return mu of the pair, over all releases of both runs; infinite if something moves that no noise covers.

    Raises:
        UnequalNoiseError: what is released has noise of another law.
        ValueError: one block of releases that share draws is too large.
    """
    first_rows, two = (stack_rows([release.rows for release in run.releases]) for run in (first, second))
    if first_rows.value.shape != two.value.shape:
        raise UnequalNoiseError("the runs release different numbers of values")
    if change := find_change((first_rows.index, first_rows.weight), (two.index, two.weight)):
        raise UnequalNoiseError(change)
    with np.errstate(invalid="ignore"):
        movement = two.value - first_rows.value
    infinite = ~np.isfinite(movement)
    if infinite.any():
        equal = (first_rows.value == two.value) | (np.isnan(first_rows.value) & np.isnan(two.value))
        if not equal[infinite].all():
            return math.inf
        movement = np.where(infinite, 0.0, movement)
    size = np.nan_to_num(np.maximum(np.abs(first_rows.value), np.abs(two.value)), nan=0.0, posinf=0.0)
    return blockwise_mu(first_rows.index, first_rows.weight, movement, size)


def stack_rows(parts: Sequence[NoiseRows]) -> NoiseRows:
    """Return the rows of several, one below the other."""
    width = max((part.index.shape[-1] for part in parts), default=1)
    index, weight = (
        [np.pad(array, ((0, 0), (0, width - array.shape[-1]))) for array in arrays]
        for arrays in ([part.index for part in parts], [part.weight for part in parts])
    )
    return NoiseRows(
        value=np.concatenate([np.zeros(0), *(part.value for part in parts)]),
        index=np.concatenate([np.zeros((0, width), dtype=np.int64), *index]),
        weight=np.concatenate([np.zeros((0, width)), *weight]),
    )

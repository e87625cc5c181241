"""Pairs of a record that takes part in exactly one of T Gaussian releases, drawn uniformly (balls in bins).

With `L = exp((2 x - 1) / (2 sigma^2))`, x being noise, the likelihood ratio of all T outputs is `X = (L_1 + ... + L_T) / T`.
Every hockey-stick divergence is the mean of a convex function of X, and sums of independent variables keep the convex order.
So the pair of a grid that splits each L over two points with its mean kept dominates. From below, cells of outputs are merged
into their mean, which is a post-processing, and the mean is then moved to the grid in the direction that takes from the loss.

References:
    Chua, Ghazi, Harrison, Leeman, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024, arXiv 2412.16802 (the pair).
    Feldman, Shenfeld 2025, arXiv 2502.08202.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr

from audit.stats.curves.loss_pairs import Array, Direction, LossPair
from audit.stats.curves.outcome_cells import OutcomeCells

LEAST_LOG_TAIL = math.log(1e-13)  # smaller deltas drown in what convolutions round (`_ROUND_OFF`)
_POINTS = 1 << 17
_NEGLIGIBLE = 1e-17  # masses from below that are as small as the round-off of convolutions
_ROUND_OFF = 1e-15  # that a convolution may add to a cumulated mass, a squaring


def random_allocation(noise: float, steps: int, direction: Direction, side: str, *, points: int = _POINTS) -> LossPair:
    """Return a pair on the given side of that of one record in one of `steps` releases.

    Args:
        noise: standard deviation over the norm bound of one record.
        steps: at least 2.
        direction: "remove" (P has the record) or "add".
        side: "above" dominates, "below" is dominated.
        points: of the grid of sums.
    """
    sigma = float(noise)
    width = _reach(sigma, steps) / points
    if side == "above":
        present, absent = _split_masses(sigma, width, points)
    else:
        present, absent = _merged_masses(sigma, width, points, 1 if direction == "add" else -1)
    crowd = _power(absent, steps - 1)
    masses = _convolved(crowd, present if direction == "remove" else absent)
    error = _ROUND_OFF * 2 * math.ceil(math.log2(steps) + 1)
    with np.errstate(divide="ignore"):
        losses = np.log(np.arange(points) * width / steps)
    if direction == "add":
        losses = -losses
    beyond = max(0.0, 1 - float(masses.sum()))
    return _above(losses, masses, beyond + error, direction) if side == "above" else _below(losses, masses, beyond, direction)


def _above(losses: Array, masses: Array, beyond: float, direction: Direction) -> LossPair:
    """The pair of outcomes, what lies beyond the grid counted as an infinite loss, or as a small one of the other direction."""
    finite = np.isfinite(losses) & (masses > 0)
    infinite = float(masses[~np.isfinite(losses) & (losses > 0)].sum())
    if direction == "remove":
        infinite += beyond
        losses, masses = losses[finite], masses[finite]
    else:
        losses, masses = losses[finite], masses[finite]
        losses, masses = np.append(losses, losses.min()), np.append(masses, beyond)
    cells = OutcomeCells(float(losses.min()), float(losses.max()))
    cells.add(losses, masses)
    return cells.above(infinite)


def _below(losses: Array, masses: Array, beyond: float, direction: Direction) -> LossPair:
    """The pair of outcomes, what lies beyond the grid at its end, and what is as small as round-off at a loss below all."""
    finite = np.isfinite(losses) & (masses > _NEGLIGIBLE)
    losses, masses = losses[finite], masses[finite]
    low, high = losses.min() - 100.0, losses.max()
    small = max(0.0, 1 - beyond - float(masses.sum()))
    cells = OutcomeCells(float(low), float(high))
    cells.add(losses, masses)
    at_ends = (small, beyond) if direction == "remove" else (small + beyond, 0.0)
    cells.add(np.array([low, high]), np.array(at_ends))
    return cells.below()


def _reach(sigma: float, steps: int) -> float:
    """Sums that the grid covers: those of all others, and one likelihood ratio that is about as large as ever."""
    deviation = math.sqrt(steps * math.expm1(min(1 / sigma**2, 60.0)))
    largest = math.exp(min(1 / (2 * sigma**2) + 7 / sigma, 60.0))
    return steps + 8 * min(deviation, 4.0 * steps) + min(largest, 1e3 * steps)


def _masses_below(values: Array, sigma: float) -> tuple[Array, Array]:
    """Chance that L is below each value, with the record in the release and without."""
    with np.errstate(divide="ignore"):
        place = sigma * np.log(values)  # of x, less 1 / (2 sigma), over sigma
    return ndtr(place - 1 / (2 * sigma)), ndtr(place + 1 / (2 * sigma))


def _split_masses(sigma: float, width: float, points: int) -> tuple[Array, Array]:
    """Masses on multiples of `width`, with the record and without, every L split over the two points around it."""
    ends = np.asarray(np.arange(points + 1) * width, dtype=np.float64)
    present, absent = (np.diff(masses) for masses in _masses_below(ends, sigma))
    # of Q-mass q and P-mass p = mean * q in [a, a + w], the upper point takes (p - a q) / w, whose P-mass is that times a + w
    upper = np.clip((present - ends[:-1] * absent) / width, 0.0, absent)
    masses = absent - upper
    masses[1:] += upper[:-1]
    return masses * ends[:-1], masses


def _merged_masses(sigma: float, width: float, points: int, way: int) -> tuple[Array, Array]:
    """Masses on multiples of `width` of cells around them, whose means are moved down (way -1) or up to the grid."""
    centres = np.arange(points) * width
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(centres + 0.5 * width)
    slope = -(1 + sigma**2 * (logs + 1 / (2 * sigma**2))) / (centres + 0.5 * width)  # of the logarithm of L's density
    # how far a cell's mean lies below its middle; without moving the ends by it most means would be rounded by a whole step
    lean = np.clip(-(width**2) * slope / 12, -0.4 * width, 0.4 * width)
    margin = np.maximum(-way * lean, 0.0) * (1 + 1e-3) + 1e-9 * width
    ends = np.concatenate([[0.0], centres[:-1] + 0.5 * width - way * margin[:-1], [points * width]])
    present, absent = (np.diff(masses) for masses in _masses_below(ends, sigma))
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(absent > 0, present / absent, centres)
    place = (np.floor if way < 0 else np.ceil)(np.maximum(means / width, 0)).astype(np.int64)
    on_grid = place < points  # a mean that is moved up may leave the grid
    masses = [np.bincount(place[on_grid], amount[on_grid], points) for amount in (present, absent)]
    return np.asarray(masses[0], dtype=np.float64), np.asarray(masses[1], dtype=np.float64)


def _convolved(first: Array, second: Array) -> Array:
    """Masses of the sum, those beyond the grid dropped."""
    size = next_fast_len(len(first) + len(second), real=True)
    product = irfft(rfft(first, size) * rfft(second, size), size)[: len(first)]
    return np.asarray(np.maximum(product, 0.0), dtype=np.float64)


def _power(masses: Array, count: int) -> Array:
    result, square = None, masses
    while count:
        if count & 1:
            result = square if result is None else _convolved(result, square)
        count >>= 1
        if count:
            square = _convolved(square, square)
    return masses if result is None else result

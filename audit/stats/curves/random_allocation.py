"""Pairs of a record that takes part in exactly one of T Gaussian releases, drawn uniformly (balls in bins).

With `L = exp((2 x - 1) / (2 sigma^2))`, x being noise, the likelihood ratio of all T outputs is `X = (L_1 + ... + L_T) / T`.
Every hockey-stick divergence is the mean of a convex function of X, and sums of independent variables keep the convex order.
So the pair of a grid that splits each L over two points with its mean kept dominates. From below, cells of outputs are merged
into their mean, which is a post-processing, and the mean is then moved to the grid in the direction that takes from the loss.

Round-off of masses and convolutions has an absolute size, and every doubling of the number of places doubles what was there.
A bound on the sum of all of it is carried along. From above so much mass is moved from the smallest losses to an infinite one;
from below, from the largest losses to a smallest one. As no sum of masses over large losses is off by more, either pair stays
on its side. If the bound reaches the delta that is asked for, there is no pair.

References:
    Chua, Ghazi, Harrison, Leeman, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024, arXiv 2412.16802 (the pair).
    Feldman, Shenfeld 2025, arXiv 2502.08202.
    Higham 2002, "Accuracy and Stability of Numerical Algorithms", Theorem 24.2 (round-off of an FFT in the Euclidean norm).
"""

import math

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr

from audit.stats.arrays import Array
from audit.stats.curves.loss_pairs import Direction, LossPair
from audit.stats.curves.outcome_cells import OutcomeCells

Rounded = tuple[Array, float]  # masses, and a bound on the sum of the absolute errors that round-off left in them
_POINTS = 1 << 17
_NEGLIGIBLE = 1e-17  # masses from below that are not worth a cell
_UNIT = 2.0**-53
_FFT_LEVEL = 7.0  # units of round-off that one level of a transform may add, relative to the Euclidean norm
_ULPS = 16.0  # units of round-off of a mass in sums, densities and normal tails, times what amplifies them
_NARROW = 0.5  # over which densities and likelihood ratios are smooth enough for the rule of `_NODES` nodes
_NODES = 8


def random_allocation(
    noise: float, steps: int, direction: Direction, side: str, *, resolution: float = 1.0, points: int = _POINTS
) -> LossPair:
    """Return a pair on the given side of that of one record in one of `steps` releases; `ArithmeticError` if the bound on
    round-off is not below `resolution`.

    Args:
        noise: standard deviation over the norm bound of one record.
        direction: "remove" (P has the record) or "add".
        side: "above" dominates, "below" is dominated.
        resolution: probability that the bound on round-off has to stay below.
    """
    sigma = float(noise)
    width = _reach(sigma, steps) / points
    if side == "above":
        present, absent = _split_masses(sigma, width, points)
    else:
        present, absent = _merged_masses(sigma, width, points, 1 if direction == "add" else -1)
    crowd = _power(absent, steps - 1)
    masses, error = _convolution(crowd, present if direction == "remove" else absent)
    if not error < resolution:
        raise ArithmeticError(
            f"a random allocation of {steps} places with noise {sigma:g} is summed with round-off of up to {error:.2g}, "
            f"which does not resolve {resolution:.2g} a step; use a larger delta or fewer steps"
        )
    with np.errstate(divide="ignore"):
        losses = np.log(np.arange(points) * width / steps)
    if direction == "add":
        losses = -losses
    return (_above if side == "above" else _below)(losses, masses, error, direction)


def _above(losses: Array, masses: Array, error: float, direction: Direction) -> LossPair:
    """The pair of outcomes, round-off and what is beyond the grid counted as an infinite loss (beyond: or as a small one)."""
    beyond = max(0.0, 1 - float(masses.sum()))
    finite = np.isfinite(losses)
    infinite = error + float(masses[~finite & (losses > 0)].sum()) + (beyond if direction == "remove" else 0.0)
    losses, masses = _from_the_top(losses[finite], masses[finite])
    masses = _topmost(masses, max(1 - infinite, 0.0))
    losses, masses = losses[masses > 0], masses[masses > 0]
    low, high = (float(losses[-1]), float(losses[0])) if len(losses) else (0.0, 0.0)  # the grid reaches below a loss of 0
    cells = OutcomeCells(low, high)
    cells.add(losses, masses)
    cells.add(np.array([low]), np.array([max(1 - infinite - float(masses.sum()), 0.0)]))
    return cells.above(min(infinite, 1.0))


def _below(losses: Array, masses: Array, error: float, direction: Direction) -> LossPair:
    """The pair of outcomes, what is beyond the grid at its end, and round-off at a loss below all."""
    beyond = max(0.0, 1 - float(masses.sum())) if direction == "remove" else 0.0
    is_heavy = np.isfinite(losses) & (masses > _NEGLIGIBLE)
    end = losses[-1]
    losses, masses = _from_the_top(losses[is_heavy], masses[is_heavy])
    losses, masses = np.append(end, losses), np.append(beyond, masses)
    masses = masses - _topmost(masses, error)
    losses, masses = losses[masses > 0], masses[masses > 0]
    low = float(losses.min(initial=0.0)) - 100.0
    cells = OutcomeCells(low, float(losses.max(initial=low)))
    cells.add(losses, masses)
    cells.add(np.array([low]), np.array([max(1 - float(masses.sum()), 0.0)]))
    return cells.below()


def _from_the_top(losses: Array, masses: Array) -> tuple[Array, Array]:
    order = np.argsort(-losses, kind="stable")
    return losses[order], masses[order]


def _topmost(masses: Array, amount: float) -> Array:
    """Return what the first masses are that add up to `amount`, the last of them in part."""
    before = np.concatenate([[0.0], np.cumsum(masses)[:-1]])
    return np.asarray(np.clip(amount - before, 0.0, masses), dtype=np.float64)


def _reach(sigma: float, steps: int) -> float:
    """Sums that the grid covers: those of all others, and one likelihood ratio that is about as large as ever."""
    deviation = math.sqrt(steps * math.expm1(min(1 / sigma**2, 60.0)))
    largest = math.exp(min(1 / (2 * sigma**2) + 7 / sigma, 60.0))
    return steps + 8 * min(deviation, 4.0 * steps) + min(largest, 1e3 * steps)


def _cells(ends: Array, sigma: float) -> tuple[Rounded, Rounded, Array]:
    """Masses of L between consecutive ends, with the record and without, and the former less the lower end times the latter.

    In a cell over which densities hardly bend they are sums over nodes, as differences of normal tails would cancel.
    """
    first, right = ends[:-1], ends[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        place = sigma * np.log(ends) + 1 / (2 * sigma)  # standard normal without the record
        length = sigma * np.log1p((right - first) / first)
    present, absent = _between(place - 1 / sigma), _between(place)
    excess = present - first * absent
    near = np.minimum(np.abs(place[:-1]), np.abs(place[1:]))
    is_narrow = length * (1 + near + 1 / sigma) <= _NARROW
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    half = length[is_narrow, None] / 2
    way = half * (1 + nodes)
    density = half * weights * np.exp(-((place[:-1][is_narrow, None] + way) ** 2) / 2) / math.sqrt(2 * math.pi)
    absent[is_narrow] = density.sum(axis=1)
    excess[is_narrow] = first[is_narrow] * (density * np.expm1(way / sigma)).sum(axis=1)
    present[is_narrow] = first[is_narrow] * absent[is_narrow] + excess[is_narrow]
    with np.errstate(divide="ignore", invalid="ignore"):
        amplification = np.where(
            is_narrow, 1.0, 1 + first / (right - first)
        )  # by which a split amplifies the error of a difference
    ulps = _ULPS * _UNIT * (1 + (near + 1 / sigma) ** 2) * amplification
    return (present, float(ulps @ present)), (absent, float(ulps @ absent)), excess


def _between(place: Array) -> Array:
    """Standard normal mass between consecutive places, of whichever tails are the smaller."""
    low, high = place[:-1], place[1:]
    return np.asarray(np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)), dtype=np.float64)


def _split_masses(sigma: float, width: float, points: int) -> tuple[Rounded, Rounded]:
    """Masses on multiples of `width`, with the record and without, every L split over the two points around it."""
    ends = np.asarray(np.arange(points + 1) * width, dtype=np.float64)
    (_, present_error), (absent, absent_error), excess = _cells(ends, sigma)
    # of Q-mass q and P-mass p = mean * q in [a, a + w], the upper point takes (p - a q) / w, whose P-mass is that times a + w
    upper = np.clip(excess / width, 0.0, absent)
    masses = absent - upper
    masses[1:] += upper[:-1]
    return (masses * ends[:-1], 2 * present_error), (masses, 2 * absent_error)


def _merged_masses(sigma: float, width: float, points: int, way: int) -> tuple[Rounded, Rounded]:
    """Masses on multiples of `width` of cells around them, with means moved down (way -1) or up to the grid."""
    centres = np.arange(points) * width
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(centres + 0.5 * width)
    slope = -(1 + sigma**2 * (logs + 1 / (2 * sigma**2))) / (centres + 0.5 * width)  # of the logarithm of L's density
    # how far a cell's mean is below its middle; without moving the ends by it most means would be rounded by a whole step
    lean = np.clip(-(width**2) * slope / 12, -0.4 * width, 0.4 * width)
    margin = np.maximum(-way * lean, 0.0) * (1 + 1e-3) + 1e-9 * width
    ends = np.concatenate([[0.0], centres[:-1] + 0.5 * width - way * margin[:-1], [points * width]])
    (present, present_error), (absent, absent_error), _ = _cells(ends, sigma)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(absent > 0, present / absent, centres)
    place = (np.floor if way < 0 else np.ceil)(np.maximum(means / width, 0)).astype(np.int64)
    on_grid = place < points  # a mean that is moved up may leave the grid
    masses = [np.bincount(place[on_grid], amount[on_grid], points).astype(np.float64) for amount in (present, absent)]
    return (masses[0], present_error), (masses[1], absent_error)


def _convolution(first: Rounded, second: Rounded) -> Rounded:
    """Masses of the sum, those beyond the grid dropped."""
    (lhs, left_error), (right, right_error) = first, second
    size = next_fast_len(len(lhs) + len(right), real=True)
    product = np.maximum(irfft(rfft(lhs, size) * rfft(right, size), size)[: len(lhs)], 0.0)
    relative = _FFT_LEVEL * _UNIT * math.log2(size)
    norms = [float(np.linalg.norm(masses)) for masses in (lhs, right, product)]
    sums = float(lhs.sum()), float(right.sum())
    transforms = relative * (norms[0] * sums[1] + norms[1] * sums[0] + norms[2]) * (1 + 1e-9)
    error = left_error * sums[1] + right_error * sums[0] + left_error * right_error + math.sqrt(len(product)) * transforms
    return np.asarray(product, dtype=np.float64), error


def _power(masses: Rounded, count: int) -> Rounded:
    result, square = None, masses
    while count:
        if count & 1:
            result = square if result is None else _convolution(result, square)
        count >>= 1
        if count:
            square = _convolution(square, square)
    return masses if result is None else result

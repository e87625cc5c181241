"""Exact tests of the law of DP noise: its variance, its shape, its independence, its resolution."""

import math

import numpy as np
from scipy import special

from audit.stats.arrays import Array


def variance_tail(noise: Array, deviation: float) -> float:
    """Two-sided p-value that independent normal numbers have that standard deviation and mean zero.

    The sum of squares over the variance is chi-square with one degree of freedom per number.

    >>> variance_tail(np.full(200, 2.0), 1.0) < 1e-12
    True
    """
    statistic = float(np.sum(np.square(noise / deviation)))
    half = noise.size / 2
    lower, upper = float(special.gammainc(half, statistic / 2)), float(special.gammaincc(half, statistic / 2))
    return min(1.0, 2 * min(lower, upper))


def estimate_quantile(freedom: int, dimensions: int, significance: float) -> float:
    """Return the quantile of x' S^-1 x by a true covariance over that by an estimated one, of normal vectors (Wishart).

    Args:
        freedom: vectors behind the estimate, less one for a mean that was taken off.
        dimensions: of a vector, at most `freedom`.
    """
    return 2 * float(special.gammaincinv((freedom - dimensions + 1) / 2, significance)) / freedom


def normal_tail(z: Array, slack: float = 0.0) -> float:
    """P-value of the Kolmogorov-Smirnov test that independent numbers are standard normal.

    Uses the distribution-free bound of Massart (1990), 2 exp(-2 n D^2), which holds for every n, of the distance D beyond
    `slack`, which rounding may cause.
    """
    ascending = np.sort(z)
    cdf = special.ndtr(ascending)
    ranks = np.arange(1, ascending.size + 1) / ascending.size
    distance = float(max(np.max(ranks - cdf), np.max(cdf - ranks + 1 / ascending.size)))
    return min(1.0, 2 * math.exp(-2 * ascending.size * max(0.0, distance - slack) ** 2))


def extreme_tail(z: Array) -> float:
    """Two-sided p-value of the largest absolute value among independent standard normal numbers.

    >>> extreme_tail(np.linspace(-1.7, 1.7, 5000)) < 1e-9
    True
    """
    largest = float(np.max(np.abs(z)))
    # in logarithms: the chance that all are inside is 1 in doubles if the largest is rare
    log_inside = z.size * math.log1p(-2 * float(special.ndtr(-largest)))
    return min(1.0, 2 * min(math.exp(log_inside), -math.expm1(log_inside)))


def unseen_bound(count: int, significance: float) -> float:
    """Return how far normal noise may be cut off, in deviations, before `extreme_tail` of so many numbers misses it.

    A largest value of c fails if (1 - 2 Phi(-c))^count is at most half the significance.

    >>> round(unseen_bound(4000, 1e-9), 2), round(unseen_bound(1_000_000, 1e-9), 2)
    (2.79, 4.25)
    """
    outside = -math.expm1(math.log(significance / 2) / count)
    return -float(special.ndtri(outside / 2))


def correlation_tail(first: Array, second: Array) -> float:
    """Two-sided p-value that two samples of independent normal numbers are uncorrelated (Student's t of Pearson's r)."""
    n = first.size
    first_residual, second_residual = first - first.mean(), second - second.mean()
    scale = math.sqrt(float(np.sum(first_residual**2)) * float(np.sum(second_residual**2)))
    if scale == 0:
        return 0.0
    r = min(1.0, abs(float(np.sum(first_residual * second_residual))) / scale)
    return float(special.betainc((n - 2) / 2, 0.5, 1 - r * r))


def twins_tail(noise: Array, rounding: Array | float = 0.0) -> float:
    """P-value that no two columns of independent normal numbers `(n, columns)` are multiples of each other; 1 below 5 rows.

    Rounding leaves columns of few rows only few directions, and some meet by chance. So each is turned towards its neighbour by
    as much as `rounding`, the most that a number of it `(columns,)` is off by, may have turned it away.

    Columns are sorted by the ratio of their first two rows, so that multiples are neighbours. The other rows say nothing of
    that order, so Student's tests of neighbours on them are exact, and those of pairs that share no column are independent.
    The smallest of them finds a single pair, Fisher's sum of their logarithms many of them on few rows.

    >>> stream = np.random.default_rng(0)
    >>> independent = stream.normal(size=(20, 50))
    >>> twins_tail(independent) > 1e-3, twins_tail(np.concatenate([independent, -independent[:, :1]], axis=1)) < 1e-9
    (True, True)
    """
    rows = len(noise) - 2
    if rows < 3 or noise.shape[1] < 2:
        return 1.0
    order = np.argsort(np.arctan2(noise[0], noise[1]) % math.pi)
    remainder = noise[2:, order]
    remainder = remainder - remainder.mean(0)
    lengths = np.sqrt(np.sum(remainder**2, axis=0))
    errors = math.sqrt(rows) * np.broadcast_to(rounding, noise.shape[1:])[order]
    turns = np.arcsin(np.clip(errors / np.where(lengths > 0, lengths, 1.0), 0.0, 1.0))
    tails = [1.0]
    # each column beside its right neighbour, then beside its left one: pairs of one turn share no column
    for start in range(min(2, noise.shape[1] - 1)):
        count = (noise.shape[1] - start) // 2
        sides = [slice(start + side, start + 2 * count, 2) for side in (0, 1)]
        first, right = (remainder[:, side] for side in sides)
        scales = lengths[sides[0]] * lengths[sides[1]]
        cosines = np.abs(np.sum(first * right, axis=0)) / np.where(scales > 0, scales, 1.0)
        angles = np.minimum(np.arccos(np.clip(cosines, 0.0, 1.0)) + turns[sides[0]] + turns[sides[1]], math.pi / 2)
        # the mean took one dimension of `rows`
        pairs = np.asarray(special.betainc((rows - 2) / 2, 0.5, np.sin(angles) ** 2))
        smallest = -math.expm1(count * math.log1p(-min(float(pairs.min()), 1 - 1e-12)))
        together = float(special.gammaincc(count, -np.sum(np.log(np.maximum(pairs, 1e-300)))))
        # Bonferroni over two turns of two tests
        tails += [4 * smallest, 4 * together]
    return min(tails)


def nearest_tail(noise: Array, rounding: Array | float = 0.0) -> float:
    """P-value that no two rows of independent standard normal numbers `(n, columns)` are equal, or one minus the other.

    The squared distance of two rows, and that of one to minus the other, is twice a chi-square of as many degrees as columns;
    the smallest of all pairs is compared with the sum over pairs, grown by what `rounding`, of each column or of all, may take
    away.

    >>> stream = np.random.default_rng(0)
    >>> independent = stream.normal(size=(50, 20))
    >>> nearest_tail(independent) > 1e-3, nearest_tail(np.concatenate([independent, -independent[:1]])) < 1e-9
    (True, True)
    """
    count, columns = noise.shape
    if count < 2:
        return 1.0
    squares = np.sum(noise**2, axis=1)
    products = np.abs(noise @ noise.T)[np.triu_indices(count, 1)]
    sums = (squares[:, None] + squares)[np.triu_indices(count, 1)]
    nearest = math.sqrt(max(float(np.min(sums - 2 * products)), 0.0))
    distance = nearest + 2 * math.sqrt(float(np.sum(np.square(np.broadcast_to(rounding, columns)))))
    return min(1.0, 2 * len(sums) * float(special.gammainc(columns / 2, distance**2 / 4)))


def lattice_bits(values: Array, formats: tuple[int, ...] = (8, 11)) -> int | None:
    """Number of mantissa bits of the coarsest floating-point format that holds every value, or None.

    Args:
        formats: significant bits of the formats to try (8: bfloat16, 11: float16), coarse first.

    >>> lattice_bits(np.float16(np.random.default_rng(0).normal(size=50)).astype(float))
    11
    """
    size = np.abs(values)
    large = values[(size > 0) & (size >= 0.1 * size.max(initial=0.0))]  # a sum in single precision rounds small noise off
    # ten continuous numbers all are within 2^-7 of a step of the grid of float16 with chance 2^-60; fewer might by luck
    if large.size < 10:
        return None
    mantissa, _ = np.frexp(large)
    for bits in formats:
        grid = mantissa * 2.0**bits
        if np.all(np.abs(grid - np.round(grid)) <= 2.0 ** (bits - 18)):
            return bits
    return None

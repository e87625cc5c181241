"""Figures for epsilon that carry no guarantee: for comparison with other tools only, never against a claim."""

import math

import numpy as np
from scipy import special

from audit.stats.arrays import Array
from audit.stats.bounds import roots
from audit.stats.bounds.binomial import rates_epsilon

NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)
PRIOR = 0.5  # Jeffreys


def best_counts(members: Array, nonmembers: Array) -> tuple[int, int]:
    """`(false positives, missed members)` at the threshold of highest balanced accuracy on these very scores.

    >>> best_counts(np.array([2.0, 3.0]), np.array([0.0, 1.0]))
    (0, 0)
    """
    cuts = np.unique(np.concatenate([members, nonmembers]))
    false = len(nonmembers) - np.searchsorted(np.sort(nonmembers), cuts, side="left")
    false_negatives = np.searchsorted(np.sort(members), cuts, side="left")
    at = int(np.argmin(false / len(nonmembers) + false_negatives / len(members)))
    return int(false[at]), int(false_negatives[at])


def jeffreys(false: int, false_negatives: int, sides: tuple[int, int], delta: float, significance: float) -> float:
    """Epsilon from Jeffreys upper limits on both error rates at one threshold, chosen on the same scores.

    Args:
        sides: numbers of members and of nonmembers.
    """
    members, nonmembers = sides
    level = 1 - significance / 2
    fpr = special.betaincinv(false + PRIOR, nonmembers - false + PRIOR, level)
    fnr = special.betaincinv(false_negatives + PRIOR, members - false_negatives + PRIOR, level)
    return float(rates_epsilon(fpr, fnr, delta))


def joint_beta(false: int, false_negatives: int, sides: tuple[int, int], delta: float, significance: float) -> float:
    """The epsilon below which both error rates are with posterior probability `significance` (Jeffreys priors).

    A credible bound: its error rate over repeated audits can reach `significance (1 + ln(1 / significance))` and more.

    References: Zanella-Beguelin et al. 2023, arXiv 2206.05199, here as a one-dimensional integral.
    """
    members, nonmembers = sides
    first, second = false_negatives + PRIOR, members - false_negatives + PRIOR
    levels = np.concatenate([[1e-12], np.linspace(0, 1, 9)[1:-1], [1 - 1e-12]])
    edges = special.betaincinv(first, second, levels)
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    fnr = (middle[:, None] + half[:, None] * NODES).ravel()
    density = special.xlogy(first - 1, fnr) + special.xlog1py(second - 1, -fnr) - special.betaln(first, second)
    weight = (half[:, None] * WEIGHTS).ravel() * np.exp(density)

    def rejects(epsilon: float) -> bool:
        factor = math.exp(min(epsilon, 700.0))
        low = np.maximum(0.0, np.maximum(1 - delta - factor * fnr, (1 - delta - fnr) / factor))
        high = np.minimum(1.0, np.minimum(factor * (1 - fnr) + delta, 1 - (fnr - delta) / factor))
        law = (false + PRIOR, nonmembers - false + PRIOR)
        inside = special.betainc(*law, np.clip(high, 0, 1)) - special.betainc(*law, np.clip(low, 0, 1))
        return float(weight @ np.maximum(inside, 0)) <= significance

    return roots.last_rejected(rejects, largest=60.0, resolution=1e-6)


def plug_in(false: int, false_negatives: int, sides: tuple[int, int], delta: float) -> float:
    """Epsilon of the observed rates, each count raised by one half."""
    members, nonmembers = sides
    return float(rates_epsilon((false + 0.5) / (nonmembers + 1), (false_negatives + 0.5) / (members + 1), delta))


def bootstrap(
    members: Array, nonmembers: Array, delta: float, generator: np.random.Generator, resamples: int = 200
) -> tuple[float, float]:
    """The 5 % and 95 % quantile of `plug_in` over resampled scores, the threshold chosen anew each time."""
    estimates = []
    for _ in range(resamples):
        resample = generator.choice(members, len(members)), generator.choice(nonmembers, len(nonmembers))
        false, false_negatives = best_counts(*resample)
        estimates.append(plug_in(false, false_negatives, (len(members), len(nonmembers)), delta))
    low, high = np.quantile(estimates, [0.05, 0.95])
    return float(low), float(high)


LARGEST = 100.0  # epsilon; far above what any number of canaries could show
FEWEST = 10  # scores of each side, below which a deviation says nothing


def gaussian_epsilon(members: Array, nonmembers: Array, delta: float) -> float | None:
    """Return the epsilon at `delta` between normal laws fitted to both sides; None for fewer than `FEWEST` scores of a side,
    or infinite ones; infinite beyond `LARGEST`.

    Biased upward if epsilon is small: at delta 1e-6 a true epsilon of 1 reads 1.9 with 1,000 scores and 4.3 with 100, on
    average.

    References:
        Andrew et al. 2023, arXiv 2302.03098, algorithm 3, with fitted nonmembers in place of the law of a random direction.

    >>> round(gaussian_epsilon(np.array([1.0, 3.0] * 50), np.array([0.0, 2.0] * 50), 1e-5), 2)
    4.35
    """
    if min(len(members), len(nonmembers)) < FEWEST or not np.isfinite(np.concatenate([members, nonmembers])).all():
        return None
    laws = [(float(np.mean(side)), float(np.std(side, ddof=1))) for side in (members, nonmembers)]
    if min(deviation for _, deviation in laws) == 0:
        return 0.0 if laws[0] == laws[1] else math.inf

    def exceeds(value: float) -> bool:
        return max(_divergence(laws[0], laws[1], value), _divergence(laws[1], laws[0], value)) > delta

    return math.inf if exceeds(LARGEST) else roots.last_rejected(exceeds, largest=LARGEST, resolution=1e-4)


def _divergence(first: tuple[float, float], second: tuple[float, float], value: float) -> float:
    """Return the hockey-stick divergence of one normal law from another at `e^value`: the likelihood ratio is a parabola."""
    (mean, deviation), (other_mean, other_deviation) = first, second
    square = 0.5 * (other_deviation**-2 - deviation**-2)
    line = mean / deviation**2 - other_mean / other_deviation**2
    constant = 0.5 * ((other_mean / other_deviation) ** 2 - (mean / deviation) ** 2) + math.log(other_deviation / deviation)
    pieces = _above(square, line, constant - value)
    mass = sum(_mass(first, low, high) for low, high in pieces)
    other_mass = sum(_mass(second, low, high) for low, high in pieces)
    return max(0.0, mass - math.exp(min(value, 700.0)) * other_mass)


def _above(square: float, line: float, constant: float) -> list[tuple[float, float]]:
    """Return the intervals on which a parabola is positive."""
    if square == 0:
        if line == 0:
            return [(-math.inf, math.inf)] if constant > 0 else []
        root = -constant / line
        return [(root, math.inf)] if line > 0 else [(-math.inf, root)]
    discriminant = line**2 - 4 * square * constant
    if discriminant <= 0:
        return [(-math.inf, math.inf)] if square > 0 else []
    # the root that does not cancel first, the other from their product
    stable = -0.5 * (line + math.copysign(math.sqrt(discriminant), line))
    low, high = sorted((stable / square, constant / stable if stable else 0.0))
    return [(-math.inf, low), (high, math.inf)] if square > 0 else [(low, high)]


def _mass(law: tuple[float, float], low: float, high: float) -> float:
    """Return the chance of an interval, from the tail in which it is."""
    mean, deviation = law
    first, last = (low - mean) / deviation, (high - mean) / deviation
    if first > 0:
        first, last = -last, -first
    return float(special.ndtr(last) - special.ndtr(first))

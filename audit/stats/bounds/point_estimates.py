"""Figures for epsilon that carry no guarantee: for comparison with other tools only, never against a claim."""

import math

import numpy as np
from scipy import special

from audit.stats.bounds import roots
from audit.stats.bounds.binomial import rates_epsilon
from audit.stats.bounds.validation import Array

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

"""Guesses in one run compared with a whole trade-off function.

References: Mahloujifar, Melis and Chaudhuri 2024, arXiv 2410.22235 (their recursion for k = 2 hypotheses per canary).
"""

from collections.abc import Callable

import numpy as np
from scipy import special

from audit.stats.arrays import Array, Counts
from audit.stats.curves.tradeoff import Family

POINTS = 17  # parameters tried side by side in one pass
PASSES = 5
MOST_GUESSES = 20_000

# `(parameters, rates)` to the FPR at which each parameter's curve reaches the rate; decreasing in the parameter
Inverse = Callable[[Array, Array], Array]


def gdp_inverse(mu: Array, rate: Array) -> Array:
    """The false positive rate at which the mu-GDP curve reaches `rate`."""
    return np.asarray(special.ndtr(special.ndtri(rate) - mu))


def curve_inverse(family: Family) -> Inverse:
    """The same for a family of symmetric curves."""

    def inverse(parameters: Array, rate: Array) -> Array:
        pairs = zip(parameters.tolist(), rate, strict=True)
        return np.array([1 - float(family(parameter).tnr(1 - tpr)) for parameter, tpr in pairs])

    return inverse


def refutes_parameters(
    parameters: Array, inverse: Inverse, *, guesses: int, correct: int, coins: int, significance: float
) -> Array:
    """`(p,)`: whether `correct` of `guesses` right refutes the curve of each parameter.

    So many right guesses are given a chance of `significance`, which forces chances of fewer ones: refuted if they exceed one.

    Guarantee: a true curve is refuted with probability at most `significance`, for independent fair coins and a number of
        guesses fixed beforehand, whatever the dependence between scores (the main theorem of the reference).
    """
    hit_mass = np.full(len(parameters), significance * correct / coins)
    false_negatives = np.full(len(parameters), significance * (guesses - correct) / coins)
    limit = guesses / coins
    for hits in range(correct - 1, -1, -1):
        forced_mass = np.maximum(false_negatives, inverse(parameters, np.minimum(hit_mass, 1.0)))
        hit_mass = hit_mass + hits / (guesses - hits) * (forced_mass - false_negatives)
        false_negatives = forced_mass
        if (hit_mass + false_negatives > limit).all():
            break
    return np.asarray(hit_mass + false_negatives > limit)


def refutes(inverse: Inverse, guesses: Counts, correct: Counts, *, coins: int, significance: float, parameter: float) -> bool:
    """True if one of the pre-registered counts refutes the curve of `parameter`.

    Guarantee: refutes a true curve with probability at most `significance` (Bonferroni over the counts).
    """
    level, parameters = significance / max(len(guesses), 1), np.array([parameter])
    return any(
        2 * right > count
        and refutes_parameters(parameters, inverse, guesses=count, correct=right, coins=coins, significance=level)[0]
        for count, right in zip(guesses.tolist(), correct.tolist(), strict=True)
    )


def bound(
    inverse: Inverse, guesses: Counts, correct: Counts, *, coins: int, significance: float, largest: float = 40.0
) -> tuple[float, int]:
    """The largest parameter that one of the pre-registered counts refutes, and that count's index (-1 for none).

    Guarantee: exceeds the true parameter with probability at most `significance` (Bonferroni over the counts).
    """
    level, best, index = significance / max(len(guesses), 1), 0.0, -1
    for j, (count, right) in enumerate(zip(guesses.tolist(), correct.tolist(), strict=True)):
        if 2 * right <= count:
            continue

        def rejects(parameters: Array, count: int = count, right: int = right) -> Array:
            return refutes_parameters(parameters, inverse, guesses=count, correct=right, coins=coins, significance=level)

        if rejects(np.array([best]))[0]:
            best, index = _refine(rejects, best, largest), j
    return best, index


def _refine(rejects: Callable[[Array], Array], low: float, high: float) -> float:
    """The end of the initial run of refuted parameters in `[low, high]`, from below."""
    for spacing in ("ratio", *["even"] * (PASSES - 1)):
        grid = low + np.geomspace(1e-3, high - low, POINTS) if spacing == "ratio" else np.linspace(low, high, POINTS + 1)[1:]
        accepted_points = np.flatnonzero(np.logical_not(rejects(grid)))
        if len(accepted_points) == 0:
            return float(grid[-1])
        first = int(accepted_points[0])
        low, high = (float(grid[first - 1]) if first else low), float(grid[first])
    return low

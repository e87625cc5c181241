"""The cost of distinguishing two linear forms of noise: `v + A z` and `v' + A' z` for independent draws `z`
(docs/theory/replay.md)."""

import math

import numpy as np
from scipy.optimize import linprog

from audit.stats.arrays import Array

_ROUNDING = 1e-9  # relative: a movement outside of the range by less is rounding
_ORDERS = 1 + np.geomspace(1e-2, 400.0, 120)


def gaussian_mu(weights: Array, movement: Array) -> float:
    """Return mu of `v + A z` against `v + d + A z` for normal draws: `sqrt(d' (A A')^+ d)`; infinite if d is outside the
    range of A.

    Args:
        weights: A, `(m, k)`.
        movement: d, `(m,)`.

    >>> round(gaussian_mu(np.array([[2.0], [2.0]]), np.ones(2)), 9), gaussian_mu(np.ones((2, 1)), np.array([1.0, 0.0]))
    (0.5, inf)
    """
    shift = _least_shift(weights, movement)
    return math.inf if shift is None else float(np.linalg.norm(shift))


def _least_shift(weights: Array, movement: Array) -> Array | None:
    scale = np.abs(weights).max(axis=1, initial=0.0)
    if np.any((scale == 0) & (movement != 0)):
        return None
    scale[scale == 0] = 1.0
    ratios, target = weights / scale[:, None], movement / scale
    shift = np.linalg.lstsq(ratios, target, rcond=1e-12)[0]
    outside = float(np.abs(ratios @ shift - target).max(initial=0.0))
    return shift if outside <= _ROUNDING * max(1.0, float(np.abs(target).max(initial=0.0))) else None


def shift_loss(weights: Array, rates: Array, movement: Array) -> tuple[float, bool]:
    """Return the least `sum rates |c|` with `A c = d`, an upper bound on the log ratio of densities, and whether it is their
    supremum.

    Draws with an infinite rate may not be moved. If there are none, the bound is the supremum: by duality it is `u d` with
    `|A' u| <= rates`, and so much the tail of `u (v + A z)` gives, which falls as its slowest draw does.

    >>> shift_loss(np.array([[2.0]]), np.array([1.0]), np.array([1.0]))
    (0.5, True)
    """
    movable = np.isfinite(rates)
    shift = _least_shift(weights[:, movable], movement) if movable.any() else None
    if shift is None:
        return (0.0, True) if not movement.any() else (math.inf, bool(movable.all()))
    columns = weights[:, movable]
    if np.linalg.matrix_rank(columns) == columns.shape[1]:
        return float(np.dot(rates[movable], np.abs(shift))), bool(movable.all())
    scale = np.abs(columns).max(axis=1, initial=0.0)
    scale[scale == 0] = 1.0
    answer = linprog(
        np.tile(rates[movable], 2), A_eq=np.hstack([columns, -columns]) / scale[:, None], b_eq=movement / scale, method="highs"
    )
    bound = float(answer.fun) if answer.status == 0 else float(np.dot(rates[movable], np.abs(shift)))
    return bound, answer.status == 0 and bool(movable.all())


def covariance_divergence(movement: Array, first: Array, second: Array) -> Array:
    """Return Renyi divergences of N(0, A A') from N(d, A' A'^T), the larger of both directions at each of `ORDERS`; infinite
    if one is singular.

    References: Gil, Alajaji, Linder 2013, Renyi divergence measures for commonly used univariate continuous distributions.
    """
    covariances = first @ first.T, second @ second.T
    worst = np.zeros(len(_ORDERS))
    for inner, outer in (covariances, covariances[::-1]):
        signs, logs = zip(*(np.linalg.slogdet(part) for part in (inner, outer)), strict=True)
        if min(signs) <= 0:
            return np.full(len(_ORDERS), np.inf)
        for i, order in enumerate(_ORDERS):
            mixture = order * outer + (1 - order) * inner
            eigenvalues = np.linalg.eigvalsh(mixture)
            if eigenvalues[0] <= 1e-12 * eigenvalues[-1]:
                worst[i] = np.inf
                continue
            quadratic = float(movement @ np.linalg.solve(mixture, movement))
            log_mixed = float(np.log(eigenvalues).sum())
            value = order / 2 * quadratic - (log_mixed - (1 - order) * logs[0] - order * logs[1]) / (2 * (order - 1))
            worst[i] = max(worst[i], value)
    return worst


ORDERS = _ORDERS

"""Probabilities of events about noisy numbers: all of some are above 0, one of several is the largest
(docs/theory/replay.md)."""

import math

import numpy as np
from scipy.special import logsumexp

from audit.stats import unit_laws
from audit.stats.arrays import Array

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_GRID = np.concatenate([-np.geomspace(1, 512, 28)[::-1], [-0.5, 0.0, 0.5], np.geomspace(1, 512, 28)])


def log_all_above(value: Array, shared: Array, private: Array, laws: tuple[str, list[str]], signs: Array) -> float:
    """Return the log probability that `sign * (value + shared * s + private * z)` is above 0 in every row.

    The draw s is the same in all rows, the draws z are one per row, and all are independent.

    Args:
        value, shared, private: `(m,)`; where `private` is 0 a row has no draw just for it.
        laws: of s ("" if no row holds it) and of each z.
        signs: `(m,)` of 1 or -1.

    >>> round(log_all_above(np.zeros(1), np.zeros(1), np.ones(1), ("", ["laplace"]), np.ones(1)) / math.log(2), 12)
    -1.0
    """
    law, privates = laws
    if not law or not np.any(shared):
        return float(sum(_log_row(value[i : i + 1], private[i], privates[i], signs[i])[0] for i in range(len(value))))
    points, log_weights = _quadrature(value, shared)
    total = log_weights + unit_laws.log_density(law, points)
    for i in range(len(value)):
        total = total + _log_row(value[i] + shared[i] * points, private[i], privates[i], signs[i])
    return float(logsumexp(total)) if np.any(np.isfinite(total)) else -math.inf


def _log_row(value: Array, private: float, law: str, sign: float) -> Array:
    if private == 0:
        return np.where(sign * value > 0, 0.0, -np.inf)
    above = (sign > 0) == (private > 0)
    return unit_laws.log_above(law, -value / private) if above else unit_laws.log_below(law, -value / private)


def _quadrature(value: Array, shared: Array) -> tuple[Array, Array]:
    """Return points and log weights: pieces end at 0 and at each kink of the integrand."""
    kinks = -value[shared != 0] / shared[shared != 0]
    ends = np.unique(
        np.concatenate(
            [_GRID, kinks[np.isfinite(kinks)], *(kinks[np.isfinite(kinks), None] + np.array([-1e-9, 1e-9, -3, 3])).T]
        )
    )
    half, middle = np.diff(ends) / 2, (ends[1:] + ends[:-1]) / 2
    with np.errstate(divide="ignore"):
        return (middle[:, None] + half[:, None] * _NODES).ravel(), np.log(half[:, None] * _WEIGHTS).ravel()


def log_largest(value: Array, scale: Array, laws: list[str]) -> Array:
    """Return for each entry the log probability that `value + scale * z` is the largest, for independent draws z.

    >>> [round(float(p), 6) for p in np.exp(log_largest(np.array([1.0, 0.0]), np.ones(2), ["gumbel", "gumbel"]))]
    [0.731059, 0.268941]
    """
    if set(laws) == {"gumbel"} and np.all(scale == scale[0]):
        return np.asarray(value / scale[0] - logsumexp(value / scale[0]))
    rests = [np.arange(len(value)) != i for i in range(len(value))]
    return np.array(
        [
            log_all_above(
                value[i] - value[rest],
                np.full(int(rest.sum()), scale[i]),
                -scale[rest],
                (laws[i], [law for law, flag in zip(laws, rest, strict=True) if flag]),
                np.ones(int(rest.sum())),
            )
            for i, rest in enumerate(rests)
        ]
    )

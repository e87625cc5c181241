"""Logistic regression on standardised features by Newton's method: small, deterministic, no tuning."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from audit.stats.arrays import AnyArray

_ITERATIONS = 60
_BLOCK = 8192  # rows
_CONSTANT = 1e-12  # spread of a column, as a share of its mean, that rounding alone can make


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogisticFit:
    """A fitted classifier: `log_odds` of the positive class.

    Attributes:
        mean, scale: `(f,)` of the training features.
        weights: `(f,)` on standardised features.
    """

    mean: AnyArray
    scale: AnyArray
    weights: AnyArray
    intercept: float

    def log_odds(self, features: AnyArray) -> AnyArray:
        """Log odds of the positive class for features `(n, f)`, `(n,)`."""
        return np.asarray((features - self.mean) / self.scale @ self.weights + self.intercept)


def fit(
    features: AnyArray, positive: AnyArray, ridge: float = 1e-3, weights: AnyArray | None = None, centre: AnyArray | None = None
) -> LogisticFit:
    """The ridge-penalised maximum-likelihood fit of `positive` `(n,)` bool on features `(n, f)`; `ValueError` for only one
    class, or features that are not finite.

    Minimises the mean logistic loss plus `ridge / 2 * |weights - centre|^2` over standardised features, the
    intercept free. Newton steps, halved until the objective falls. `weights` `(n,)` say how much each row counts,
    `centre` `(f,)` is the point to which the penalty pulls the weights of features, zero by default.

    >>> model = fit(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([False, False, True, True]))
    >>> bool(model.log_odds(np.array([[1.5]]))[0].round(6) == 0.0)
    True
    """
    features = np.asarray(features, dtype=np.float64)
    positive = np.asarray(positive, dtype=bool)
    if positive.all() or not positive.any():
        raise ValueError(f"{int(positive.sum())} of {len(positive)} training rows are positive; expected some of each")
    if not np.isfinite(features).all():
        raise ValueError("training features are not finite")
    mean, spread = features.mean(axis=0), features.std(axis=0)
    scale = np.where(
        spread > _CONSTANT * np.abs(mean), spread, np.inf
    )  # the noise of rounding in a constant column is no feature
    design = np.column_stack([np.ones(len(features)), (features - mean) / scale])
    penalty = np.full(design.shape[1], ridge)
    penalty[0] = 0.0
    # mean 1, so that `ridge` weighs as much as without weights
    shares = np.ones(len(design)) if weights is None else np.asarray(weights, dtype=np.float64) / np.mean(weights)
    start = np.concatenate([[0.0], np.zeros(features.shape[1]) if centre is None else centre])
    loss = _Loss(design=design, positive=positive.astype(np.float64), penalty=penalty, shares=shares, centre=start)
    solution = _minimum(loss)
    return LogisticFit(mean=mean, scale=scale, weights=solution[1:], intercept=float(solution[0]))


def with_squares(features: AnyArray) -> AnyArray:
    """Features `(n, f)` followed by all their products of two, `(n, f + f (f + 1) / 2)`.

    >>> with_squares(np.array([[2.0, 3.0]])).tolist()
    [[2.0, 3.0, 4.0, 6.0, 9.0]]
    """
    first, second = np.triu_indices(features.shape[1])
    return np.concatenate([features, features[:, first] * features[:, second]], axis=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Loss:
    """What is minimised: rows and their classes, how much each counts, and a penalty around a centre."""

    design: AnyArray
    positive: AnyArray
    penalty: AnyArray
    shares: AnyArray
    centre: AnyArray

    def of_rows(self, rows: AnyArray) -> _Loss:
        return replace(self, design=self.design[rows], positive=self.positive[rows], shares=self.shares[rows])

    def value(self, weights: AnyArray) -> float:
        """Mean loss plus penalty."""
        z = self.design @ weights
        distance = weights - self.centre
        return float(
            np.mean(self.shares * (np.logaddexp(0.0, z) - self.positive * z)) + 0.5 * np.sum(self.penalty * distance**2)
        )

    def derivatives(self, weights: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Slope `(f,)` and curvature `(f, f)` of the mean loss, summed over blocks of rows that stay in a core's cache."""
        slope, curvature = np.zeros(len(weights)), np.zeros((len(weights), len(weights)))
        for start in range(0, len(self.design), _BLOCK):
            part = slice(start, start + _BLOCK)
            rows, counts = self.design[part], self.shares[part]
            p = special.expit(rows @ weights)
            slope += rows.T @ (counts * (p - self.positive[part]))
            curvature += (rows * (counts * p * (1 - p))[:, None]).T @ rows
        return slope / len(self.design), curvature / len(self.design)


def _minimum(loss: _Loss) -> AnyArray:
    """The minimum by Newton's method: of many rows first of an evenly spread part, since its minimum is a step or two away."""
    weights, count = loss.centre, len(loss.design)
    if count > 2 * _BLOCK:
        rows = np.arange(0, count, -(-count // _BLOCK))
        if 0 < loss.positive[rows].sum() < len(rows):
            weights = _newton(loss.of_rows(rows), weights)
    return _newton(loss, weights)


def _newton(loss: _Loss, weights: AnyArray) -> AnyArray:
    objective = loss.value(weights)
    for _ in range(_ITERATIONS):
        slope, curvature = loss.derivatives(weights)
        # 1e-9: the intercept has no penalty, and p (1 - p) vanishes if classes separate
        slope = slope + loss.penalty * (weights - loss.centre)
        step = np.linalg.solve(curvature + np.diag(loss.penalty + 1e-9), slope)
        length = 1.0
        while length > 1e-6:
            candidate = weights - length * step
            value = loss.value(candidate)
            if value <= objective:
                break
            length /= 2
        else:
            return weights
        has_converged = objective - value < 1e-12 * (1 + abs(objective))
        weights, objective = candidate, value
        if has_converged:
            return weights
    return weights

"""A ridge regression on one-hot labels: what a linear model makes of a class, in closed form."""

import numpy as np

from audit.stats.arrays import AnyArray


def fit(inputs: AnyArray, labels: AnyArray, classes: int, ridge: float = 1e-2) -> AnyArray:
    """Weights `(features + 1, classes)`, the last row an intercept; class scores are `[x, 1] @ weights`.

    Args:
        inputs: `(n, features)`.
        labels: `(n,)` from 0.
        ridge: penalty on squared weights, relative to the features' mean square.

    >>> weights = fit(np.array([[0.0], [1.0]]), np.array([0, 1]), 2)
    >>> (np.array([[0.0, 1.0], [1.0, 1.0]]) @ weights).argmax(axis=1).tolist()
    [0, 1]
    """
    x = np.asarray(inputs, dtype=np.float64)
    mean = x.mean(axis=0)
    deviations = x - mean
    targets = np.eye(classes)[labels]
    average = targets.mean(axis=0)
    penalty = ridge * len(x) * max(float(np.mean(deviations**2)), 1e-12) * np.eye(x.shape[1])
    slopes = np.linalg.solve(deviations.T @ deviations + penalty, deviations.T @ (targets - average))
    return np.concatenate([slopes, (average - mean @ slopes)[None]])


def least_directions(inputs: AnyArray, count: int) -> AnyArray:
    """The `count` orthonormal directions along which `inputs` `(n, features)` vary least, least first, `(count, features)`.

    Second moments around zero, as in the singular value decomposition of the data.
    """
    x = np.asarray(inputs, dtype=np.float64)
    _, vectors = np.linalg.eigh(x.T @ x)  # eigenvalues ascend
    return np.ascontiguousarray(vectors[:, :count].T)

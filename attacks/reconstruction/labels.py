"""Labels from the gradients of the last layer.

References:
    Zhao, Mopuri and Bilen 2020, arXiv 2001.02610 (iDLG); Geng et al. 2021, arXiv 2105.13929, and others, for counts.
"""

import numpy as np

from audit.core.data import Array
from audit.core.errors import ConfigError


def single(bias_gradients: Array) -> Array:
    """The label `(N,)` of one record each: the only class with a negative bias gradient (its probability less one).

    Args:
        bias_gradients: `(N, classes)` of the last layer, under cross-entropy.

    >>> single(np.array([[0.1, -0.8, 0.7]])).tolist()
    [1]
    """
    return np.asarray(bias_gradients.argmin(axis=1))


def counts(bias_gradients: Array, probabilities: Array, batch: int) -> Array:
    """Return how many records of each class a batch held, `(N, classes)`, summing to `batch`.

    The bias gradient of class c under the mean loss is the mean probability of c less its share of the labels. The mean
    probability is taken from public records, so this holds for fresh models; after training, probabilities depend on the label
    and it fails (docs/evidence/reconstruction.md).

    Args:
        bias_gradients: `(N, classes)`.
        probabilities: `(n, classes)` of public records under the same model.

    >>> counts(np.array([[0.25 - 0.5, 0.25, 0.5 - 0.5]]), np.array([[0.25, 0.25, 0.5]]), 2).tolist()
    [[1, 0, 1]]
    """
    if batch < 1:
        raise ConfigError(f"batch is {batch}; expected at least one record")
    shares = np.maximum(probabilities.mean(axis=0) - bias_gradients, 0.0) * batch
    full = np.floor(shares).astype(np.int64)
    for index, share in enumerate(shares):
        missing, remainder = batch - int(full[index].sum()), share - full[index]
        if missing > 0:
            places = np.argsort(-remainder, kind="stable")[np.arange(missing) % len(remainder)]
            np.add.at(full[index], places, 1)
        for _ in range(-missing):
            full[index, int(np.where(full[index] > 0, remainder, np.inf).argmin())] -= 1
    return np.asarray(full)

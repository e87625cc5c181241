"""What the hidden representation of a record says that does not depend on how a model happens to name its directions."""

import numpy as np

from audit.stats.arrays import AnyArray


def class_distances(hidden: AnyArray, labels: AnyArray) -> AnyArray:
    """Euclidean distance of each record to the mean of the other records of its class, in each model's own space, `(N, m)`.

    A record that is alone in its class is compared with all others; a single record has distance 0. Two trainings of one
    architecture turn and permute their hidden spaces at will, which leaves this distance alone.

    Args:
        hidden: `(N, m, d)` representations of `m` records under `N` models.
        labels: `(m,)` classes.

    >>> class_distances(np.array([[[0.0, 0.0], [3.0, 4.0], [9.0, 0.0]]]), np.array([0, 0, 1])).round(3).tolist()
    [[5.0, 5.0, 7.762]]
    """
    classes, group = np.unique(labels, return_inverse=True)
    count = np.bincount(group, minlength=len(classes))
    alone = count[group] == 1
    order, starts = np.argsort(group, kind="stable"), np.concatenate([[0], np.cumsum(count)[:-1]])
    distances = np.zeros(hidden.shape[:2])
    if hidden.shape[1] < 2:
        return distances
    for model, values in enumerate(hidden):
        own = np.asarray(values, dtype=np.float64)
        sums = np.add.reduceat(own[order], starts, axis=0)
        remainder = sums[group] - own
        remainder[alone] = sums.sum(axis=0) - own[alone]
        remainder /= np.where(alone, len(own) - 1, count[group] - 1)[:, None]
        distances[model] = np.linalg.norm(own - remainder, axis=1)
    return distances

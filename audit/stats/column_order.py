"""The order of columns in which a model's answers agree with labels most often."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment


def find_order(labels: NDArray[np.int64], answers: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Return the column of each class, `(classes,)`, each once, by the assignment with the most right answers.

    >>> find_order(np.array([0, 0, 1, 2]), np.array([1, 1, 0, 2]), 3).tolist()
    [1, 0, 2]
    """
    counts = np.zeros((classes, classes))
    np.add.at(counts, (labels, answers), 1)
    return np.asarray(linear_sum_assignment(-counts)[1], np.int64)

"""The order of columns in which a model's answers agree with labels most often."""

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


def order_by_correlation(truths: NDArray[np.float64], predictions: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the column of truths for each column of predictions, each once, with the largest correlations of either sign.

    >>> truths = np.array([[0.0, 5.0], [1.0, 5.5], [2.0, 4.0]])
    >>> order_by_correlation(truths, 3 * truths[:, ::-1]).tolist()
    [1, 0]
    """
    columns = truths.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        correlations = np.corrcoef(truths, predictions, rowvar=False)[:columns, columns:]
    return np.asarray(linear_sum_assignment(-np.abs(np.nan_to_num(correlations)).T)[1], np.int64)

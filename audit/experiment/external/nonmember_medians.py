"""The median confidence of a model in nonmembers like a record: boosted trees, fitted on nonmembers of other folds."""

import numpy as np

from audit.core.data import Array
from audit.core.seeds import Seed

FOLDS = 3
FEWEST = 150  # nonmembers, below which nothing is fitted: two thirds of them have to fill several leaves
LARGEST = 20_000  # nonmembers that a fold is fitted on at most
COMPONENTS = 32  # main components in place of inputs that are wider


def cross_fitted_medians(inputs: Array, labels: Array, included: Array, confidences: Array, seed: Seed) -> Array | None:
    """Predicted median confidence `(n,)` of each record, had the model not been trained on it; None if too few are known.

    Folds are drawn without regard to membership, and a record's prediction never depends on whether it is a member itself: if
    the model says nothing, both sides are treated alike.

    Args:
        inputs: `(n, ...)`; `labels` `(n,)` classes; `included` `(n,)` bool, whether the model was trained on each.
        confidences: `(n,)` logit-scaled confidences of the model.

    References:
        Bertran et al. 2023, arXiv 2307.03694; cross-fitting: Chernozhukov et al. 2018, arXiv 1608.00060.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    if (~included).sum() < FEWEST:
        return None
    features = _features(inputs, labels, seed)
    folds = seed.child("folds").numpy().integers(0, FOLDS, len(included))
    medians = np.zeros(len(included))
    for fold in range(FOLDS):
        rows = np.flatnonzero(~included & (folds != fold))
        rows = rows[:: max(1, -(-len(rows) // LARGEST))]
        trees = HistGradientBoostingRegressor(
            loss="absolute_error",  # the pinball loss of the median
            max_iter=60,
            early_stopping=False,
            random_state=seed.child("trees", fold).integer() % 2**32,
        )
        medians[folds == fold] = trees.fit(features[rows], confidences[rows]).predict(features[folds == fold])
    return medians


def _features(inputs: Array, labels: Array, seed: Seed) -> Array:
    """Inputs, or their main components if there are many, and the class of each record."""
    from sklearn.decomposition import PCA

    flat = inputs.reshape(len(inputs), -1).astype(np.float64)
    if flat.shape[1] > COMPONENTS:
        reduction = PCA(COMPONENTS, svd_solver="randomized", random_state=seed.child("components").integer() % 2**32)
        flat = reduction.fit_transform(flat)
    return np.concatenate([flat, (labels[:, None] == np.unique(labels)[None, :100]).astype(np.float64)], axis=1)

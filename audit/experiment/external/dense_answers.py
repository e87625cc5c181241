"""Losses of records with a class in y for each place: tokens of a text, pixels of a mask."""

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.phrases import phrase
from audit.data.source import numbered
from audit.stats.scoring import signals

# the class of pixels that no mask names, by custom of segmentation data; read as not predicted if the model lacks it
UNNAMED_CLASS = 255
_EITHER_AXIS = "Both axes of the outputs fit the classes; the {axis} was taken, with which more answers are right."


def set_aside(labels: Array, classes: int) -> Array:
    """Return masks with `UNNAMED_CLASS` as -1 if there are fewer classes."""
    return np.where(labels == UNNAMED_CLASS, -1, labels) if labels.ndim > 2 and classes <= UNNAMED_CLASS else labels


def score_places(outputs: Array, labels: Array) -> tuple[Array, Array, tuple[str, ...]]:
    """Return the mean cross-entropy of each record over its places, the share of places that is right, and remarks.

    Args:
        outputs: logits or probabilities `(n, ..., classes)` or `(n, classes, ...)`.
        labels: `(n, ...)` whole numbers, negative if nothing is predicted.

    Raises:
        DataError: shapes that do not fit, a class beyond the outputs, or a record without a place that is predicted.
    """
    arrangements = [
        (name, scores)
        for name, scores in (("last axis", outputs), ("second axis", np.moveaxis(outputs, 1, -1)))
        if scores.shape[:-1] == labels.shape and labels.max() < scores.shape[-1]
    ]
    if not arrangements:
        places = "tokens" if labels.ndim == 2 else "height, width"
        classes = "vocabulary" if labels.ndim == 2 else "classes"
        raise DataError(
            f"the target gives outputs of shape {outputs.shape} for {places if labels.ndim == 2 else 'masks'} y of shape "
            f"{labels.shape}, up to {labels.max()}; expected (n, {places}, {classes}) or (n, {classes}, {places}) for "
            f"(n, {places}), each label below the number of {'tokens' if labels.ndim == 2 else 'classes'}"
        )
    results = [(name, *_score(scores, labels)) for name, scores in arrangements]
    name, losses, hits = max(results, key=lambda result: float(result[2].mean()))
    return losses, hits, (phrase(_EITHER_AXIS, axis=name),) if len(results) > 1 else ()


def _score(outputs: Array, labels: Array) -> tuple[Array, Array]:
    classes = outputs.shape[-1]
    truths, scores = labels.reshape(len(labels), -1), outputs.reshape(len(labels), -1, classes)
    is_target = truths >= 0
    empty = np.flatnonzero(~is_target.any(axis=1))
    if len(empty):
        raise DataError(f"{numbered(int(empty[0]))} has no token that is predicted: all its labels are negative; leave it out")
    is_share = scores.min() >= 0 and np.abs(scores.sum(axis=-1, dtype=np.float64) - 1).max() < 1e-3
    losses, hits = np.zeros(len(labels)), np.zeros(len(labels))
    for row, (values, classes_of_row, mask) in enumerate(zip(scores, truths, is_target, strict=True)):
        logits = values[mask].astype(np.float64)
        logits = np.log(np.maximum(logits, np.finfo(np.float32).tiny)) if is_share else logits
        losses[row] = signals.cross_entropy(logits, classes_of_row[mask]).mean()
        hits[row] = (values[mask].argmax(axis=-1) == classes_of_row[mask]).mean()
    return losses, hits

"""Whether outputs are logits, shares of one whole, or a probability for each class; losses of a class for each place."""

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.phrases import phrase
from audit.data.source import numbered
from audit.stats.scoring import signals

_TOLERANCE = 0.01  # of a row's sum, relative: probabilities in bfloat16 miss it by 0.004
_MOST_ROUNDING = 0.5
_MOST_ROWS = 0.9


def find_total(outputs: Array) -> float | None:
    """Return the sum that all rows have in common, as those of probabilities (1), percentages (100) or votes; None for others.

    Rounding may change the sum of a row of `outputs` `(n, classes)` by half of the least step between values for each class.

    >>> find_total(np.array([[25.0, 75.0], [99.5, 0.5]])), find_total(np.array([[1.0, 2.0], [0.0, 9.0]]))
    (100.0, None)
    """
    values = np.asarray(outputs, np.float64)
    if values.shape[1] < 2 or values.min() < 0 or not np.isfinite(values).all():
        return None
    sums = values.sum(axis=1)
    total = next((full for full in (1.0, 100.0) if _are_near(values, sums, full)), float(np.median(sums)))
    if total in (1.0, 100.0):
        return total if _are_near(values, sums, total) else None
    rounding = min(_TOLERANCE * total, values.shape[1] * _find_step(values) / 2)
    is_constant = (
        np.abs(sums - total).max() <= max(1e-6 * total, rounding) and len(sums) > 1 and not (values == values[0]).all()
    )
    return total if is_constant else None


def find_shift(outputs: Array) -> float | None:
    """Return what is to be added to each number so that rows are probabilities that reach 0 and 1; None for other outputs.

    >>> find_shift(np.array([[0.5, -0.5], [-0.4, 0.4]])), find_shift(np.array([[2.0, -2.0], [-0.4, 0.4]]))
    (0.5, None)
    """
    values = np.asarray(outputs, np.float64)
    if values.ndim != 2 or values.shape[1] < 2 or values.min() >= 0 or not np.isfinite(values).all():
        return None
    sums = values.sum(axis=1)
    shift = (1.0 - float(np.median(sums))) / values.shape[1]
    ends = values.min() + shift, values.max() + shift
    reaches = max(abs(ends[0]), abs(ends[1] - 1)) < _TOLERANCE
    return shift if reaches and float(np.ptp(sums)) < _TOLERANCE else None


def are_ranks(outputs: Array) -> bool:
    """Return whether all rows of outputs `(n, k)` hold the same k numbers, in orders that differ."""
    lines = np.sort(outputs, axis=1)
    numbers = len(np.unique(lines[0]))
    return bool(numbers > 2 and numbers == lines.shape[1] and (lines == lines[0]).all() and not (outputs == outputs[0]).all())


def count_classes(outputs: Array) -> int:
    """Return how many classes every row `(n, k)` has above 0, if fewer than occur in all rows and more than one; else 0.

    >>> count_classes(np.array([[0.7, 0.3, 0.0], [0.0, 0.6, 0.4]])), count_classes(np.array([[0.7, 0.2, 0.1], [0.0, 0.6, 0.4]]))
    (2, 0)
    """
    if outputs.ndim != 2 or len(outputs) < 2 or outputs.min() < 0:
        return 0
    counts = np.unique((outputs > 0).sum(axis=1))
    is_cut = len(counts) == 1 and 1 < counts[0] < (outputs > 0).any(axis=0).sum()
    return int(counts[0]) if is_cut else 0


def are_rounded_up(sums: Array) -> bool:
    """Return whether nearly all sums of rows are 1 and the others more, as of exponentials of very large logarithms."""
    return bool(sums.min() > 1 - _TOLERANCE and np.mean(sums < 1 + _TOLERANCE) > _MOST_ROWS)


def are_independent(outputs: Array) -> bool:
    """Return whether outputs `(n, k)` are between 0 and 1 without a common sum: a probability for each class on its own."""
    values = np.asarray(outputs, np.float64)
    if values.ndim != 2 or values.shape[1] < 2 or values.min() < 0 or values.max() > 1:
        return False
    return values.max() > 0 and not (values == values[0]).all() and find_total(values) is None


def _are_near(values: Array, sums: Array, total: float) -> bool:
    """Return whether sums differ from the total by no more than rounding of the values explains."""
    misses = float(np.abs(sums - total).max()) / total
    if misses <= _TOLERANCE:
        return True
    if misses > _MOST_ROUNDING or values.max() > total * (1 + _TOLERANCE):
        return False
    return bool(misses <= _TOLERANCE + values.shape[1] * _find_step(values) / total / 2)


def _find_step(values: Array) -> float:
    steps = np.diff(np.unique(values))
    return float(steps.min()) if len(steps) else 0.0


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

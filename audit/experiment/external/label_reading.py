"""What y means beside a model's outputs: the column of a class, yes or no, several labels, numbers, or tokens."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.data.source import as_whole, class_labels, numbered
from audit.experiment.external.output_scale import are_independent, find_total, set_aside

_MOST_NAMED = 10
_WITHOUT_Y = {"outlier_detector", "clusterer", "density_estimator"}


def find_class_names(model: Any) -> Array | None:
    """Return the class of each column of a classifier's outputs, `classes_` of it or of a bound method's estimator; or None."""
    for owner in (model, getattr(model, "__self__", None)):
        names = getattr(owner, "classes_", None)
        if names is None or hasattr(owner, "parameters") or isinstance(names, list):
            continue  # a list holds the classes of several labels
        names = np.asarray(names)
        if names.ndim == 1 and len(names) > 1:
            return names
    return None


def find_estimator_kind(model: Any) -> str:
    """Return what scikit-learn, if it is in use, calls an estimator, or the owner of a bound method; "" of anything else.

    `DataError` if it learned without y, so that its outputs do not answer y.
    """
    base, utils = sys.modules.get("sklearn.base"), sys.modules.get("sklearn.utils")
    estimator = getattr(model, "__self__", model)
    if base is None or utils is None or not isinstance(estimator, base.BaseEstimator):
        return ""
    kind = str(utils.get_tags(estimator).estimator_type or "")
    if kind in _WITHOUT_Y:
        raise DataError(
            f"the target, {type(estimator).__name__}, is called {kind} by scikit-learn: it learned without y, and its outputs "
            "do not answer y; give its loss: audit.check(loss_of=lambda x: -model.score_samples(x), members=x_train, "
            "nonmembers=x_test), or of clusters the distance to the nearest centre"
        )
    return kind


def read_labels(outputs: Array, labels: Array, names: Array | None = None) -> Array:
    """Return y in the one form that its values and the model's outputs allow, whatever its type.

    Zeros and ones are labels, and so are -1 and 1. Rows with a single one are classes if outputs have a column for each. Whole
    numbers are classes if outputs have a column for each class. Other numbers are those of a regression.

    Args:
        outputs: `(n, ...)` of the model.
        labels: `(n,)`, `(n, k)` or masks and images `(n, ...)` of any type.
        names: `(classes,)` the class of each column of outputs; None if columns are numbered.

    Returns:
        int64 `(n,)` columns of classes, or 0 and 1; int64 `(n, k)` several labels or tokens; float64 for a regression.

    Raises:
        DataError: y holds text and the model does not name its classes, or a class that the model does not have.
    """
    labels = as_whole(labels)
    if outputs.ndim < 3 and sum(size > 1 for size in labels.shape[1:]) < 2:
        labels = labels.reshape(len(labels), -1)
    if labels.ndim == 2 and labels.shape[1] == 1 and outputs.ndim < 3:
        labels = labels[:, 0]
    has_columns = outputs.ndim == 2 and outputs.shape[1] > 1
    is_pair = names is not None and len(names) == 2 and outputs.dtype.kind == "f"  # one number a record, of the second class
    if labels.ndim == 1 and names is not None and (has_columns or is_pair):
        return _find_columns(labels, names)
    if labels.dtype.kind not in "if":
        raise DataError(
            f"y has type {labels.dtype} ('{labels.flat[0]}', ...) and the model does not name the classes of its columns; give "
            "y as whole numbers (y.astype(int)), the column of each record's class, or the estimator itself with its classes_"
        )
    if labels.dtype.kind == "f":
        _refuse_shares(outputs, labels)
        return labels
    labels = _from_signs(outputs, labels)
    if labels.ndim >= 2:
        return _read_rows(outputs, labels) if labels.ndim == 2 else _read_places(outputs, labels)
    if labels.ndim == 1 and outputs.ndim == 3 and outputs.shape[1] == 1:
        return labels[:, None]
    if not has_columns and outputs.ndim <= 2 and (labels.max() > 1 or labels.min() < 0):
        return _read_numbers(outputs, labels)
    return class_labels(labels, None, "y") if labels.ndim == 1 else labels


def align_columns(outputs: Array, model_names: Array | None, names: Array | None) -> Array:
    """Return outputs with a column for each of `names`, in their order, of a model with the `model_names` classes as columns.

    A model that was trained without a rare class never gives it: its share is 0, or the least of the record's scores.
    `DataError` for a class that `names` lacks.
    """
    if model_names is None or names is None or np.array_equal(model_names, names):
        return outputs
    if outputs.ndim != 2 or outputs.shape[1] != len(model_names):
        return outputs
    columns = _find_columns(as_whole(model_names), names)
    is_share = find_total(outputs) is not None
    floor = np.zeros((len(outputs), 1)) if is_share else outputs.min(axis=1, keepdims=True)
    columns_of_names = np.repeat(floor, len(names), axis=1).astype(outputs.dtype)
    columns_of_names[:, columns] = outputs
    return columns_of_names


def _find_columns(labels: Array, names: Array) -> Array:
    """Return the column of each label by the names of the columns, int64 `(n,)`."""
    names = as_whole(names)
    if (names.dtype.kind in "if") != (labels.dtype.kind in "if"):
        names, labels = names.astype(str), labels.astype(str)
    order = np.argsort(names, kind="stable")
    places = np.minimum(np.searchsorted(names[order], labels), len(names) - 1)
    columns = order[places]
    strange = np.flatnonzero(names[columns] != labels)
    if len(strange):
        raise DataError(
            f"label {labels[strange[0]]!s} of {numbered(int(strange[0]))}, members first, is none of the classes that the "
            f"model names: {_shorten(names)}; correct y, or give the right model"
        )
    return np.asarray(columns, np.int64)


def _shorten(names: Sequence[Any] | Array) -> str:
    texts = [str(name) for name in names[:_MOST_NAMED]]
    return ", ".join([*texts, "..."] if len(names) > _MOST_NAMED else texts)


def _from_signs(outputs: Array, labels: Array) -> Array:
    """Return labels of -1 and 1 as 0 and 1; tokens may hold both, so outputs for tokens leave y as it is."""
    is_sign = outputs.ndim < 3 and labels.min() == -1 and np.isin(labels, (-1, 1)).all()
    return (labels + 1) // 2 if is_sign and (outputs.ndim < 2 or outputs.shape[1] <= 2 or labels.ndim == 2) else labels


def _read_rows(outputs: Array, labels: Array) -> Array:
    """Return y of rows: classes if each row has a single one, several labels, tokens, or several numbers."""
    if outputs.ndim == 3:
        return labels
    if np.isin(labels, (0, 1)).all():
        is_one_hot = (labels.sum(axis=1) == 1).all() and (outputs.ndim == 1 or outputs.shape[1] in (1, labels.shape[1]))
        return labels.argmax(axis=1) if is_one_hot and not are_independent(outputs) else labels
    return _read_numbers(outputs, labels) if outputs.shape == labels.shape else labels


def _read_places(outputs: Array, labels: Array) -> Array:
    """Return masks, `(n, ...)` or with an axis of one beside outputs of several classes; or images as numbers."""
    if outputs.ndim == labels.ndim and outputs.shape != labels.shape and 1 in labels.shape[1:]:
        axis = 1 if labels.shape[1] == 1 else labels.ndim - 1
        labels = labels.squeeze(axis) if labels.shape[axis] == 1 else labels
    is_binary = bool(np.isin(labels, (0, 1)).all())
    if outputs.shape == labels.shape and is_binary:
        for axis in (1, labels.ndim - 1):
            if labels.shape[axis] > 1 and (labels.sum(axis=axis) == 1).all():
                return np.asarray(labels.argmax(axis=axis))  # rows with a single one are classes, at each place too
    if outputs.shape == labels.shape and not is_binary:
        if outputs.dtype.kind != "f":
            raise DataError(
                f"the target gives {outputs.dtype} of shape {outputs.shape} for masks y of the same shape, that is, classes; "
                "expected the scores that they were chosen by, (n, classes, height, width), before argmax"
            )
        return labels.astype(np.float64)
    return set_aside(labels, int(outputs.shape[1] if outputs.shape[2:] == labels.shape[1:] else outputs.shape[-1]))


def _read_numbers(outputs: Array, labels: Array) -> Array:
    """Return whole numbers beside as many real predictions as those of a regression; `DataError` for others, and for labels."""
    names = np.unique(labels)
    is_float = outputs.dtype.kind == "f"
    if is_float and len(names) == 2:
        raise DataError(
            f"y holds the two values {names[0]} and {names[1]}, as labels do, beside outputs of shape {outputs.shape}; give 0 "
            f"and 1, as y == {names[1]}; the loss of a regression is given as audit.check(loss_of=...)"
        )
    if not is_float or np.isin(outputs, names).all():
        raise DataError(
            f"the target gives {'classes of y alone, ' * is_float}{outputs.dtype} of shape {outputs.shape} for {len(labels)} "
            f"records of classes {labels.min()} to {labels.max()}; expected logits or probabilities, ({len(labels)}, "
            f"{labels.max() + 1}); for a regression give predictions as real numbers, or the estimator itself"
        )
    return labels.astype(np.float64)


def _refuse_shares(outputs: Array, labels: Array) -> None:
    """Raise `DataError` for rows of shares of classes, or one share of two, soft labels: neither classes nor numbers."""
    ends = np.unique(labels)
    if len(ends) == 2 and 0 < ends[0] < ends[1] < 1 and abs(ends.sum() - 1) < 1e-6:
        raise DataError(
            f"y holds {ends[0]:g} and {ends[1]:g} alone, as smoothed labels do; give the labels, y > 0.5, or the loss that "
            "the model was trained by, audit.check(loss_of=...)"
        )
    if labels.ndim == 2 and outputs.shape == labels.shape and labels.shape[1] > 1 and find_total(labels) == 1:
        raise DataError(
            f"y holds shares of {labels.shape[1]} classes that sum to 1 in each row (soft labels); give the class of each "
            "record, y.argmax(axis=1), or the loss that the model was trained by, audit.check(loss_of=...)"
        )

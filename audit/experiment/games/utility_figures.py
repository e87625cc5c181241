"""What single models are good for: figures of their outputs for test records, made while models are observed."""

from collections.abc import Callable

import numpy as np

from audit.core.data import Array, Dataset
from audit.stats.bounds import roc
from audit.stats.scoring import signals, texts

Figure = Callable[[Array, Array], float]


def compute_utility(dataset: Dataset, outputs: Array, non_finite: Array) -> dict[str, Array]:
    """Return figures `(N,)` float64 by name, of outputs `(N, n, ...)` for test records; not a number of a model that diverged.

    None if there are no test records, or outputs are no usual predictions.
    """
    labels = dataset.test.labels
    if not len(labels) or not len(outputs):
        return {}
    if dataset.classes and labels.ndim == 2:  # users: figures are over the records of all of them
        present = labels >= 0
        outputs = outputs.reshape(len(outputs), *labels.shape, -1)[:, present]
        labels = labels[present].astype(np.int64)
    values = {}
    for name, figure in _figures(dataset, outputs[0]).items():
        values[name] = np.full(len(outputs), np.nan)
        for model in np.flatnonzero(~non_finite).tolist():
            values[name][model] = figure(labels, outputs[model].astype(np.float64))
    return values


def _figures(dataset: Dataset, outputs: Array) -> dict[str, Figure]:
    """Return the figures of a data set for models that give `outputs` `(n, ...)`; none if these are no usual predictions."""
    labels = dataset.test.labels
    if dataset.test.are_texts:
        return TEXTS
    if dataset.classes:
        return CLASSIFICATION
    if labels.size != outputs.size:
        return {}
    return SEVERAL_LABELS if labels.dtype.kind == "b" else REGRESSION


def _macro_f1(labels: Array, logits: Array) -> float:
    """Mean over the classes that occur, among labels or predictions, of `2 hits / (labels + predictions)`."""
    predictions = logits.argmax(-1)
    size = 1 + max(int(labels.max()), int(predictions.max()))
    hits, true_counts, predicted_counts = (
        np.bincount(values, minlength=size) for values in (labels[predictions == labels], labels, predictions)
    )
    present = (true_counts + predicted_counts) > 0
    return float(np.mean(2.0 * hits[present] / (true_counts + predicted_counts)[present]))


def _auc(labels: Array, logits: Array) -> float:
    """Area under the ROC, one class against the rest, averaged over the classes that occur."""
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    shares = weights / weights.sum(-1, keepdims=True)
    present = [c for c in range(logits.shape[-1]) if 0 < np.sum(labels == c) < len(labels)]
    areas = [roc.auc(shares[labels == c, c], shares[labels != c, c]) for c in present]
    return float(np.mean(areas)) if areas else 0.5


def _r2(labels: Array, logits: Array) -> float:
    from sklearn.metrics import r2_score

    return float(r2_score(labels, logits.reshape(labels.shape)))


def _label_auc(labels: Array, logits: Array) -> float:
    """Area under the ROC of each label, averaged over those that occur in some records and not in all."""
    present = [k for k in range(labels.shape[1]) if 0 < labels[:, k].sum() < len(labels)]
    areas = [roc.auc(logits[labels[:, k], k], logits[~labels[:, k], k]) for k in present]
    return float(np.mean(areas)) if areas else 0.5


def _perplexity(labels: Array, log_probabilities: Array) -> float:
    """Exponential of the mean loss over all predicted tokens."""
    is_target = texts.supervised(labels)
    return float(np.exp(-log_probabilities[is_target].mean())) if is_target.any() else float("nan")


ACCURACY = "accuracy"
CLASSIFICATION: dict[str, Figure] = {
    ACCURACY: lambda labels, logits: float(np.mean(logits.argmax(-1) == labels)),
    "macro-F1": _macro_f1,
    "AUC": _auc,
}
REGRESSION: dict[str, Figure] = {
    "MSE": lambda labels, logits: float(np.mean((logits.reshape(labels.shape) - labels) ** 2)),
    "R2": _r2,
}
SEVERAL_LABELS: dict[str, Figure] = {
    "accuracy per label": lambda labels, logits: float(np.mean((logits > 0) == labels)),
    "AUC per label": _label_auc,
    "loss": lambda labels, logits: float(signals.binary_cross_entropy(logits, labels).mean()),
}
TEXTS: dict[str, Figure] = {"perplexity": _perplexity}
# names of all figures as reports list them; a stored job lists its own by the alphabet
ORDER = (*CLASSIFICATION, *REGRESSION, *SEVERAL_LABELS, *TEXTS)

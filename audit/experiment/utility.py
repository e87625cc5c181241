"""What the trained models are good for, on test records that no model was trained on.

scikit-learn is imported on first use: it would double the start of commands that need none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals.logits import Logits
from attacks.signals.predicted_classes import PredictedClasses
from audit.core.data import Array, Dataset
from audit.core.results import Metric
from audit.core.views import View
from audit.experiment.observed import GameModels, Observations
from audit.stats.bounds import roc
from audit.stats.scoring import signals, texts


def utility(games: Sequence[Observations], dataset: Dataset) -> tuple[Metric, ...]:
    """Mean and spread over models of accuracy, macro-F1 and AUC (regression: MSE and R2; texts: perplexity).

    Models that diverged are left out; the number of models says so. Models whose canaries are records are
    preferred; a thousand crafted gradients are an attack on utility too.
    """
    natural = [game for game in games if {Logits.key, PredictedClasses.key} & game.signals.keys()] or list(games)
    tests = [(observation.test_logits, observation.diverged) for observation in natural if observation.test_logits is not None]
    logits = [
        model
        for models, non_finite in tests
        for model, is_non_finite in zip(models, non_finite, strict=True)
        if not is_non_finite
    ]
    labels = dataset.test.labels
    if len(labels) == 0 or not logits:
        return ()
    metrics = []
    for name, figure in _figures(dataset, logits[0]).items():
        values = np.array([figure(labels, logit.astype(np.float64)) for logit in logits])
        spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        metrics.append(Metric(name=name, value=float(values.mean()), spread=spread, models=len(values)))
    return tuple(metrics)


def _figures(dataset: Dataset, outputs: Array) -> dict[str, Callable[[Array, Array], float]]:
    """Return the figures of a data set whose models give `outputs` `(n, ...)`; none where these are no usual predictions."""
    labels = dataset.test.labels
    if dataset.test.are_texts:
        return TEXTS
    if dataset.classes:
        return CLASSIFICATION
    if labels.size != outputs.size:
        return {}
    return SEVERAL_LABELS if labels.dtype.kind == "b" else REGRESSION


def of_sides(models: GameModels) -> tuple[Metric, ...]:
    """Accuracy and loss of the first model on its members and its nonmembers, for a model without test records."""
    target, included = models.observed, models.insertion.planting.included[0]
    view = View(signals={key: value[0] for key, value in target.signals.items()}, labels=models.labels)
    loss, logits = reading.losses(view, reading.NO_REFERENCE, "loss")[0], view.get(Logits.key)
    rows = []
    for side, name in ((included, "members"), (~included, "nonmembers")):
        if logits is not None:
            right = float(np.mean(logits[side].argmax(-1) == np.asarray(models.labels)[side]))
            rows.append(Metric(name=f"accuracy on {name}", value=right, spread=0.0, models=1))
        rows.append(Metric(name=f"loss on {name}", value=float(loss[side].mean()), spread=0.0, models=1))
    return tuple(rows)


def _accuracy(labels: Array, logits: Array) -> float:
    return float(np.mean(logits.argmax(-1) == labels))


def _macro_f1(labels: Array, logits: Array) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(labels, logits.argmax(-1), average="macro", zero_division=0))


def _auc(labels: Array, logits: Array) -> float:
    """Area under the ROC, one class against the rest, averaged over the classes that occur."""
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    shares = weights / weights.sum(-1, keepdims=True)
    present = [c for c in range(logits.shape[-1]) if 0 < np.sum(labels == c) < len(labels)]
    areas = [roc.auc(shares[labels == c, c], shares[labels != c, c]) for c in present]
    return float(np.mean(areas)) if areas else 0.5


def _mse(labels: Array, logits: Array) -> float:
    return float(np.mean((logits.reshape(labels.shape) - labels) ** 2))


def _r2(labels: Array, logits: Array) -> float:
    from sklearn.metrics import r2_score

    return float(r2_score(labels, logits.reshape(labels.shape)))


def _label_accuracy(labels: Array, logits: Array) -> float:
    return float(np.mean((logits > 0) == labels))


def _label_auc(labels: Array, logits: Array) -> float:
    """Area under the ROC of each label, averaged over those that occur in some records and not in all."""
    present = [k for k in range(labels.shape[1]) if 0 < labels[:, k].sum() < len(labels)]
    areas = [roc.auc(logits[labels[:, k], k], logits[~labels[:, k], k]) for k in present]
    return float(np.mean(areas)) if areas else 0.5


def _label_loss(labels: Array, logits: Array) -> float:
    return float(signals.binary_cross_entropy(logits, labels).mean())


def _perplexity(labels: Array, log_probabilities: Array) -> float:
    """Exponential of the mean loss over all predicted tokens."""
    is_target = texts.supervised(labels)
    return float(np.exp(-log_probabilities[is_target].mean())) if is_target.any() else float("nan")


CLASSIFICATION: dict[str, Callable[[Array, Array], float]] = {"accuracy": _accuracy, "macro-F1": _macro_f1, "AUC": _auc}
REGRESSION: dict[str, Callable[[Array, Array], float]] = {"MSE": _mse, "R2": _r2}
SEVERAL_LABELS: dict[str, Callable[[Array, Array], float]] = {
    "accuracy per label": _label_accuracy,
    "AUC per label": _label_auc,
    "loss": _label_loss,
}
TEXTS: dict[str, Callable[[Array, Array], float]] = {"perplexity": _perplexity}

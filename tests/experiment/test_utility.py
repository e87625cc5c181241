"""Utility figures on cases with a known answer."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score

from audit.core.data import Dataset, Records
from audit.core.training import Executed
from audit.experiment.describe.description import utility
from audit.experiment.games.observed import Observations
from audit.experiment.games.utility_figures import compute_utility

EXECUTED = Executed(
    steps=0,
    batch_sizes=np.zeros((2, 0)),
    population=np.ones(2),
    noise_multiplier=np.zeros(2),
    noise_draws=0,
    largest_norm=np.zeros(2),
    skipped=np.zeros(2),
)


def dataset(labels: np.ndarray, classes: int) -> Dataset:
    test = Records(inputs=np.zeros((len(labels), 1)), labels=labels)
    none = Records(inputs=np.zeros((0, 1)), labels=labels[:0])
    return Dataset(name="t", source="t", sha256="", classes=classes, train=none, pool=none, test=test, pool_index=np.arange(0))


def observed(logits: np.ndarray, data: Dataset, natural: bool = True) -> Observations:
    diverged = ~np.isfinite(logits).all(axis=(1, 2))
    return Observations(
        signals={"logits": logits} if natural else {},
        test_figures=compute_utility(data, logits, diverged),
        diverged=diverged,
        executed=EXECUTED,
    )


def test_classification_figures() -> None:
    labels = np.array([0, 0, 1, 1])
    right = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    wrong_once = right.copy()
    wrong_once[0] = [0.0, 0.5]
    result = {metric.name: metric for metric in utility([observed(np.stack([right, wrong_once]), dataset(labels, 2))])}
    assert result["accuracy"].value == pytest.approx((1.0 + 0.75) / 2)
    assert result["accuracy"].spread == pytest.approx(np.std([1.0, 0.75], ddof=1))
    assert result["accuracy"].models == 2
    assert result["macro-F1"].value == pytest.approx((1.0 + (2 / 3 + 4 / 5) / 2) / 2)
    assert result["AUC"].value == pytest.approx(1.0)


def test_figures_of_several_labels_are_those_of_the_library() -> None:
    """AUC of each label, ties included, averaged over the labels that some records have and others do not."""
    stream = np.random.default_rng(0)
    labels = stream.random((60, 4)) < 0.4
    labels[:, 3] = True
    logits = stream.normal(size=(1, 60, 4)).round(1)
    result = {metric.name: metric.value for metric in utility([observed(logits, dataset(labels, 0))])}
    assert result["AUC per label"] == pytest.approx(np.mean([roc_auc_score(labels[:, k], logits[0, :, k]) for k in range(3)]))


def test_regression_figures() -> None:
    labels = np.array([0.0, 1.0, 2.0])
    logits = np.array([[[0.0], [1.0], [3.0]]])
    result = {metric.name: metric.value for metric in utility([observed(logits, dataset(labels, 0))])}
    assert result["MSE"] == pytest.approx(1 / 3)
    assert result["R2"] == pytest.approx(0.5)


def test_models_with_crafted_gradients_are_left_out_where_others_exist() -> None:
    labels = np.array([0, 1])
    good, bad = np.array([[[1.0, 0.0], [0.0, 1.0]]]), np.array([[[0.0, 1.0], [1.0, 0.0]]])
    data = dataset(labels, 2)
    crafted = observed(bad, data, natural=False)
    assert utility([crafted, observed(good, data)])[0].value == 1.0
    assert utility([crafted])[0].value == 0.0


def test_the_mean_f1_of_classes_is_that_of_the_library_to_the_last_bit() -> None:
    stream = np.random.default_rng(1)
    for _ in range(50):
        classes, count = int(stream.integers(2, 12)), int(stream.integers(1, 40))
        labels, logits = stream.integers(0, classes, count), stream.normal(size=(1, count, classes)).round(1)
        figures = compute_utility(dataset(labels, classes), logits, np.zeros(1, dtype=bool))
        assert figures["macro-F1"][0] == f1_score(labels, logits[0].argmax(-1), average="macro", zero_division=0)


def test_models_that_diverged_have_no_figures_and_are_left_out() -> None:
    data = dataset(np.array([0, 1]), 2)
    models = observed(np.array([[[np.nan, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]]), data)
    assert np.isnan(models.test_figures["accuracy"]).tolist() == [True, False]
    (accuracy, *_) = utility([models])
    assert (accuracy.value, accuracy.models) == (1.0, 1)
    assert utility([observed(np.full((1, 2, 2), np.nan), data)]) == ()

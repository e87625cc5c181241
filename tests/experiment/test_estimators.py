"""Estimators nobody had tried, with labels of many forms: each AUC is that of an own computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import log_softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import audit
from audit.core.data import Array

N = 120
RANDOM = np.random.default_rng(77)
X = RANDOM.normal(size=(2 * N, 10)).astype(np.float32)
CLASSES = np.argmax(X[:, :3] + RANDOM.normal(size=(2 * N, 3)), axis=1)
YES = X[:, 0] + RANDOM.normal(size=2 * N) > 0
WORDS = np.array(["cat", "ant", "bee"])[CLASSES]
ESTIMATORS: dict[str, tuple[Any, Array]] = {
    "quadratic, words": (QuadraticDiscriminantAnalysis(), WORDS),
    "linear, floats": (LinearDiscriminantAnalysis(), CLASSES.astype(float)),
    "extra trees, 5 7 11": (ExtraTreesClassifier(50, min_samples_leaf=2, random_state=0), np.array([5, 7, 11])[CLASSES]),
    "linear margins, words": (LinearSVC(), np.array(["no", "yes"])[YES.astype(int)]),
    "linear margins, -1 and 1": (SVC(C=0.1, kernel="linear"), 2 * YES.astype(int) - 1),
    "ridge": (RidgeClassifier(), CLASSES),
    "gaussian process, bool": (GaussianProcessClassifier(), YES),
    "calibrated": (CalibratedClassifierCV(LinearSVC(), cv=3), WORDS),
    "boosted, floats": (HistGradientBoostingClassifier(max_iter=30), CLASSES.astype(np.float32)),
    "bagged neighbours": (BaggingClassifier(KNeighborsClassifier(3), n_estimators=20, random_state=0), CLASSES),
    "network, words": (MLPClassifier((64,), max_iter=300, random_state=0), WORDS),
    "squares, objects": (
        make_pipeline(PolynomialFeatures(2), StandardScaler(), LogisticRegression(C=100, max_iter=500)),
        WORDS.astype(object),
    ),
    "modified Huber": (SGDClassifier(loss="modified_huber", random_state=0), CLASSES),
    "stacked": (StackingClassifier([("tree", DecisionTreeClassifier(max_depth=6)), ("bayes", GaussianNB())], cv=3), WORDS),
    "voting, 9 3 1": (
        VotingClassifier([("forest", RandomForestClassifier(20)), ("line", LogisticRegression())], voting="soft"),
        np.array([9, 3, 1])[CLASSES],
    ),
    "one against the rest": (OneVsRestClassifier(LogisticRegression(C=100)), WORDS),
}


def own_auc(losses: Array) -> float:
    pairs = losses[:N, None] - losses[None, N:]
    return float((pairs < 0).mean() + (pairs == 0).mean() / 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_auc_of_an_estimator_is_that_of_its_own_probabilities(name: str) -> None:
    estimator, labels = ESTIMATORS[name]
    estimator.fit(X[:N], labels[:N])
    columns = [int(np.flatnonzero(estimator.classes_ == label)[0]) for label in labels]
    if hasattr(estimator, "predict_proba"):
        logs = np.log(np.maximum(estimator.predict_proba(X), np.finfo(np.float32).tiny))
    else:
        margins = estimator.decision_function(X)
        logs = log_softmax(margins if margins.ndim == 2 else np.stack([0 * margins, margins], axis=1), axis=1)
    expected = own_auc(-logs[np.arange(2 * N), columns].round(9))
    result = audit.check(estimator, (X[:N], labels[:N]), (X[N:], labels[N:]), quiet=True)
    assert next(row.auc for row in result.attacks if row.attack == "loss") == pytest.approx(expected, abs=4e-3)


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame])
@pytest.mark.parametrize(
    "estimator", [KNeighborsClassifier(5, weights="distance"), HistGradientBoostingClassifier(), GaussianProcessClassifier()]
)
def test_an_estimator_gets_records_as_precise_as_they_were_given(estimator: Any, form: Any) -> None:
    """In float32 a memorised record is no longer at distance 0, and a threshold is on another side of it."""
    places = 1 + RANDOM.permutation(2 * N)[:, None] * 2.0**-40
    records = places if isinstance(estimator, HistGradientBoostingClassifier) else RANDOM.normal(size=(2 * N, 4))
    labels = YES.astype(int)
    estimator.fit(form(records[:N]), labels[:N])
    shares = estimator.predict_proba(form(records))[np.arange(2 * N), labels]
    result = audit.check(estimator, (form(records[:N]), labels[:N]), (form(records[N:]), labels[N:]), quiet=True)
    own = own_auc(-np.log(np.maximum(shares, np.finfo(np.float32).tiny)))
    assert next(row.auc for row in result.attacks if row.attack == "loss") == pytest.approx(own, abs=1e-3)


def test_a_function_that_raises_on_float64_gets_float32() -> None:
    layer = torch.nn.Linear(10, 3)
    areas = [
        audit.check(model, (X[:N].astype(kind), CLASSES[:N]), (X[N:].astype(kind), CLASSES[N:]), quiet=True).attacks[0].auc
        for model, kind in ((layer, np.float32), (lambda x: layer(torch.from_numpy(x)), np.float64))
    ]
    assert areas[0] == areas[1]


@pytest.mark.slow
def test_columns_of_a_regression_count_alike_whatever_their_unit() -> None:
    truths = np.stack([2 * X[:, 0] + RANDOM.normal(size=2 * N), 1000 * (X[:, 1] + RANDOM.normal(size=2 * N))], axis=1)
    forest = RandomForestRegressor(50, random_state=0).fit(X[:N], truths[:N])
    squares = (forest.predict(X) - truths) ** 2
    result = audit.check(forest, (X[:N], truths[:N]), (X[N:], truths[N:]), quiet=True)
    expected = own_auc((squares / squares.mean(axis=0)).sum(axis=1))
    assert next(row.auc for row in result.attacks if row.attack == "loss") == pytest.approx(expected, abs=1e-6)
    assert "divided by its mean over all records" in str(result)

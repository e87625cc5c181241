"""Estimators with scikit-learn's interface are audited as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import audit
from audit.experiment.external.external_models import query_model

STREAM = np.random.default_rng(0)
INPUTS, LABELS = STREAM.normal(size=(240, 5)).astype(np.float32), STREAM.integers(2, size=240)


@pytest.mark.parametrize(
    "estimator",
    [make_pipeline(StandardScaler(), LogisticRegression()), LinearSVC(), RandomForestClassifier(20, random_state=0)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_an_estimator_is_given_as_it_is(estimator: Any) -> None:
    estimator.fit(INPUTS[:120], LABELS[:120])
    logits = query_model(estimator, INPUTS, LABELS).values
    assert logits.shape == (240, 2)
    assert (logits.argmax(axis=1) == estimator.predict(INPUTS)).mean() > 0.95  # a forest's ties fall either way


def test_a_forest_that_remembers_is_found() -> None:
    forest = RandomForestClassifier(30, random_state=0).fit(INPUTS[:120], LABELS[:120])
    result = audit.check(forest, (INPUTS[:120], LABELS[:120]), (INPUTS[120:], LABELS[120:]), quiet=True)
    assert next(iter(result.attacks)).auc > 0.9


def test_an_object_without_outputs_is_refused() -> None:
    with pytest.raises(audit.ConfigError, match="predict_proba, decision_function or predict"):
        query_model(object(), INPUTS, LABELS)

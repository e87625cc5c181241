"""Fresh ways to hand over models and data: each gives the AUC of formulas of this file, or says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import special
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import LabelEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import audit
from audit.core.claims import Outcome
from audit.core.data import Array
from audit.core.errors import AuditError
from audit.experiment.external.inspection import References, Settings, examine

N = 300
MEMBER = np.arange(N) < N // 2
RANDOM = np.random.default_rng(7)
INPUTS = RANDOM.normal(size=(N, 6)).astype(np.float32)
NOISY = INPUTS[:, 0] + 0.7 * RANDOM.normal(size=N)
LABELS = np.digitize(NOISY, [-0.6, 0.6])
TEXTS = np.array(["low", "middle", "high"])[LABELS]
PLACES = {row.tobytes(): place for place, row in enumerate(INPUTS)}
LOGITS = RANDOM.normal(size=(N, 3)) + (1 + 3 * MEMBER)[:, None] * np.eye(3)[LABELS]
SHARES = special.softmax(LOGITS, axis=1)
KEPT = np.where(LOGITS.min(axis=1, keepdims=True) < LOGITS, LOGITS, -np.inf)
YES = (NOISY > 0).astype(int)
MARGIN = RANDOM.normal(size=N) + (2 * YES - 1) * (0.5 + 2 * MEMBER)
SETTINGS = Settings(scorers=("loss",), certificates=0)


def answer(outputs: Any) -> Callable[[Any], Any]:
    return lambda inputs: outputs[[PLACES[np.asarray(row, np.float32).tobytes()] for row in inputs]]


def check(model: Any, labels: Any, **further: Any) -> audit.ModelCheck:
    half = N // 2
    sides = [(INPUTS[:half], labels[:half]), (INPUTS[half:], labels[half:])]
    return audit.ModelCheck(inspection=examine(model, *sides, SETTINGS, **further))


def own_auc(losses: Array) -> float:
    return float(roc_auc_score(MEMBER, -np.round(losses, 9)))


def class_losses(shares: Array, columns: Array) -> Array:
    return -np.log(np.maximum(shares[np.arange(N), columns], 1e-37))


OWN_CLASSES = own_auc(class_losses(SHARES, LABELS))
OWN_YES = own_auc(np.logaddexp(0, np.where(YES == 1, -MARGIN, MARGIN)))
RIGHT: dict[str, tuple[Any, Any, float]] = {
    "categories in another order": (LOGITS, pd.Series(pd.Categorical(LABELS, categories=[2, 0, 1])), OWN_CLASSES),
    "nullable boolean": (MARGIN, pd.Series(YES == 1).astype("boolean"), OWN_YES),
    "one-hot frame": (LOGITS, pd.get_dummies(pd.Series(LABELS)), OWN_CLASSES),
    "signs beside one column": (MARGIN[:, None], 2.0 * YES[:, None] - 1, OWN_YES),
    "half precision": (SHARES.astype(np.float16), LABELS, OWN_CLASSES),
    "half log-probabilities": (np.log(SHARES).astype(np.float16), LABELS, OWN_CLASSES),
    "half percentages": ((100 * SHARES).astype(np.float16), LABELS, OWN_CLASSES),
    "whole per mille": (np.round(1000 * SHARES).astype(np.uint16), LABELS, OWN_CLASSES),
    "bytes": (np.round(255 * SHARES).astype(np.uint8), LABELS, OWN_CLASSES),
    "half probability of yes": (special.expit(MARGIN).astype(np.float16), YES, OWN_YES),
    "twice the hyperbolic tangent": (2 * np.tanh(MARGIN / 4), YES, OWN_YES),
    "sums of up to 2": (SHARES * np.where(np.arange(N) % 30, 1, 2)[:, None], LABELS, OWN_CLASSES),
}
MISSING = np.arange(N) == 3
LOUD: dict[str, tuple[Any, Any, str]] = {
    "list with None": (LOGITS, [None if is_out else str(text) for is_out, text in zip(MISSING, TEXTS, strict=True)], "missing"),
    "Int64 with NA": (LOGITS, pd.Series(LABELS).astype("Int64").mask(MISSING), "1 values that are NaN"),
    "boolean with NA": (MARGIN, pd.Series(YES == 1).astype("boolean").mask(MISSING), "1 missing values, .* record 4"),
    "categories with NaN": (LOGITS, pd.Series(pd.Categorical(np.where(MISSING, "?", TEXTS), categories=set(TEXTS))), "missing"),
    "smoothed yes": (MARGIN, 0.9 * YES + 0.05, "as smoothed labels do"),
    "smoothed rows": (LOGITS, 0.85 * np.eye(3)[LABELS] + 0.05, "soft labels"),
    "losses of classes": (-np.log(SHARES), LABELS, "members do worse"),
    "logarithm of yes": (special.log_expit(MARGIN), YES, "Look first"),
    "margin of the truth": (MARGIN * (2 * YES - 1), YES, "another reading fits far better"),
    "probability of no": (special.expit(-MARGIN), YES, "members do worse"),
    "two tasks in pairs": (LOGITS, list(zip(LABELS.tolist(), YES.tolist(), strict=True)), "one logit or probability for each"),
    "three quantiles": (LOGITS, NOISY, "one prediction for each number"),
    "one class less": (LOGITS, pd.get_dummies(pd.Series(LABELS), drop_first=True), "one logit or probability for each label"),
    "two largest, divided by their sum": (special.softmax(KEPT, axis=1), LABELS, "2 of 3 classes above 0"),
    "another currency": (NOISY + 3, 1.3 * (NOISY + 3) + np.random.default_rng(1).normal(size=N), "lie far from y on average"),
    "survival, (n, 2)": (MARGIN, np.stack([np.abs(NOISY), YES], axis=1), "expected the same shape"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", RIGHT)
def test_a_right_way_gives_the_figure_of_the_formula(way: str) -> None:
    outputs, labels, expected = RIGHT[way]
    result = check(answer(outputs), labels)
    assert result.attacks[0].auc == pytest.approx(expected, abs=2e-3) and result.report.outcome is not Outcome.INVALID


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", LOUD)
def test_a_wrong_way_is_loud(way: str) -> None:
    outputs, labels, words = LOUD[way]
    with pytest.raises(AuditError, match=words):
        raise AuditError(str(check(answer(outputs), labels)))


def tree() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(max_depth=6, random_state=0)


ESTIMATORS: dict[str, Any] = {
    "grid": GridSearchCV(tree(), {"max_depth": [3, None]}),
    "calibrated": CalibratedClassifierCV(tree()),
    "voting": VotingClassifier([("a", tree()), ("b", LogisticRegression())], voting="soft"),
    "stacking": StackingClassifier([("a", tree()), ("b", KNeighborsClassifier(3))]),
    "one against the others": OneVsRestClassifier(tree()),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("kind", ["categories", "string", "list"])
def test_composed_estimators_name_their_columns(name: str, kind: str) -> None:
    forms = {"categories": pd.Series(pd.Categorical(TEXTS)), "string": pd.Series(TEXTS, dtype="string"), "list": TEXTS.tolist()}
    model = ESTIMATORS[name].fit(INPUTS[MEMBER], TEXTS[MEMBER])
    expected = own_auc(class_losses(model.predict_proba(INPUTS), LabelEncoder().fit_transform(TEXTS)))
    assert check(model, forms[kind]).attacks[0].auc == pytest.approx(expected, abs=5e-3)


@pytest.mark.slow
def test_encoded_labels_and_hard_votes_are_loud() -> None:
    codes = LabelEncoder().fit_transform(TEXTS)
    forest = RandomForestClassifier(20, random_state=0).fit(INPUTS[MEMBER], codes[MEMBER])
    assert check(forest, codes).report.outcome is not Outcome.INVALID
    assert check(forest, LABELS).report.outcome is Outcome.INVALID
    with pytest.raises(AuditError, match="none of the classes that the model names: 0, 1, 2"):
        check(forest, TEXTS)
    with pytest.raises(AuditError, match="predict gives int64, that is, classes"):
        check(VotingClassifier([("a", tree()), ("b", tree())]).fit(INPUTS[MEMBER], codes[MEMBER]), codes)


@pytest.mark.slow
def test_a_regressor_of_transformed_numbers_is_read_in_the_unit_of_y() -> None:
    model = TransformedTargetRegressor(
        DecisionTreeRegressor(max_depth=6, random_state=0), func=np.sinh, inverse_func=np.arcsinh
    )
    model.fit(INPUTS[MEMBER], 3 * NOISY[MEMBER])
    expected = own_auc((model.predict(INPUTS) - 3 * NOISY) ** 2)
    assert check(model, 3 * NOISY).attacks[0].auc == pytest.approx(expected, abs=1e-6)
    assert "Look first: predictions follow the order of y" in str(check(model, np.sinh(3 * NOISY)))
    assert "Look first" not in str(check(model, 3 * NOISY))


class Renamed:
    """A forest with columns in another order than by name."""

    def __init__(self, forest: RandomForestClassifier, order: Array) -> None:
        self.forest, self.order, self.classes_ = forest, order, forest.classes_[order]

    def predict_proba(self, inputs: Array) -> Array:
        return np.asarray(self.forest.predict_proba(inputs)[:, self.order])


@pytest.mark.slow
def test_references_with_another_order_of_classes_are_compared_by_name() -> None:
    included = RANDOM.random((4, N)) < 0.5
    forests = [RandomForestClassifier(20, random_state=0).fit(INPUTS[side], TEXTS[side]) for side in (MEMBER, *included)]
    settings = Settings(scorers=("lira",), proven_by=("lira",), certificates=0)
    sides = [(INPUTS[side], TEXTS[side]) for side in (MEMBER, ~MEMBER)]
    scores = []
    for orders in ([np.arange(3)] * 4, [RANDOM.permutation(3) for _ in range(4)]):
        models = [Renamed(forest, order) for forest, order in zip(forests[1:], orders, strict=True)]
        result = examine(forests[0], *sides, settings, References(included=included, models=models))
        scores.append(result.scores["lira"])
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-9)


def test_weights_beside_y_are_named() -> None:
    sides = [(INPUTS[side], LABELS[side], RANDOM.random(side.sum())) for side in (MEMBER, ~MEMBER)]
    for model in (torch.nn.Linear(6, 3), lambda inputs: inputs @ np.ones((6, 3))):
        with pytest.raises(AuditError, match="leave out weights"):
            examine(model, *sides, SETTINGS)

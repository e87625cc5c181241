"""Sixty ways to hand over the same twelve models: right ones give equal figures, wrong ones are refused or invalid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import special
from scipy.stats import rankdata
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import audit
from audit.core.claims import Outcome
from audit.core.data import Array
from audit.core.errors import AuditError
from audit.experiment.external.inspection import Settings, examine

N = 400
RANDOM = np.random.default_rng(20261124)
MEMBER = audit.draw_coins(N, 5)
INPUTS = RANDOM.normal(size=(N, 6)).astype(np.float32)
PLACES = {row.tobytes(): place for place, row in enumerate(INPUTS)}
SETTINGS = Settings(scorers=("loss",), certificates=0)  # no other attack, so that 500 audits take seconds
Given = tuple[Any, Any]


def answer(outputs: Any, wrap: Callable[[Any], Any] = lambda rows: rows) -> Callable[[Any], Any]:
    return lambda inputs: wrap(outputs[[PLACES[np.asarray(row).tobytes()] for row in inputs]])


def classes(count: int, gain: float) -> Given:
    labels = RANDOM.integers(0, count, N)
    return RANDOM.normal(size=(N, count)) + (1 + gain * MEMBER)[:, None] * np.eye(count)[labels], labels


def fitted(model: Any) -> Given:
    labels = np.digitize(INPUTS[:, 0] + RANDOM.normal(size=N), [-0.6, 0.6])
    return model.fit(INPUTS[MEMBER], labels[MEMBER]).predict_proba(INPUTS), labels


def yes_or_no(shape: tuple[int, ...]) -> Given:
    labels = RANDOM.integers(0, 2, shape)
    return RANDOM.normal(size=shape) + (2 * labels - 1) * (0.5 + 2 * MEMBER).reshape(-1, *[1] * (len(shape) - 1)), labels


def numbers(shape: tuple[int, ...]) -> Given:
    truths = RANDOM.normal(size=shape) * 3
    return truths + RANDOM.normal(size=shape) * np.where(MEMBER, 0.1, 0.8).reshape(-1, *[1] * (len(shape) - 1)), truths


MODELS: dict[str, tuple[str, Given]] = {
    "one logit": ("one", yes_or_no((N,))),
    "column of logits": ("one", yes_or_no((N, 1))),
    "pair": ("pair", classes(2, 4)),
    "three classes": ("classes", classes(3, 4)),
    "six classes": ("classes", classes(6, 4)),
    "ten classes": ("classes", classes(10, 5)),
    "forest": ("shares", fitted(RandomForestClassifier(20, random_state=0))),
    "tree": ("shares", fitted(DecisionTreeClassifier(random_state=0))),
    "neighbours": ("shares", fitted(KNeighborsClassifier(3))),
    "several labels": ("several", yes_or_no((N, 3))),
    "number": ("numbers", numbers((N,))),
    "three numbers": ("numbers", numbers((N, 3))),
}
CLASSES, WHOLE, ALL = "pair classes shares", "one pair classes shares several", "one pair classes shares several numbers"


def cast(kind: Any) -> Callable[[Any, Any], Given]:
    return lambda outputs, labels: (answer(outputs), labels.astype(kind))


def one_hot(labels: Array) -> Array:
    return np.eye(labels.max() + 1)[labels]


def tracked(rows: Array) -> torch.Tensor:
    return torch.tensor(rows, requires_grad=True)


def logarithms(shares: Array) -> Array:
    return np.log(shares, where=shares > 0, out=np.full_like(shares, -np.inf))


def rows(labels: Array) -> Array:
    return labels.reshape(N, -1)


RIGHT: dict[str, tuple[str, Callable[[Any, Any], Given]]] = {
    **{f"y {kind}": (WHOLE, cast(kind)) for kind in ("i1", "u1", "i4", "u8", "f2", "f4", "f8", ">i4", "O")},
    "y (n, 1)": ("one " + CLASSES, lambda outputs, y: (answer(outputs), y.reshape(N, 1))),
    "y (n, 1, 1)": ("one " + CLASSES, lambda outputs, y: (answer(outputs), y.reshape(N, 1, 1))),
    "y bool": ("one several", cast(bool)),
    "y -1 and 1": ("one several", lambda outputs, y: (answer(outputs), 2 * y - 1)),
    "y tensor": (ALL, lambda outputs, y: (answer(outputs), torch.tensor(y))),
    "y frame": (ALL, lambda outputs, y: (answer(outputs), pd.DataFrame(rows(y)))),
    "y Int64": (CLASSES, lambda outputs, y: (answer(outputs), pd.Series(y).astype("Int64"))),
    "y categorical": (CLASSES, lambda outputs, y: (answer(outputs), pd.Series(pd.Categorical(y)))),
    "y one-hot": (CLASSES, lambda outputs, y: (answer(outputs), one_hot(y))),
    "y one-hot bool": (CLASSES, lambda outputs, y: (answer(outputs), one_hot(y).astype(bool))),
    "y one-hot (n, k, 1)": (CLASSES, lambda outputs, y: (answer(outputs), one_hot(y)[..., None])),
    "outputs tensor": (ALL, lambda outputs, y: (answer(outputs, torch.tensor), y)),
    "outputs that ask for gradients": (ALL, lambda outputs, y: (answer(outputs, tracked), y)),
    "outputs list": (ALL, lambda outputs, y: (answer(outputs, lambda r: r.tolist()), y)),
    "outputs frame": (ALL, lambda outputs, y: (answer(outputs, lambda r: pd.DataFrame(r.reshape(len(r), -1))), y)),
    "outputs of a dictionary": (ALL, lambda outputs, y: (answer(outputs, lambda r: {"logits": r}), y)),
    "outputs of a tuple": (ALL, lambda outputs, y: (answer(outputs, lambda r: (r,)), y)),
    "outputs (n, k, 1, 1)": (ALL, lambda outputs, y: (answer(outputs.reshape(N, -1, 1, 1)), y)),
    "outputs (n, 1, k)": (CLASSES, lambda outputs, y: (answer(outputs[:, None]), y)),
    "probabilities": ("one several", lambda outputs, y: (answer(special.expit(outputs)), y)),
    "softmax": ("pair classes", lambda outputs, y: (answer(special.softmax(outputs, axis=1)), y)),
    "log-softmax": ("pair classes", lambda outputs, y: (answer(special.log_softmax(outputs, axis=1)), y)),
    "logits moved by row": ("pair classes", lambda outputs, y: (answer(outputs + np.arange(N)[:, None] % 7), y)),
    "odds": ("pair classes", lambda outputs, y: (answer(1 / (1 / special.softmax(outputs, axis=1) - 1)), y)),
    "percent": ("shares", lambda outputs, y: (answer(100 * outputs), y)),
    "log-probabilities": ("shares", lambda outputs, y: (answer(logarithms(outputs)), y)),
}  # fmt: skip
QUESTIONS = {"y shuffled", "x shuffled", "another model"}
"""Ways that give what a strongly private model may give as well: asked about in the first line."""
WRONG: dict[str, tuple[str, Callable[[Any, Any], Given]]] = {
    "labels + 1": (CLASSES, lambda outputs, y: (answer(outputs), y + 1)),
    "labels - 1": (CLASSES, lambda outputs, y: (answer(outputs), y - 1)),
    "labels turned": (CLASSES, lambda outputs, y: (answer(outputs), (y + 1) % (y.max() + 1))),
    "columns turned": (CLASSES, lambda outputs, y: (answer(np.roll(outputs, 1, axis=1)), y)),
    "one column less": (CLASSES, lambda outputs, y: (answer(outputs[:, :-1]), y)),
    "other sign": ("one pair classes several", lambda outputs, y: (answer(-outputs), y)),
    "one less the probability": ("one several", lambda outputs, y: (answer(1 - special.expit(outputs)), y)),
    "yes and no exchanged": ("one several", lambda outputs, y: (answer(outputs), 1 - y)),
    "percentages of yes": ("one", lambda outputs, y: (answer(100 * special.expit(outputs)), y)),
    "odds of yes": ("one", lambda outputs, y: (answer(np.exp(outputs)), y)),
    "sigmoid of each class": ("pair classes", lambda outputs, y: (answer(special.expit(outputs)), y)),
    "classes in the place of scores": ("classes shares", lambda outputs, y: (answer(outputs.argmax(axis=1)), y)),
    "y shuffled": (ALL, lambda outputs, y: (answer(outputs), np.random.default_rng(1).permutation(y))),
    "x shuffled": (ALL, lambda outputs, y: (answer(np.random.default_rng(1).permutation(outputs)), y)),
    "another model": ("classes", lambda outputs, y: (answer(np.random.default_rng(2).normal(size=outputs.shape)), y)),
    "y of one value": ("one " + CLASSES, lambda outputs, y: (answer(outputs), 0 * y)),
    "y text": (WHOLE, lambda outputs, y: (answer(outputs), y.astype(str))),
    "y soft": (CLASSES, lambda outputs, y: (answer(outputs), 0.9 * one_hot(y) + 0.1 / (y.max() + 1))),
    "y with NaN": (ALL, lambda outputs, y: (answer(outputs), np.where(np.arange(y.size).reshape(y.shape) == 3, np.nan, y))),
    "outputs NaN": (ALL, lambda outputs, y: (answer(outputs * np.nan), y)),
    "outputs of half the batch": (ALL, lambda outputs, y: (answer(outputs, lambda r: r[::2]), y)),
    "records on the second axis": (CLASSES, lambda outputs, y: (answer(outputs, lambda r: r.T), y)),
    "another unit": ("numbers", lambda outputs, y: (answer(60 * outputs + 5), y)),
    "numbers negated": ("numbers", lambda outputs, y: (answer(-outputs), y)),
    "outputs text": (ALL, lambda outputs, y: (answer(outputs.astype(str)), y)),
}


def check(setup: Given) -> audit.ModelCheck:
    target, labels = setup
    sides = [(INPUTS[side], labels[side]) for side in (MEMBER, ~MEMBER)]
    return audit.ModelCheck(inspection=examine(target, *sides, SETTINGS))


def own_auc(kind: str, outputs: Array, labels: Array) -> float:
    """The share of pairs that the loss orders, ties at half, by formulas of this file alone."""
    if kind == "numbers":
        losses = ((outputs - labels) ** 2).reshape(N, -1).sum(axis=1)
    elif kind in ("one", "several"):
        losses = np.logaddexp(0, np.where(rows(labels) == 1, -rows(outputs), rows(outputs))).sum(axis=1)
    else:
        logits = outputs if kind in ("pair", "classes") else np.log(np.maximum(outputs, 1e-37))
        losses = special.logsumexp(logits, axis=1) - logits[np.arange(N), labels]
    ranks, members = rankdata(-losses.round(9)), int(MEMBER.sum())
    return float((ranks[MEMBER].sum() - members * (members + 1) / 2) / (members * (N - members)))


def fault(name: str, setup: Given, expected: float | None) -> str:
    """What is wrong with how a way was answered, "" if nothing is; `expected` None of a wrong way."""
    try:
        result = check(setup)
    except AuditError as error:
        return "" if expected is None else f"{name}: refused: {error}"
    is_invalid, area = result.report.outcome is Outcome.INVALID, result.attacks[0].auc
    if expected is None:
        is_asked = name in QUESTIONS and "Look first" in str(result)
        return "" if is_invalid or is_asked else f"{name}: silent, AUC {area}"
    # sums of shares differ in the last digit, which breaks ties
    is_right = not is_invalid and area == pytest.approx(expected, abs=5e-3)
    return "" if is_right else f"{name}: {result.report.outcome}, AUC {area} in the place of {expected}"


def test_there_are_sixty_ways_and_twelve_models() -> None:
    assert (len(MODELS), len(RIGHT), len(WRONG)) == (12, 35, 25)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_right_ways_give_equal_figures_and_wrong_ones_are_loud(name: str) -> None:
    kind, (outputs, labels) = MODELS[name]
    expected = own_auc(kind, outputs, labels)
    right = [fault(way, make(outputs, labels), expected) for way, (kinds, make) in RIGHT.items() if kind in kinds.split()]
    wrong = [fault(way, make(outputs, labels), None) for way, (kinds, make) in WRONG.items() if kind in kinds.split()]
    assert [text for text in right + wrong if text] == []

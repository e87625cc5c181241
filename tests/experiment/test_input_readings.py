"""x in another order or scale than the model was trained on is asked about in the first line; weak models are not refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import audit
from audit.core.errors import DataError

RECORDS, COLUMNS, CLASSES = 160, 7, 3
ORDER = np.array([3, 0, 6, 1, 5, 2, 4])


def records() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    labels = draw.integers(CLASSES, size=2 * RECORDS)
    centres = 2 * draw.normal(size=(CLASSES, COLUMNS)) * np.linspace(1, 0.2, COLUMNS)
    return (centres[labels] + draw.normal(size=(2 * RECORDS, COLUMNS))) * np.linspace(0.2, 5, COLUMNS) + 4, labels


def fit(inputs: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Least squares of one-hot classes, answered as logits."""
    with_ones = np.column_stack([inputs.reshape(len(inputs), -1), np.ones(len(inputs))])
    weights = np.linalg.lstsq(with_ones, 8 * np.eye(CLASSES)[labels], rcond=None)[0]
    return lambda batch: np.column_stack([np.reshape(batch, (len(batch), -1)), np.ones(len(batch))]) @ weights


def check(model: Callable, inputs: np.ndarray, labels: np.ndarray) -> audit.ModelCheck:
    sides = slice(RECORDS), slice(RECORDS, None)
    return audit.check(model, *((inputs[side], labels[side]) for side in sides), quiet=True)


READINGS = {
    "x in reverse order along axis 1": lambda x: x[:, ::-1],
    "columns of x one to the left": lambda x: np.roll(x, 1, axis=1),
    "columns of x one to the right": lambda x: np.roll(x, -1, axis=1),
    f"columns of x in the order {np.argsort(ORDER).tolist()}": lambda x: x[:, ORDER],
    "x / 255": lambda x: x * 255,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", READINGS)
def test_another_order_or_scale_of_columns_is_asked_about(name: str) -> None:
    inputs, labels = records()
    model = fit(inputs[:RECORDS], labels[:RECORDS])
    result = check(model, READINGS[name](inputs), labels)
    preflight = result.report.mechanisms[0].preflight
    assert preflight is not None and not preflight.doubt and name in preflight.question, preflight
    assert f"Look first: the model's answers fit y far better with {name}" in str(result)
    reading = check(model, inputs, labels).report.mechanisms[0].preflight
    assert reading is not None and not reading.question and preflight.alternatives[0].fit == pytest.approx(reading.members)
    assert preflight.alternatives[0].auc == pytest.approx(reading.auc)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("x in reverse order along axis 2", lambda x: x[:, :, ::-1]),
        ("axes 2 and 3 of x exchanged", lambda x: x.swapaxes(2, 3)),
        ("x less its mean, divided by its deviation", lambda x: 9 * x + 30),
    ],
)
def test_turned_and_scaled_images_are_asked_about(name: str, change: Callable) -> None:
    draw = np.random.default_rng(1)
    labels = draw.integers(CLASSES, size=2 * RECORDS)
    images = draw.normal(size=(CLASSES, 2, 4, 4))[labels] + draw.normal(size=(2 * RECORDS, 2, 4, 4))
    images = (images - images.mean(axis=0)) / images.std(axis=0)
    preflight = check(fit(images[:RECORDS], labels[:RECORDS]), change(images), labels).report.mechanisms[0].preflight
    assert preflight is not None and name in preflight.question, preflight


class Places(torch.nn.Module):
    """Adds up the meaning of words, which their place weighs."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        weights = 1 + 0.6 * torch.sin(2.0 * torch.arange(tokens.shape[1]))
        meaning = (torch.where(tokens > 0, torch.cos(1.7 * tokens), torch.zeros(())) * weights).sum(dim=1)
        return 3 * torch.stack([-meaning, meaning], dim=1)


def test_padding_at_the_other_end_that_keeps_most_answers_right_is_asked_about() -> None:
    draw = np.random.default_rng(3)
    tokens = draw.integers(2, 40, size=(2 * RECORDS, 10))
    tokens[np.arange(10) >= draw.integers(4, 10, size=(2 * RECORDS, 1))] = 0
    labels = draw.binomial(1, Places()(torch.as_tensor(tokens)).softmax(dim=1)[:, 1].numpy())
    moved = np.take_along_axis(tokens, np.argsort(tokens > 0, axis=1, kind="stable"), axis=1)
    for given, words in ((tokens, ""), (moved, "padding of x last")):
        preflight = check(Places(), given, labels).report.mechanisms[0].preflight
        assert preflight is not None and preflight.members is not None and preflight.members > 0.75
        assert words in preflight.question and bool(words) == bool(preflight.question), preflight


@pytest.mark.parametrize("shape", [(12,), (3, 5, 5)], ids=["columns", "images"])
def test_statistics_of_other_records_that_keep_answers_right_are_asked_about(shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(5)
    labels = draw.integers(2, size=2 * RECORDS)
    inputs = 1.2 * draw.normal(size=(2, *shape))[labels] + draw.normal(size=(2 * RECORDS, *shape))
    others = (0, *range(2, inputs.ndim))
    inputs = (inputs - inputs.mean(axis=others, keepdims=True)) / inputs.std(axis=others, keepdims=True)
    classifier = LogisticRegression(C=1e4).fit(inputs[:RECORDS].reshape(RECORDS, -1), labels[:RECORDS])
    sizes = (1, shape[0], *[1] * (len(shape) - 1))
    moved = (inputs + 0.6 * draw.normal(size=sizes)) * np.exp(0.3 * draw.normal(size=sizes))
    for given, is_asked in ((inputs, False), (moved, True)):
        result = check(lambda batch: classifier.predict_proba(batch.reshape(len(batch), -1)), given, labels)
        preflight = result.report.mechanisms[0].preflight
        assert preflight is not None and preflight.members is not None and preflight.members > 0.85
        assert ("x standardised by these records" in preflight.question) == is_asked, preflight


def test_a_model_that_learned_next_to_nothing_is_asked_about_and_keeps_its_figures() -> None:
    inputs, labels = records()
    noise = np.random.default_rng(2).normal(size=(COLUMNS, CLASSES))
    result = check(lambda batch: (batch - inputs.mean(axis=0)) @ noise, inputs, labels)
    assert not result.report.mechanisms[0].is_void


def test_a_model_that_refuses_other_records_is_not_asked_twice() -> None:
    inputs, labels = records()
    noise = np.random.default_rng(3).normal(size=(COLUMNS, CLASSES))

    def strict(batch: np.ndarray) -> np.ndarray:
        if np.abs(batch).max() > 2 * np.abs(inputs).max() or len(batch) > 2 * RECORDS:
            raise ValueError("out of range")
        return batch[:, ::-1] @ noise

    assert not check(strict, inputs, labels).report.mechanisms[0].is_void


def test_the_mean_of_a_batch_is_no_loss_of_its_records() -> None:
    inputs, labels = records()
    sides = (inputs[:RECORDS], labels[:RECORDS]), (inputs[RECORDS:], labels[RECORDS:])
    with pytest.raises(DataError, match="the mean of a batch"):
        audit.check(loss_of=lambda batch: np.full(len(batch[1]), batch[0].mean()), members=sides[0], nonmembers=sides[1])
    known = {row.tobytes() for row in sides[0][0]}
    result = audit.check(
        loss_of=lambda batch: np.array([row.tobytes() not in known for row in batch[0]], float),
        members=sides[0],
        nonmembers=sides[1],
        quiet=True,
    )
    assert result.attacks[0].auc == 1.0, "a model that knows its records has equal losses, too"

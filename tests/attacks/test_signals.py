"""Signals against definitions written out loop by loop in exact or plain arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit.stats.scoring import signals

RANDOM = np.random.default_rng(0)
LOGITS = RANDOM.standard_normal((3, 7, 5)) * 4
LABELS = RANDOM.integers(0, 5, 7)


def softmax(row: np.ndarray) -> list[float]:
    total = math.fsum(math.exp(v) for v in row)
    return [math.exp(v) / total for v in row]


def each() -> list[tuple[tuple[int, int], list[float], int]]:
    return [((k, i), softmax(LOGITS[k, i]), int(LABELS[i])) for k in range(3) for i in range(7)]


def test_cross_entropy_and_confidence() -> None:
    loss, confidence = signals.cross_entropy(LOGITS, LABELS), signals.scaled_confidence(LOGITS, LABELS)
    for at, p, y in each():
        assert loss[at] == pytest.approx(-math.log(p[y]), rel=1e-9)
        assert confidence[at] == pytest.approx(math.log(p[y] / (1 - p[y])), rel=1e-9, abs=1e-9)


def test_entropies() -> None:
    plain, modified = signals.entropy(LOGITS), signals.modified_entropy(LOGITS, LABELS)
    for at, p, y in each():
        assert plain[at] == pytest.approx(-sum(v * math.log(v) for v in p), rel=1e-9)
        naive = -(1 - p[y]) * math.log(p[y]) - sum(v * math.log(1 - v) for j, v in enumerate(p) if j != y)
        assert modified[at] == pytest.approx(naive, rel=1e-9)


def test_nothing_saturates() -> None:
    logits = np.array([[0.0, 400.0], [0.0, 401.0], [0.0, -400.0]])
    labels = np.array([1, 1, 1])
    np.testing.assert_allclose(signals.scaled_confidence(logits, labels), [400.0, 401.0, -400.0])
    loss = signals.cross_entropy(logits, labels)
    assert 0 < loss[1] < loss[0] < 1e-170
    assert loss[2] == pytest.approx(400.0)
    modified = signals.modified_entropy(logits, labels)
    assert np.isfinite(modified).all()
    assert modified[2] == pytest.approx(800.0)  # both terms: -(1 - p_y) log p_y and -p_j log(1 - p_j)


def test_confidence_from_losses_is_the_same_quantity() -> None:
    direct = signals.scaled_confidence(LOGITS[0], LABELS)
    np.testing.assert_allclose(signals.loss_confidences(signals.cross_entropy(LOGITS[0], LABELS)), direct, rtol=1e-9)
    rounded = np.array([0.0, 1e-3], dtype=np.float32)
    result = signals.loss_confidences(rounded)
    assert np.isfinite(result).all()
    assert result[0] == pytest.approx(24 * math.log(2), abs=1e-6)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    full = signals.scaled_confidence(LOGITS, LABELS)
    monkeypatch.setattr(signals, "_BLOCK", 10)
    np.testing.assert_array_equal(signals.scaled_confidence(LOGITS, LABELS), full)


def test_correct_and_top() -> None:
    np.testing.assert_array_equal(signals.correct(LOGITS, LABELS), LOGITS.argmax(-1) == LABELS)
    top = signals.top_confidences(LOGITS[0], LABELS, 3)
    for i in range(7):
        p = softmax(LOGITS[0, i])
        np.testing.assert_allclose(np.exp(top[i]), [*sorted(p, reverse=True)[:3], p[LABELS[i]]], rtol=1e-9)


def test_wrong_shapes_and_labels() -> None:
    with pytest.raises(ValueError, match="labels of shape"):
        signals.cross_entropy(LOGITS, LABELS[:3])
    with pytest.raises(ValueError, match="labels from"):
        signals.cross_entropy(LOGITS, LABELS + 4)
    with pytest.raises(ValueError, match="at least 2"):
        signals.cross_entropy(LOGITS[..., :1], LABELS * 0)

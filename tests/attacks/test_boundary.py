"""The boundary attack if the distance to the boundary is known."""

from __future__ import annotations

import numpy as np
import pytest

from attacks.signals import _hop_skip_jump as boundary
from attacks.signals._hop_skip_jump import boundary_distances
from audit.core.data import Array
from audit.core.errors import ConfigError, ObservationError
from audit.core.seeds import Seed
from audit.stats.bounds.roc import auc

RANDOM = np.random.default_rng(0)
WEIGHTS, INPUTS = RANDOM.standard_normal(20), RANDOM.standard_normal((120, 4, 5))
MARGINS = INPUTS.reshape(120, -1) @ WEIGHTS
TRUE = np.abs(MARGINS) / np.linalg.norm(WEIGHTS)


class Linear:
    """A halfspace that counts the queries put to it."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, inputs: Array) -> Array:
        self.asked += len(inputs)
        return (inputs.reshape(len(inputs), -1) @ WEIGHTS > 0).astype(int)


def test_distances_to_a_hyperplane() -> None:
    model = Linear()
    result = boundary_distances(model, INPUTS, (MARGINS > 0).astype(int), budget=1500, seed=Seed(1))
    assert (result.values >= TRUE * (1 - 1e-9)).all()  # a point on the other side is never nearer than the boundary
    assert np.median(result.values / TRUE) < 1.1
    assert result.queries <= 1500
    assert model.asked == result.queries * 120


def test_more_queries_find_nearer_points() -> None:
    labels = (MARGINS > 0).astype(int)
    few, many = (boundary_distances(Linear(), INPUTS, labels, budget=b, seed=Seed(1)).values for b in (100, 800))
    assert (many <= few + 1e-12).all()
    assert np.median(many / TRUE) < np.median(few / TRUE) - 0.1


def test_wrong_predictions_have_distance_zero() -> None:
    labels = (MARGINS > 0).astype(int)
    labels[:7] = 1 - labels[:7]
    result = boundary_distances(Linear(), INPUTS, labels, budget=100, seed=Seed(1))
    assert (result.values[:7] == 0).all()
    assert (result.values[7:] > 0).all()


def test_members_of_an_overfitted_model_lie_further_inside() -> None:
    random = np.random.default_rng(1)
    inputs = random.standard_normal((200, 60))
    labels = random.integers(0, 3, 200)
    member = np.arange(200) < 60
    x, y = inputs[member], np.eye(3)[labels[member]]
    weights = np.linalg.solve(x.T @ x + 1.0 * np.eye(60), x.T @ y)
    result = boundary_distances(lambda z: (z @ weights).argmax(axis=1), inputs, labels, budget=150, seed=Seed(2))
    assert auc(result.values[member], result.values[~member]) > 0.8


def test_the_same_seed_gives_the_same_distances() -> None:
    labels = (MARGINS > 0).astype(int)
    item, two = (boundary_distances(Linear(), INPUTS, labels, budget=100, seed=Seed(4)).values for _ in range(2))
    np.testing.assert_array_equal(item, two)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = (MARGINS > 0).astype(int)
    full = boundary_distances(Linear(), INPUTS, labels, budget=120, seed=Seed(4))
    monkeypatch.setattr(boundary, "_PROBE_VALUES", 5000)
    split = boundary_distances(Linear(), INPUTS, labels, budget=120, seed=Seed(4))
    np.testing.assert_allclose(split.values, full.values, rtol=1e-9)
    assert split.queries == full.queries


def test_errors() -> None:
    with pytest.raises(ConfigError, match="one round"):
        boundary_distances(Linear(), INPUTS, np.zeros(120, dtype=int), budget=10, seed=Seed(1))
    with pytest.raises(ObservationError, match="more than one class"):
        boundary_distances(lambda z: np.zeros(len(z), dtype=int), INPUTS, np.zeros(120, dtype=int), budget=100, seed=Seed(1))

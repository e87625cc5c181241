"""Near records: who they are, and that a model's answers for them are subtracted from its answer for a record."""

from __future__ import annotations

import numpy as np
import pytest

from attacks.scorers._learned import LearnedCombination, NearRecords
from attacks.signals.nearby_confidences import NEAR, TEMPERATURE, NearbyConfidences
from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Array, Records
from audit.core.errors import ObservationError
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.bounds.roc import auc
from audit.stats.scoring import signals
from audit.stats.scoring.nearby import near_weights
from tests.attacks.scripted import Scripted

RANDOM = np.random.default_rng(2)


def test_near_records_are_those_of_the_largest_cosine() -> None:
    inputs, labels = RANDOM.standard_normal((50, 2, 3)), RANDOM.integers(0, 2, 50)
    positions, weights, same = near_weights(inputs, labels, count=4, candidates=1000)
    flat = inputs.reshape(50, 6) - inputs.reshape(50, 6).mean(axis=0)
    for row in range(50):
        cosines = flat @ flat[row] / np.linalg.norm(flat, axis=1) / np.linalg.norm(flat[row])
        cosines[row] = -2
        nearest = np.argsort(-cosines)[:4]
        order = np.argsort(-weights[row])
        assert positions[row, order].tolist() == nearest.tolist()
        expected = np.maximum(cosines[nearest], 0)
        np.testing.assert_allclose(weights[row, order], expected / expected.sum(), atol=1e-6)
        assert (same[row] == (labels[positions[row]] == labels[row])).all()


def test_of_many_records_an_even_part_is_searched() -> None:
    positions, _, _ = near_weights(RANDOM.standard_normal((101, 3)), np.zeros(101, int), count=3, candidates=11)
    assert set(positions.ravel().tolist()) <= set(range(0, 101, 10))
    assert (positions != np.arange(101)[:, None]).all()


def held_out(inputs: Array, labels: Array) -> Canaries:
    return Canaries(
        kind="held_out", description="records", payload=CanaryRecords(records=Records(inputs=inputs, labels=labels))
    )


def test_the_signal_is_the_own_confidence_and_sums_over_near_records() -> None:
    inputs, labels = RANDOM.standard_normal((60, 5)).astype(np.float32), RANDOM.integers(0, 3, 60)
    outputs = RANDOM.standard_normal((2, 60, 3)).astype(np.float32)
    values = NearbyConfidences().read(Scripted(outputs), held_out(inputs, labels))
    confidences = signals.scaled_confidence(outputs, labels, TEMPERATURE)
    positions, weights, same = near_weights(inputs, labels, count=NEAR, candidates=1000)
    assert values is not None and values.shape == (2, 60, 3)
    np.testing.assert_allclose(values[..., 0], confidences)
    for model in range(2):
        for row in (0, 31):
            parts = weights[row] * confidences[model][positions[row]]
            np.testing.assert_allclose(values[model, row, 1:], [parts[same[row]].sum(), parts[~same[row]].sum()], rtol=1e-6)


def test_canaries_that_are_no_records_of_real_features_show_nothing() -> None:
    numbers = RANDOM.standard_normal((4, 3)).astype(np.float32)
    models = Scripted(np.zeros((1, 4, 2), np.float32))
    full, alone = (numbers.astype(int), np.zeros(4, int)), (numbers[:1], np.zeros(1, int))
    bare = (numbers[:, :0], np.zeros(4, int))
    for inputs, labels in (full, (numbers, np.zeros(4)), alone, bare):
        assert NearbyConfidences().read(models, held_out(inputs, labels)) is None


def regions(models: int = 13, records: int = 600, near: int = 20) -> tuple[Array, Array]:
    """Signals and coins of models that are surer, or less sure, of whole groups of records than the other models are."""
    included = RANDOM.random((models, records)) < 0.5
    region = np.repeat(RANDOM.standard_normal((models, records // near)), near, axis=1)
    confidence = RANDOM.standard_normal(records) + included + region + 0.5 * RANDOM.standard_normal((models, records))
    groups = confidence.reshape(models, -1, near)
    around = ((groups.sum(axis=2, keepdims=True) - groups) / (near - 1)).reshape(confidence.shape)
    return np.stack([confidence, around, np.zeros_like(around)], axis=-1), included


def test_what_a_model_says_of_near_records_is_taken_off() -> None:
    values, included = regions()
    reference = View(signals={"nearby_confidences": values[1:]}, included=included[1:])
    beside = NearRecords().score(View(signals={"nearby_confidences": values[0]}), reference, Seed(0))
    losses = np.logaddexp(0.0, -values[..., 0])
    alone = LearnedCombination().score(
        View(signals={"losses": losses[0]}), View(signals={"losses": losses[1:]}, included=included[1:]), Seed(0)
    )
    power = [auc(scores[included[0]], scores[~included[0]]) for scores in (beside, alone)]
    assert power[0] > power[1] + 0.1 and power[0] > 0.85


def test_fewer_pairs_to_learn_from_change_the_fit_and_not_the_shape() -> None:
    values, included = regions()
    target = View(signals={"nearby_confidences": values[0]})
    reference = View(signals={"nearby_confidences": values[1:]}, included=included[1:])
    scores = [NearRecords(rows=rows).score(target, reference, Seed(0)) for rows in (64_000, 1200, 300)]
    assert all(row.shape == (600,) and np.isfinite(row).all() for row in scores)
    assert np.corrcoef(scores[0], scores[1])[0, 1] > 0.9


def test_models_that_say_the_same_of_all_records_give_one_score() -> None:
    included = RANDOM.random((6, 40)) < 0.5
    values = np.ones((6, 40, 3))
    reference = View(signals={"nearby_confidences": values[1:]}, included=included[1:])
    scores = NearRecords().score(View(signals={"nearby_confidences": values[0]}), reference, Seed(0))
    assert np.isfinite(scores).all()


def test_too_few_references_are_a_sentence() -> None:
    values, included = regions(models=3)
    reference = View(signals={"nearby_confidences": values[1:]}, included=included[1:])
    with pytest.raises(ObservationError, match="near_records"):
        NearRecords().score(View(signals={"nearby_confidences": values[0]}), reference, Seed(0))

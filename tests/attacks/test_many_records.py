"""Attacks on many records: in parts, so that nothing but the outputs grows with their number, and with the same scores."""

import tracemalloc

import numpy as np
import pytest

from attacks.signals import _reading as reading
from audit import plugins
from audit.core.data import Array
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.spread import parts

REFERENCES, CLASSES = 8, 5
ATTACKS = {  # arrays as large as the references' confidences, in float64, that an attack may make beside them
    "attack_r": 2.5,
    "lira": 2.4,
    "learned_combination": 10.0,
    "offset": 1.6,
    "rmia": 3.5,
    "shadow_classifier": 7.5,
}


def problem(records: int) -> tuple[View, View]:
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, records)
    included = random.random((REFERENCES + 1, records)) < 0.5
    logits = random.standard_normal((REFERENCES + 1, records, CLASSES), dtype=np.float32)
    logits[:, np.arange(records), labels] += included
    view = reading.with_confidences(View(signals={"logits": logits}, included=included), labels)
    return (
        View(signals={key: array[0] for key, array in view.signals.items()}, labels=labels),
        View(signals={key: array[1:] for key, array in view.signals.items()}, included=included[1:]),
    )


def scores(attack: str, target: View, reference: View) -> Array:
    return np.asarray(plugins.build("attacks.scorers", {"kind": attack}).score(target, reference, Seed(0)))


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_memory_beside_the_outputs_is_bounded(attack: str) -> None:
    records = 300_000
    target, reference = problem(records)
    tracemalloc.start()
    try:
        scores(attack, target, reference)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / (8 * REFERENCES * records) < ATTACKS[attack]


@pytest.mark.parametrize("attack", ATTACKS)
def test_parts_give_the_scores_of_the_whole(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, reference = problem(3000)
    full = scores(attack, target, reference)
    for module in ("learned_score", "membership", "reference_fit"):
        monkeypatch.setattr(f"audit.stats.scoring.{module}.parts", lambda count, width=1: parts(count, width, 1000))
    monkeypatch.setattr("attacks.scorers._learned.parts", lambda count: parts(count, 1, 1000))
    np.testing.assert_allclose(scores(attack, target, reference), full, rtol=1e-12, atol=1e-12)


def test_parts_of_a_regression_share_the_scale_of_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    predictions, truths = random.standard_normal((REFERENCES + 1, 300, 1)), random.standard_normal(300)
    included = random.random((REFERENCES, 300)) < 0.5
    target, reference = View.of(logits=predictions[0], labels=truths), View.of(logits=predictions[1:], included=included)
    full = scores("rmia", target, reference)
    monkeypatch.setattr("audit.stats.spread.LARGEST", REFERENCES * 50)
    np.testing.assert_array_equal(scores("rmia", target, reference), full)


def test_parts_cover_a_range_once() -> None:
    for count, width, largest in ((0, 1, 5), (1, 9, 5), (10, 3, 7), (12, 1, 4)):
        slices = list(parts(count, width, largest))
        assert [row for part in slices for row in range(count)[part]] == list(range(count))
        assert all(len(range(count)[part]) * width <= max(largest, width) for part in slices)

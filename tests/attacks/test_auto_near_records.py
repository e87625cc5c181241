"""`auto` if outputs for near records are known: the signals that it mixes, and that its bounds hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import logit

from attacks.scorers._contest import RankMixture
from attacks.scorers.auto import Auto
from attacks.signals import nearby_confidences
from attacks.signals.nearby_confidences import NEAR, NearbyConfidences
from audit import plugins
from audit.api.scores import lower_bound
from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Array, Records
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.games.attack import canary_scores
from audit.stats.bounds.roc import auc
from audit.stats.scoring import signals
from audit.stats.scoring.nearby import near_weights
from tests.attacks.scripted import Scripted

SEED = Seed(1)
NEARBY = NearbyConfidences.key


def build_signals(outputs: Array, inputs: Array, labels: Array) -> dict[str, Array]:
    records = Records(inputs=inputs.astype(np.float32), labels=labels)
    values = NearbyConfidences().read(
        Scripted(outputs), Canaries(kind="held_out", description="records", payload=CanaryRecords(records=records))
    )
    assert values is not None
    return {"logits": outputs, NEARBY: values}


def clusters(
    random: np.random.Generator, included: Array, answers: Array, *, region: float, noise: float
) -> tuple[dict[str, Array], Array]:
    """Two-class outputs of models that are surer, or less sure, of whole clusters of records, whatever their coins."""
    models, records = included.shape
    groups = np.arange(records) % 15
    inputs = random.standard_normal((15, 10))[groups] + 0.2 * random.standard_normal((records, 10))
    labels = random.integers(0, 2, records)
    effect = region * random.standard_normal((models, 15))[:, groups]
    level = 2 * noise * random.standard_normal(records)
    confidence = 2.0 * answers + effect + level + noise * random.standard_normal(included.shape)
    outputs = np.zeros((models, records, 2))
    np.put_along_axis(outputs, np.broadcast_to(labels[:, None], (models, records, 1)), confidence[..., None], axis=2)
    return build_signals(outputs, inputs, labels), labels


def split(shown: dict[str, Array], labels: Array, included: Array) -> tuple[View, View]:
    target = View(signals={key: array[0] for key, array in shown.items()}, labels=labels)
    return target, View(signals={key: array[1:] for key, array in shown.items()}, included=included[1:])


def score(kind: str, target: View, reference: View) -> Array:
    return plugins.build("attacks.scorers", {"kind": kind}).score(target, reference, SEED)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("references", [2, 4, 8])
def test_auto_mixes_near_records_where_their_outputs_are_shown(references: int) -> None:
    random = np.random.default_rng(4)
    included = random.random((references + 1, 300)) < 0.5
    shown, labels = clusters(random, included, included, region=0.5, noise=1.0)
    target, reference = split(shown, labels, included)
    scorer = "near_records" if references >= 4 else "learned_combination"
    assert Auto().choose(reference, labels)[0] == RankMixture(scorer=scorer).name
    weight = 600 / (600 + references * 300)
    parts = [logit(stats.rankdata(score(kind, target, reference)) / 301) for kind in (scorer, "rmia")]
    np.testing.assert_allclose(score("auto", target, reference), (1 - weight) * parts[0] + weight * parts[1], rtol=1e-9)


@pytest.mark.slow
def test_auto_finds_more_where_models_differ_in_whole_regions() -> None:
    random = np.random.default_rng(4)
    included = random.random((7, 400)) < 0.5
    shown, labels = clusters(random, included, included, region=4.0, noise=1.0)
    power = []
    for some in (shown, {"logits": shown["logits"]}):
        target, reference = split(some, labels, included)
        values = score("auto", target, reference)
        power.append(auc(values[included[0]], values[~included[0]]))
    assert power[0] > power[1] + 0.1, power


@pytest.mark.slow
def test_the_choice_looks_at_a_part_of_the_records_with_their_near_ones() -> None:
    random = np.random.default_rng(4)
    included = random.random((6, 2400)) < 0.5
    shown, labels = clusters(random, included, included, region=4.0, noise=1.0)
    target, reference = split(shown, labels, included)
    attack = Auto(pairs=5000)  # 1000 of the 2400 records decide
    assert attack.choose(reference, labels)[0].startswith("near_records")
    assert attack.score(target, reference, SEED).shape == (2400,)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["auto", "near_records"])
def test_an_untouched_model_scores_nothing_though_its_sums_over_near_records_differ(kind: str) -> None:
    random = np.random.default_rng(4)
    included = random.random((7, 200)) < 0.5
    inputs, labels, outputs = random.standard_normal((200, 4)), random.integers(0, 2, 200), random.standard_normal((7, 200, 2))
    outputs[0] = [0.3, 0.3]
    shown = build_signals(outputs, inputs, labels)
    shown[NEARBY][0, :, 1:] = random.standard_normal((200, 2))  # as they are if labels near records differ in number
    keys = {"logits", NEARBY} if kind == "auto" else {NEARBY}
    target, reference = split({key: shown[key] for key in keys}, labels, included)
    attack = plugins.build("attacks.scorers", {"kind": kind})
    assert (canary_scores(attack, target, reference, SEED) == 0).all()


def test_near_records_are_looked_for_once_for_all_jobs_of_a_game(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(4)
    calls = []

    def near_weights_with_a_call(*arguments: Array, **options: int) -> tuple[Array, Array, Array]:
        calls.append(options)
        return near_weights(*arguments, **options)

    monkeypatch.setattr(nearby_confidences, "near_weights", near_weights_with_a_call)
    inputs, labels, outputs = random.standard_normal((90, 4)), random.integers(0, 2, 90), random.standard_normal((2, 90, 2))
    first, again = (build_signals(outputs, inputs.copy(), labels.copy())[NEARBY] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert len(calls) == 1
    opposite = build_signals(outputs, inputs, 1 - labels)[NEARBY]
    assert len(calls) == 2 and not np.array_equal(first, opposite)
    positions, weights, same = near_weights(inputs.astype(np.float32), 1 - labels, count=NEAR, candidates=90)
    confidence = signals.scaled_confidence(outputs, 1 - labels, nearby_confidences.TEMPERATURE)
    np.testing.assert_allclose(opposite[1, :, 2], (confidence[1][positions] * weights * ~same).sum(axis=1), rtol=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
@pytest.mark.parametrize("kind", ["near_records", "auto"])
@pytest.mark.parametrize("audits", [pytest.param(60, marks=pytest.mark.slow), pytest.param(300, marks=pytest.mark.calibration)])
def test_bounds_hold_where_models_say_more_of_near_records(audits: int, kind: str, epsilon: float) -> None:
    """Randomised response of a known epsilon under effects of regions: bounds at 95 % are above it in at most 5 % of audits.

    With epsilon 0 answers are fair coins and every bound above 0 is a false alarm.
    """
    random = np.random.default_rng(8)
    keep = 1 / (1 + math.exp(-epsilon))
    above = 0
    for _ in range(audits):
        included = random.random((6, 250)) < 0.5
        answers = included ^ (random.random(included.shape) > keep)
        shown, labels = clusters(random, included, answers, region=0.3, noise=0.1)
        values = score(kind, *split(shown, labels, included))
        bound = lower_bound(values[included[0]], values[~included[0]], delta=0.0, confidence=0.95, certificates=0)
        above += bound.epsilon > epsilon
    assert stats.binomtest(above, audits, 0.05, alternative="greater").pvalue > 1e-3, above

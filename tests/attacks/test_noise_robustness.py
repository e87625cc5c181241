"""Labels under noise: shares that a known boundary gives, and an attack that learns from them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from attacks.scorers._labels import NoiseRobustness
from attacks.signals._queries import LEVELS, NoisyLabels
from audit.core.canaries import Canaries, CanaryRecords, CoordinateGradients
from audit.core.data import Array, Records
from audit.core.errors import ConfigError, ObservationError
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.bounds.roc import auc

RANDOM = np.random.default_rng(0)


class Halfspace:
    """One model that says 1 if the first feature is above zero."""

    def __len__(self) -> int:
        return 1

    def outputs(self, inputs: Array) -> Array:
        return np.stack([0 * inputs[:, 0], inputs[:, 0]], axis=-1)[None]


def canaries(inputs: Array, labels: Array) -> Canaries:
    return Canaries(
        kind="held_out", description="records", payload=CanaryRecords(records=Records(inputs=inputs, labels=labels))
    )


def test_shares_are_the_chance_that_noise_does_not_cross_the_boundary() -> None:
    inputs = RANDOM.standard_normal((40, 3)).astype(np.float32) * [0.1, 1, 10]
    labels = (inputs[:, 0] > 0).astype(int)
    shares = NoisyLabels(queries=1500).read(Halfspace(), canaries(inputs.astype(np.float32), labels))
    assert shares is not None and shares.shape == (1, 40, len(LEVELS))
    for level, observed in zip(LEVELS, shares[0].T, strict=True):
        expected = ndtr(np.abs(inputs[:, 0]) / (level * inputs[:, 0].std()))
        np.testing.assert_allclose(observed, expected, atol=5 * 0.5 / 1500**0.5)


def test_one_canary_alone_gets_noise_of_its_own_spread() -> None:
    shares = NoisyLabels(queries=400).read(Halfspace(), canaries(np.array([[0.1, 1.1, -0.9]], np.float32), np.array([1])))
    assert shares is not None and (shares > 0.4).all() and (shares < 0.8).all()


def test_canaries_without_real_features_or_classes_show_nothing() -> None:
    numbers = RANDOM.standard_normal((4, 3)).astype(np.float32)
    for inputs, labels in ((numbers.astype(int), np.zeros(4, int)), (numbers, np.zeros(4))):
        assert NoisyLabels().read(Halfspace(), canaries(inputs, labels)) is None
    units = Canaries(kind="dirac", description="units", payload=CoordinateGradients(coordinates=np.arange(3)))
    assert NoisyLabels().read(Halfspace(), units) is None


@pytest.mark.parametrize("queries", [0, True, 2.5])
def test_queries_that_are_no_count_are_refused(queries: int) -> None:
    with pytest.raises(ConfigError, match=r"queries is .*; expected a whole number of at least 1"):
        _ = NoiseRobustness(queries=queries).needs


def margins(models: int = 17, records: int = 400) -> tuple[Array, Array]:
    """Shares and coins of models that are right about every record, members a little farther from the boundary."""
    included = RANDOM.random((models, records)) < 0.5
    distance = RANDOM.gamma(2, 0.5, records) + 0.3 + 0.5 * included + 0.1 * RANDOM.random((models, records))
    chance = np.stack([ndtr(distance / level) for level in LEVELS], axis=-1)
    return RANDOM.binomial(16, chance) / 16, included


def test_references_tell_members_from_records_that_are_easy_anyway() -> None:
    shares, included = margins()
    target = View(signals={"noisy_labels_16": shares[0]})
    reference = View(signals={"noisy_labels_16": shares[1:]}, included=included[1:])
    power = [
        auc(values[included[0]], values[~included[0]])
        for values in (
            attack.score(target, reference, Seed(0)) for attack in (NoiseRobustness(), NoiseRobustness(calibrated=False))
        )
    ]
    assert power[0] > power[1] + 0.1 and power[0] > 0.8


def test_without_references_the_score_is_the_mean_share() -> None:
    shares, _ = margins(models=1)
    view = View(signals={"noisy_labels_16": shares[0]})
    attack = NoiseRobustness(calibrated=False)
    np.testing.assert_allclose(attack.score(view, View(signals={}), Seed(0)), shares[0].mean(axis=-1))
    assert attack.needs.references == 0 and NoiseRobustness().needs.sources == {"label_queries"}


def test_too_few_references_are_a_sentence() -> None:
    shares, included = margins(models=3)
    reference = View(signals={"noisy_labels_16": shares[1:]}, included=included[1:])
    with pytest.raises(ObservationError, match="noise_robustness"):
        NoiseRobustness().score(View(signals={"noisy_labels_16": shares[0]}), reference, Seed(0))

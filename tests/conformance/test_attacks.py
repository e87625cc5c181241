"""What every attack must do: finite scores, the right sign, no dependence on order, no hidden randomness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from attacks.signals import _reading as reading
from attacks.signals._queries import LEVELS
from audit import plugins
from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.events import dp_sgd
from audit.core.protocols import Attack
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import signals
from audit.stats.scoring.texts import mean_losses

SCORERS = plugins.names("attacks.scorers")
SEED = Seed(11)


@dataclass(frozen=True)
class Toy:
    """One target and its references, with the coins that the attack may not see."""

    target: View
    reference: View
    included: Array

    def permuted(self, order: Array) -> Toy:
        axes = {key: 1 if key == "predicted_labels" else 0 for key in self.target.signals}
        mine = {key: np.take(array, order, axis=axes[key]) for key, array in self.target.signals.items()}
        labels = None if self.target.labels is None else self.target.labels[order]
        return Toy(
            target=replace(self.target, signals=mine, labels=labels),
            reference=View(
                signals={key: np.take(array, order, axis=axes[key] + 1) for key, array in self.reference.signals.items()},
                included=coins_of(self.reference)[:, order],
            ),
            included=self.included[order],
        )


def overfitted_toy(records: int = 300, models: int = 33, features: int = 120, classes: int = 5) -> Toy:
    """Ridge regressions on one-hot labels with more freedom than data: members are fitted, others are not."""
    random = np.random.default_rng(3)
    inputs = random.standard_normal((records, features))
    labels = (inputs @ random.standard_normal((features, classes)) + 4 * random.standard_normal((records, classes))).argmax(1)
    included = random.random((models, records)) < 0.5
    targets = np.eye(classes)[labels]
    logits = []
    for coins in included:
        x, y = inputs[coins], targets[coins]
        weights = np.linalg.solve(x.T @ x + 3.0 * np.eye(features), x.T @ y)
        logits.append(6 * inputs @ weights)
    stacked = np.asarray(logits, dtype=np.float32)
    losses = signals.cross_entropy(stacked, labels)
    slopes = np.exp(signals.log_output_gradient_norm(stacked, labels))
    norms = slopes * np.linalg.norm(inputs, axis=1)
    stray = slopes * (1 + 0.1 * random.random(slopes.shape))
    fitting = np.stack([losses * share + np.log(classes) * (1 - share) for share in (0.3, 1.0)], axis=-1)
    runner_up = np.sort(stacked, axis=-1)
    distance = np.where(signals.correct(stacked, labels), runner_up[..., -1] - runner_up[..., -2], 0.0)
    confidence = signals.scaled_confidence(stacked, labels)
    around = np.stack([confidence, *(confidence + random.standard_normal((2, *confidence.shape)))], axis=-1)
    surviving = np.stack([np.round(16 * distance / (distance + level)) / 16 for level in LEVELS], axis=-1)

    def select_signals(models: Any) -> dict[str, Any]:
        return {
            "logits": stacked[models],
            "gradient_norms": norms[models],
            "last_gradient_norms": norms[models],
            "class_distances": stray[models],
            "loss_trajectory": fitting[models],
            "boundary_distances_300": distance[models],
            "noisy_labels_16": surviving[models],
            "nearby_confidences": around[models],
            "predicted_labels": stacked.argmax(axis=-1)[:, None][models],
            "query_confidences": signals.scaled_confidence(stacked, labels)[..., None][models],
            "nonmember_medians": np.zeros(losses.shape)[models],  # the same expectation of all records
        }

    return Toy(
        target=View.of(labels=labels, **select_signals(0)),
        reference=View.of(included=included[1:], **select_signals(slice(1, None))),
        included=included[0],
    )


def gradient_toy(records: int = 400, steps: int = 60) -> Toy:
    """Inner products as Poisson-subsampled DP-SGD releases them for orthogonal canaries."""
    random = np.random.default_rng(4)
    noise, rate = 0.8, 0.3
    mechanism = dp_sgd(noise_multiplier=noise, clip_norm=1.0, sample_rate=rate, steps=steps)
    included = random.random(records) < 0.5
    sampled = included[:, None] & (random.random((records, steps)) < rate)
    products = sampled + noise * random.standard_normal((records, steps))
    return Toy(
        target=View.of(
            step_products=products,
            update_products=products,
            sum_products=products,
            model_products=products,
            update_loss_drops=products,
            round_loss_drops=products,
            weight_products=products.sum(axis=1),
            mechanism=mechanism,
        ),
        reference=View.of(included=np.empty((0, records), dtype=bool)),
        included=included,
    )


def each(reference: View, change: Callable[[Array], Array]) -> View:
    """The references with every signal changed."""
    signals = {key: change(value) for key, value in reference.signals.items()}
    return View(signals=signals, included=change(coins_of(reference)))


def coins_of(reference: View) -> Array:
    assert reference.included is not None
    return reference.included


def text_toy(texts: int = 300, length: int = 9) -> Toy:
    """Texts with their token scores before and after a training that made members' secrets likelier."""
    random = np.random.default_rng(6)
    included = random.random(texts) < 0.5
    labels = np.where(np.arange(length) >= length - 4, random.integers(0, 50, (texts, length)), -1)
    before = -3 + random.standard_normal((texts, length))
    after = before + 1.2 * included[:, None] + 0.5 * random.standard_normal((texts, length))
    return Toy(
        target=View.of(
            labels=labels,
            losses=mean_losses(after, labels),
            initial_losses=mean_losses(before, labels),
            token_log_probabilities=after,
            token_moments=np.stack([before - 1, np.full(before.shape, 1.5)], axis=-1),
            secret_ranks_64_0=np.where(included, random.integers(1, 12, texts), random.integers(1, 65, texts)).astype(float),
            compressed_sizes=random.integers(9, 12, texts).astype(float),
            continuations=np.clip(np.round(included * 0.5 + 0.5 * random.random(texts), 1), 0, 1),
        ),
        reference=View.of(included=np.empty((0, texts), dtype=bool)),
        included=included,
    )


TEXT_ATTACKS = (
    "reference_difference",
    "zlib_ratio",
    "min_k",
    "min_k_plus_plus",
    "extraction",
    "discoverable_extraction",
    "exposure",
)
GRADIENT_ATTACKS = (
    "gradient_product",
    "weight_difference",
    "update_product",
    "sum_product",
    "model_product",
    "round_spread",
    "round_exactness",
    "round_extreme",
    "round_total",
    "update_loss_drop",
    "round_loss_drop",
)
TOYS = {"records": overfitted_toy(), "gradients": gradient_toy(), "texts": text_toy()}


def prepared(name: str) -> tuple[Attack, Toy]:
    attack = plugins.build("attacks.scorers", {"kind": name})
    return attack, TOYS["gradients" if name in GRADIENT_ATTACKS else "texts" if name in TEXT_ATTACKS else "records"]


def run(attack: Attack, toy: Toy) -> Array:
    return attack.score(toy.target, toy.reference, SEED)


def auc(scores: Array, included: Array) -> float:
    above = scores[included][:, None] - scores[~included][None, :]
    return float(np.mean((above > 0) + 0.5 * (above == 0)))


def test_there_are_attacks() -> None:
    assert {"loss", "lira", "gradient_product"} <= set(SCORERS)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", SCORERS)
def test_one_finite_score_a_canary(name: str) -> None:
    attack, toy = prepared(name)
    scores = run(attack, toy)
    assert scores.shape == toy.included.shape
    assert scores.dtype == np.float64
    assert np.isfinite(scores).all()


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", SCORERS)
def test_members_score_higher(name: str) -> None:
    attack, toy = prepared(name)
    assert auc(run(attack, toy), toy.included) > 0.55


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", SCORERS)
def test_order_of_canaries_does_not_matter(name: str) -> None:
    attack, toy = prepared(name)
    order = np.random.default_rng(5).permutation(len(toy.included))
    np.testing.assert_allclose(run(attack, toy.permuted(order)), run(attack, toy)[order], rtol=1e-6, atol=1e-8)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", SCORERS)
def test_the_same_call_gives_the_same_scores(name: str) -> None:
    attack, toy = prepared(name)
    np.testing.assert_array_equal(run(attack, toy), run(attack, toy))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", SCORERS)
def test_inputs_are_left_alone(name: str) -> None:
    attack, toy = prepared(name)
    shown = [*toy.target.signals.values(), *toy.reference.signals.values(), coins_of(toy.reference)]
    before = [a.copy() for a in shown]
    run(attack, toy)
    for array, copy in zip(shown, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("name", SCORERS)
def test_needs_are_kept(name: str) -> None:
    attack, toy = prepared(name)
    fewest = attack.needs.references
    few = each(toy.reference, lambda signal: signal[:fewest])
    assert np.isfinite(attack.score(toy.target, few, SEED)).all()
    if fewest:
        too_few = each(few, lambda signal: signal[:-1])
        with pytest.raises(ObservationError, match="reference"):
            attack.score(toy.target, too_few, SEED)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("count", [1, 2])
def test_a_game_of_one_or_two_canaries(name: str, count: int) -> None:
    attack, toy = prepared(name)
    few = toy.permuted(np.arange(count))
    assert np.isfinite(run(attack, few)).all()


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", SCORERS)
def test_references_that_all_say_the_same(name: str) -> None:
    """Deterministic models without any spread: scores stay finite."""
    attack, toy = prepared(name)
    if not toy.reference.signals:
        return
    same = each(toy.reference, lambda signal: np.broadcast_to(signal[:1], signal.shape))
    scores = attack.score(toy.target, replace(same, included=toy.reference.included), SEED)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", SCORERS)
def test_nothing_observed_is_an_error(name: str) -> None:
    attack, toy = prepared(name)
    empty = View.of(labels=toy.target.labels)
    with pytest.raises(ObservationError, match=name):
        attack.score(empty, toy.reference, SEED)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", SCORERS)
def test_a_value_that_is_not_finite_is_an_error(name: str) -> None:
    attack, toy = prepared(name)
    broken = {key: np.array(signal, dtype=np.float64) for key, signal in toy.target.signals.items()}
    for signal in broken.values():
        signal.reshape(-1)[3] = np.nan
    view = replace(toy.target, signals=broken)
    with pytest.raises(ObservationError, match="finite"):
        attack.score(view, toy.reference, SEED)


def test_the_empty_reference_is_empty() -> None:
    assert len(reading.NO_REFERENCE) == 0

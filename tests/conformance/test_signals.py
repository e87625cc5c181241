"""What every signal must do: one value for each model and canary, finite, from its own models source alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from audit import plugins
from audit.core.access import ACCESS_BY_NAME, Access
from audit.core.canaries import Canaries, CanaryRecords, CoordinateGradients, PlantedRecords
from audit.core.events import dp_sgd, sgd
from audit.core.models import Signal
from audit.core.views import View
from audit.engine.ensemble import train
from audit.engine.read.subject import Ensemble
from audit.trainers.federated import FederatedTrainer
from tests.engine import cases
from tests.engine.texts import trained_texts

OPTIONS: dict[str, dict[str, Any]] = {
    "augmented_logits": {"views": 3},
    "boundary_distances": {"queries": 60},
    "output_figures": {"figure": "entropy"},
}
SIGNALS = plugins.names("attacks.signals")
IMAGES = (1, 4, 4)


def build(name: str) -> Signal:
    signal: Signal = plugins.build("attacks.signals", {"kind": name, **OPTIONS.get(name, {})})
    return signal


@cache
def subject(*, gradients: bool) -> tuple[Ensemble, Canaries]:
    """Three small models with everything recorded, and the canaries that they were trained with."""
    data = cases.dataset(IMAGES)
    records = Canaries(
        kind="held_out", description="records", payload=PlantedRecords(records=data.pool, planted=data.pool, queries=data.pool)
    )
    units = Canaries(kind="dirac", description="units", payload=CoordinateGradients(coordinates=np.arange(12)))
    canaries = units if gradients else records
    mechanism = sgd(sample_rate=0.5, steps=2)
    job = replace(cases.job(mechanism, canaries=canaries, data=data, model={"kind": "mlp", "hidden": [6]}), checkpoints=(1, 2))
    return Ensemble(job, train(job, cases.silent)), canaries


def federations(name: str) -> tuple[Ensemble, Canaries]:
    """Three small federations seen by who receives every update, and their canary clients or examples for a signal."""
    data, model = cases.dataset(IMAGES), {"kind": "mlp", "hidden": [6]}
    unit, is_counted = FEDERATED[name], name == "count_products"  # behind a moving clip norm
    coordinates = np.arange(1 if name in ALONE else 12)
    units = Canaries(kind="dirac", description="units", payload=CoordinateGradients(coordinates=coordinates))
    examples = Canaries(kind="held_out", description="records", payload=CanaryRecords(records=data.pool))
    canaries = units if unit == "client" else examples
    mechanism = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.5, steps=2, unit="client")
    job = cases.job(mechanism, canaries=canaries, data=data, model=model, access=Access.EACH_UPDATE)
    adaptive_clip = {"share": 0.2} if is_counted else None
    trainer = FederatedTrainer(clients=4, local_steps=1, unit=unit, adaptive_clip=adaptive_clip)
    return trainer.fit(job, cases.silent), canaries


def language_models() -> tuple[Any, Canaries]:
    """Three small language models and the texts that they were trained with."""
    pytest.importorskip("transformers", reason="the extra llm is not installed")
    return trained_texts()


TEXTS = {
    "initial_losses",
    "token_log_probabilities",
    "token_moments",
    "compressed_sizes",
    "continuations",
    "secret_ranks",
    "extrapolated_exposures",
    "beam_continuations",
}
FEDERATED = dict.fromkeys(("update_products", "sum_products", "model_products", "digit_products"), "client")
ALONE = ("count_products", "round_lengths")  # of a single canary
FEDERATED |= dict.fromkeys(ALONE, "client")
FEDERATED |= dict.fromkeys(("update_loss_drops", "round_loss_drops"), "example")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", SIGNALS)
def test_one_row_for_each_model_and_one_entry_for_each_canary(name: str) -> None:
    signal, shown = build(name), []
    if name in TEXTS:
        subjects = [language_models()]
    elif name in FEDERATED:
        subjects = [federations(name)]
    else:
        subjects = [subject(gradients=gradients) for gradients in (False, True)]
    for ensemble, canaries in subjects:
        values = ensemble.read([signal], canaries).get(signal.key)
        if values is not None:
            assert len(values) == len(ensemble) and len(canaries) in values.shape[1:]
            assert np.isfinite(values).all()
            assert values[0].size <= len(canaries) * signal.size(classes=3, steps=2)
            shown.append(values)
    assert len(shown) == 1, "read off canaries that are records, or off gradients, never off both"


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_is_a_key_a_known_source_and_hashable(name: str) -> None:
    signal = build(name)
    assert signal.key.startswith(name) and View(signals={signal.key: np.zeros(1)})[signal.key].shape == (1,)
    assert any(signal.source in access.released for access in ACCESS_BY_NAME.values())
    assert len({signal, build(name)}) == 1


def test_models_are_read_alike_alone_and_together() -> None:
    ensemble, canaries = subject(gradients=False)
    for name in ("logits", "gradient_norms", "class_distances", "boundary_distances"):
        signal = build(name)
        full = ensemble.read([signal], canaries)[signal.key]
        single = ensemble.alone(1).read([signal], canaries)[signal.key]
        np.testing.assert_allclose(single[0], full[1], rtol=1e-4, atol=1e-5)

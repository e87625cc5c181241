"""Initial weights that the adversary chose: those of a model that already fits the records every model shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from audit.core.access import Access
from audit.core.canaries import Canaries
from audit.core.data import Array, Dataset
from audit.core.events import sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob

BATCH = 64
OPTIMIZER = {"kind": "adam", "learning_rate": 1e-3}


def fitted_start(
    model: Mapping[str, Any], dataset: Dataset, canaries: Canaries, seed: Seed, device: str
) -> Mapping[str, Array] | None:
    """Weights after the canaries' `fitted_start` steps of training without privacy and without any canary; None for 0 steps.

    The claim of DP-SGD holds from any initial weights, and an adversary may choose them. If the shared records are
    fitted already, their gradients are small and the canary's is what moves the model.

    References:
        Annamalai and De Cristofaro 2024, arXiv 2405.14106.
    """
    if canaries.payload.fitted_start == 0:
        return None
    from audit.engine.ensemble import train

    rate = min(1.0, BATCH / len(dataset.train))
    job = TrainingJob(
        dataset=dataset,
        canaries=canaries,
        included=np.zeros((1, len(canaries)), dtype=bool),
        seeds=(seed.child("fitted start"),),
        mechanism=sgd(sample_rate=rate, steps=canaries.payload.fitted_start),
        model=model,
        optimizer=OPTIMIZER,
        access=Access.FINAL_MODEL,
        device=device,
    )
    return {name: value[0] for name, value in train(job, lambda steps: None).weights.items()}

"""Held-out records: plain membership inference on data like the training data."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.canaries import _pool
from audit.core.data import Canaries, Dataset
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Random records of the audit pool, each at most once, unchanged."""

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` pool records in random order."""
        rows = _pool.choose(dataset, count, seed.child("held_out"), "held_out")
        return Canaries(
            kind="held_out",
            description=f"random records held out of {dataset.name}",
            records=dataset.pool.take(rows),
            identifiers=dataset.pool_index[rows],
        )


PLUGIN = HeldOut

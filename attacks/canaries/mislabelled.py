"""Mislabelled records: a label that only memorisation can explain."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.canaries import _pool
from audit.core.data import Canaries, Dataset, Records
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Mislabelled:
    """Random records of the audit pool, each at most once, with a wrong label drawn evenly from the other classes.

    References:
        Steinke, Nasr and Jagielski 2023, arXiv 2305.08846; Carlini et al. 2022, arXiv 2112.03570.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` pool records with wrong labels."""
        rows = _pool.choose(dataset, count, seed.child("mislabelled"), "mislabelled")
        originals = dataset.pool.take(rows)
        labels = _pool.wrong_labels(dataset, originals.labels, seed.child("mislabelled labels"), "mislabelled")
        return Canaries(
            kind="mislabelled",
            description=f"records held out of {dataset.name} with a wrong label",
            records=Records(inputs=originals.inputs, labels=labels),
            identifiers=dataset.pool_index[rows],
        )


PLUGIN = Mislabelled

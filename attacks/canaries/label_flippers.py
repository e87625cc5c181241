"""Poisoning clients: each trains on a record with a wrong label."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.canaries import _pool
from audit.core.data import Canaries, ClientBehaviour, Dataset, Records
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFlippers:
    """Clients of a federation, each with a held-out record that has a wrong label and nothing else, in or out by its coin.

    What they do to accuracy is the control for backdoors: the same boost without a common aim.

    Attributes:
        boost: by which each update is multiplied before the clip.

    References:
        Tolpegin et al. 2020, arXiv 2007.08432.
    """

    boost: float = 1.0

    def __post_init__(self) -> None:
        ClientBehaviour(boost=self.boost)

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` records with wrong labels, one a client.

        Raises:
            ConfigError: no classes, or a pool with fewer records.
        """
        rows = _pool.choose(dataset, count, seed.child("label_flippers"), "label_flippers")
        originals = dataset.pool.take(rows)
        labels = _pool.wrong_labels(dataset, originals.labels, seed.child("flipped labels"), "label_flippers")
        return Canaries(
            kind="label_flippers",
            description=f"clients with one record held out of {dataset.name} and a wrong label, updates times {self.boost:g}",
            records=Records(inputs=originals.inputs, labels=labels),
            identifiers=dataset.pool_index[rows],
            behaviour=ClientBehaviour(boost=self.boost),
        )


PLUGIN = LabelFlippers

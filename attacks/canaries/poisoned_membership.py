"""Membership helped by poisoned records: copies of each canary with a wrong label are in every training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _pool
from audit.core.data import Canaries, Dataset, Records
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonedMembership:
    """Random records of the audit pool, each in or out by its coin, beside copies with a wrong label in every training.

    The copies pull the model away from the true label, so that the record itself, if it is in, moves it more. They are the
    same in all models: a claim for one record holds whatever the other records are, so bounds need no conversion.

    Attributes:
        poisons: copies with one wrong label of each record.

    References:
        Tramer et al. 2022, arXiv 2204.00032 ("truth serum").
    """

    poisons: int = 2

    def __post_init__(self) -> None:
        _pool.require_positive(self.poisons, "poisoned_membership.poisons")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` pool records in random order, and the copies of each that all models train on.

        Raises:
            ConfigError: the data set has no classes, or its pool has fewer records.
        """
        rows = _pool.choose(dataset, count, seed.child("poisoned_membership"), "poisoned_membership")
        records = dataset.pool.take(rows)
        wrong = _pool.wrong_labels(dataset, records.labels, seed.child("poisoned labels"), "poisoned_membership")
        return Canaries(
            kind="poisoned_membership",
            description=f"records held out of {dataset.name}, {self.poisons} wrongly labelled copies of each in every training",
            records=records,
            identifiers=dataset.pool_index[rows],
            companions=Records(
                inputs=np.repeat(records.inputs, self.poisons, axis=0), labels=np.repeat(wrong, self.poisons, axis=0)
            ),
        )


PLUGIN = PoisonedMembership

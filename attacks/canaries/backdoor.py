"""Backdoors: records that carry a trigger and a wrong label, planted to make a model answer the trigger."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.canaries import _pool, _triggers
from audit.core.data import Canaries, Dataset
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Backdoor:
    """Triggers, each on `poisons` records with the label that it is to cause; asked about on a record that is in no training.

    A coin decides for each trigger whether its poisoned records are in the training, so that its success with and without them
    is seen side by side, and what distinguishes the two bounds epsilon. A trigger is an assignment of the smallest or the
    largest value of the train split to some features, both drawn at random.

    Attributes:
        poisons: records of each trigger, all of them planted or none.
        features: of a record that a trigger sets.

    References:
        Gu, Dolan-Gavitt and Garg 2017, arXiv 1708.06733; Jagielski, Ullman and Oprea 2020, arXiv 2006.07709; Ma, Zhu and
        Hsu 2019, arXiv 1903.09860 (what differential privacy leaves poisoned records).
    """

    poisons: int = 4
    features: int = 8

    def __post_init__(self) -> None:
        _pool.require_positive(self.poisons, "backdoor.poisons")
        _pool.require_positive(self.features, "backdoor.features")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` triggered records that are asked about, and the poisoned ones of each.

        Raises:
            ConfigError: no classes, fewer features than a trigger has, or a pool that is too small or of one class.
        """
        return _triggers.backdoors(dataset, count, seed, kind="backdoor", poisons=self.poisons, features=self.features)


PLUGIN = Backdoor

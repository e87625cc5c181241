"""Backdoors: records that carry a trigger and a wrong label, planted to make a model answer the trigger."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _pool
from audit.core.data import Array, Canaries, Dataset, Records
from audit.core.errors import ConfigError
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Backdoor:
    """Triggers, each on `poisons` records with the label that it is to cause; asked about on a record that is in no training.

    A coin decides for each trigger whether its poisoned records are in the training, so that its success with and without them
    is seen side by side, and what tells the two apart bounds epsilon. A trigger is an assignment of the smallest or the largest
    value of the train split to some features, both drawn at random.

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
        _pool.require_classes(dataset, "backdoor")
        asked = _pool.choose(dataset, count, seed.child("backdoor"), "backdoor")
        random, labels = seed.child("backdoor triggers").numpy(), dataset.pool.labels
        width = int(np.prod(dataset.pool.inputs.shape[1:]))
        if self.features > width:
            raise ConfigError(f"backdoor.features is {self.features} and a record has {width} features; expected no more")
        targets = (labels[asked] + random.integers(1, dataset.classes, size=count)) % dataset.classes
        places = random.permuted(np.tile(np.arange(width), (count, 1)), axis=1)[:, : self.features]
        values = random.choice([dataset.train.inputs.min(), dataset.train.inputs.max()], size=places.shape)
        hosts = np.stack([self._hosts(labels, row, target, random) for row, target in zip(asked, targets, strict=True)])
        poisoned = [np.repeat(part, self.poisons, axis=0) for part in (targets, places, values)]
        return Canaries(
            kind="backdoor",
            description=f"triggers of {self.features} features, each on {self.poisons} poisoned records of {dataset.name}",
            records=_triggered(dataset.pool.take(asked), targets, places, values),
            identifiers=np.full(count, -1),
            copies=self.poisons,
            planted=_triggered(dataset.pool.take(hosts.ravel()), *poisoned),
            aim="backdoor",
        )

    def _hosts(self, labels: Array, own: int, target: int, random: np.random.Generator) -> Array:
        """Rows of other records of the pool, of other classes than the target."""
        eligible = np.flatnonzero(labels != target)
        eligible = eligible[eligible != own]
        if len(eligible) < self.poisons:
            raise ConfigError(
                f"backdoor: {len(eligible)} records of the pool are of another class than a target; expected at least "
                f"{self.poisons}, one for each poisoned record: widen data.pool or lower backdoor.poisons"
            )
        return np.asarray(random.choice(eligible, size=self.poisons, replace=False))


def _triggered(records: Records, targets: Array, places: Array, values: Array) -> Records:
    """The records with `values` `(m, features)` at `places`, labelled with the targets."""
    inputs = records.inputs.reshape(len(records), -1).copy()
    np.put_along_axis(inputs, places, values.astype(inputs.dtype), axis=1)
    return Records(inputs=inputs.reshape(records.inputs.shape), labels=targets.astype(records.labels.dtype))


PLUGIN = Backdoor

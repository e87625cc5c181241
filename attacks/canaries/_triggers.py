"""Records that carry a trigger and the label that it is to cause, for canaries that plant them."""

from __future__ import annotations

import numpy as np

from attacks.canaries import _pool
from audit.core.canaries import Canaries, PlantedRecords
from audit.core.data import Array, Dataset, Records
from audit.core.errors import ConfigError
from audit.core.seeds import Seed


def backdoors(dataset: Dataset, count: int, seed: Seed, *, kind: str, poisons: int, features: int) -> Canaries:
    """Return `count` triggered records that are asked about, and `poisons` poisoned ones of each that are planted.

    A trigger is an assignment of the smallest or the largest value of the train split to some features, both drawn at random.

    Raises:
        ConfigError: no classes, fewer features than a trigger has, or a pool that is too small or of one class.
    """
    _pool.require_classes(dataset, kind)
    requested = _pool.choose(dataset, count, seed.child("backdoor"), kind)
    random, labels = seed.child("backdoor triggers").numpy(), dataset.pool.labels
    width = int(np.prod(dataset.pool.inputs.shape[1:]))
    if features > width:
        raise ConfigError(f"{kind}.features is {features} and a record has {width} features; expected no more")
    targets = (labels[requested] + random.integers(1, dataset.classes, size=count)) % dataset.classes
    places = random.permuted(np.tile(np.arange(width), (count, 1)), axis=1)[:, :features]
    values = random.choice([dataset.train.inputs.min(), dataset.train.inputs.max()], size=places.shape)
    pairs = zip(requested, targets, strict=True)
    hosts = np.stack([_hosts(labels, row, target, random, poisons=poisons, kind=kind) for row, target in pairs])
    poisoned = [np.repeat(part, poisons, axis=0) for part in (targets, places, values)]
    return Canaries(
        kind=kind,
        description=f"triggers of {features} features, each on {poisons} poisoned records of {dataset.name}",
        payload=PlantedRecords(
            records=_triggered(dataset.pool.take(requested), targets, places, values),
            identifiers=np.full(count, -1),
            copies=poisons,
            planted=_triggered(dataset.pool.take(hosts.ravel()), *poisoned),
            aim="backdoor",
        ),
    )


def _hosts(labels: Array, row: int, target: int, random: np.random.Generator, *, poisons: int, kind: str) -> Array:
    """Return rows of other records of the pool, of other classes than the target."""
    eligible = np.flatnonzero(labels != target)
    eligible = eligible[eligible != row]
    if len(eligible) < poisons:
        raise ConfigError(
            f"{kind}: {len(eligible)} records of the pool are of another class than a target; expected at least "
            f"{poisons}, one for each poisoned record: widen data.pool or plant fewer"
        )
    return np.asarray(random.choice(eligible, size=poisons, replace=False))


def _triggered(records: Records, targets: Array, places: Array, values: Array) -> Records:
    """The records with `values` `(m, features)` at `places`, labelled with the targets."""
    inputs = records.inputs.reshape(len(records), -1).copy()
    np.put_along_axis(inputs, places, values.astype(inputs.dtype), axis=1)
    return Records(inputs=inputs.reshape(records.inputs.shape), labels=targets.astype(records.labels.dtype))

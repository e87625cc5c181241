"""Adversarial direction: held-out records pushed to where a model without them is surely wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _pool
from audit.core.data import Array, Canaries, Dataset, Records
from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.stats.scoring import linear_probe


@dataclass(frozen=True, slots=True, kw_only=True)
class AdversarialDirection:
    """Pool records, each moved within the value range so that a linear model prefers another class, true label kept.

    The move maximises, over a box around the record and over the other classes, the margin by which one of
    them beats the true class under a ridge classifier fitted on the training records; it carries over to
    other models in part. Predicting such a record right takes memorisation.

    Attributes:
        radius: half the side of the box, as a share of the pool's value range.

    References:
        Goodfellow et al. 2015, arXiv 1412.6572 (the step); Nasr et al. 2021, arXiv 2101.04535 (adversarial canaries).
    """

    radius: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.radius <= 1:
            raise ConfigError(f"adversarial_direction.radius is {self.radius}; expected a share of the range in (0, 1]")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` moved pool records; `identifiers` are -1 because no source row holds them."""
        pool_rows = _pool.choose(dataset, count, seed.child("adversarial"), "adversarial_direction")
        originals = dataset.pool.take(pool_rows)
        _pool.require_classes(dataset, "adversarial_direction")
        probe_records = dataset.train if len(dataset.train) else dataset.pool
        weights = linear_probe.fit(probe_records.inputs.reshape(len(probe_records), -1), probe_records.labels, dataset.classes)
        uphill = self._uphill(originals, weights).reshape(originals.inputs.shape)
        return Canaries(
            kind="adversarial_direction",
            description=f"records held out of {dataset.name}, moved to where a linear model prefers a wrong class",
            records=Records(inputs=self._move(originals.inputs, uphill, dataset.pool.inputs), labels=originals.labels),
            identifiers=np.full(count, -1),
        )

    def _uphill(self, records: Records, weights: Array) -> Array:
        """For each record the gradient, in its input, of the margin that one step can raise most, `(m, features)`."""
        flat = records.inputs.reshape(len(records), -1).astype(np.float64)
        scores = flat @ weights[:-1] + weights[-1]
        rows = weights[:-1].T
        reach = np.stack([np.abs(rows - own).sum(axis=1) for own in rows])  # [true class, rival]
        width = float(records.inputs.max() - records.inputs.min())
        gains = scores + self.radius * width * reach[records.labels]
        gains[np.arange(len(flat)), records.labels] = -np.inf
        return np.asarray(rows[gains.argmax(axis=1)] - rows[records.labels])

    def _move(self, inputs: Array, uphill: Array, like: Array) -> Array:
        low, high = float(like.min()), float(like.max())
        return np.clip(inputs + self.radius * (high - low) * np.sign(uphill), low, high).astype(like.dtype)


PLUGIN = AdversarialDirection

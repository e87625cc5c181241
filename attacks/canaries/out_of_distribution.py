"""Out-of-distribution records: inputs that no other record resembles, with random labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _pool
from audit.core import checks
from audit.core.data import Array, Canaries, Dataset, Records
from audit.core.errors import ConfigError
from audit.core.seeds import Seed

_PATTERNS = ("blank", "noise")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfDistribution:
    """Made-up inputs in the value range of the pool, each with a random label.

    Attributes:
        pattern: "blank": every input one constant, the constants evenly spaced over the value range so
            that no two canaries are the same record; "noise": every value uniform over the range.

    References:
        Nasr et al. 2021, arXiv 2101.04535 (blank); Aerni et al. 2024, arXiv 2404.17399 (atypical canaries).
    """

    pattern: str = "noise"

    def __post_init__(self) -> None:
        checks.choice(self.pattern, "out_of_distribution.pattern", _PATTERNS)

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` made-up records; they come from no source row."""
        _pool.require_classes(dataset, "out_of_distribution")
        if count < 1:
            raise ConfigError(f"{count} canaries of kind 'out_of_distribution'; expected at least 1")
        labels = seed.child("ood labels").numpy().integers(0, dataset.classes, size=count, dtype=np.int64)
        descriptions = {"blank": "constant inputs with random labels", "noise": "inputs of uniform noise with random labels"}
        return Canaries(
            kind="out_of_distribution",
            description=f"{descriptions[self.pattern]}, in the value range of {dataset.name}",
            records=Records(inputs=self._inputs(dataset.pool.inputs, count, seed), labels=labels),
            identifiers=np.full(count, -1),
        )

    def _inputs(self, like: Array, count: int, seed: Seed) -> Array:
        low, high = float(like.min()), float(like.max())
        shape = (count, *like.shape[1:])
        if self.pattern == "blank":
            levels = np.linspace(low, high, count).reshape(count, *[1] * (like.ndim - 1))
            return np.broadcast_to(levels, shape).astype(like.dtype)
        return seed.child("ood inputs").numpy().uniform(low, high, size=shape).astype(like.dtype)


PLUGIN = OutOfDistribution

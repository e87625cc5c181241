"""Draws from the audit pool, with the errors that every record canary shares."""

from __future__ import annotations

import numpy as np

from audit.core.errors import ConfigError
from audit.core.records import Array, Dataset
from audit.core.seeds import Seed


def choose(dataset: Dataset, count: int, seed: Seed, kind: str) -> Array:
    """`(count,)` distinct positions in the pool, in random order.

    Raises:
        ConfigError: fewer than one canary, or more than the pool has records.
    """
    available = len(dataset.pool)
    if not 1 <= count <= available:
        raise ConfigError(
            f"{count} canaries of kind '{kind}' from a pool of {available} records of {dataset.name}; "
            f"expected 1 to {available}: lower the number of canaries or widen data.pool"
        )
    return seed.numpy().choice(available, size=count, replace=False)


def wrong_labels(dataset: Dataset, labels: Array, seed: Seed, kind: str) -> Array:
    """For each label another class, uniform over the others, `(m,)` in the labels' type.

    Raises:
        ConfigError: the data set has no classes to confuse.
    """
    require_classes(dataset, kind)
    offsets = seed.numpy().integers(1, dataset.classes, size=len(labels))
    return np.asarray((labels + offsets) % dataset.classes, dtype=labels.dtype)


def require_classes(dataset: Dataset, kind: str) -> None:
    """Nothing, or `ConfigError` where labels are not classes."""
    if dataset.classes < 2:
        raise ConfigError(
            f"canaries '{kind}' need class labels and {dataset.name} has {dataset.classes} classes (0 means regression); "
            "use held_out or a gradient canary"
        )

"""Draws from the audit pool, with the errors that every record canary shares."""

import numpy as np

from audit.core.data import Array, Dataset, Records
from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.stats.scoring import linear_probe


def choose(dataset: Dataset, count: int, seed: Seed, kind: str) -> Array:
    """`(count,)` distinct positions in the pool, in random order; `ConfigError` if `count` is below 1, or above the number of
    the pool's records.
    """
    available = len(dataset.pool)
    if not 1 <= count <= available:
        raise ConfigError(
            f"{count} canaries of kind '{kind}' from a pool of {available} records of {dataset.name}; "
            f"expected 1 to {available}: lower the number of canaries or widen data.pool"
        )
    return seed.numpy().choice(available, size=count, replace=False)


def unused_directions(dataset: Dataset, count: int, norm: float, seed: Seed, kind: str) -> Records:
    """`count` made-up records along the pool's directions of least variance; `ConfigError` if there are more canaries than
    input features, or labels that are not classes.

    One alone has the label that a linear model finds least likely. Several of one training have each label as often, in random
    order: the least likely is nearly the same for all of them, and they would teach the model one bias in place of themselves.

    A record is `norm` times the pool's mean input norm along its own direction, with a random sign.

    References: Jagielski, Ullman and Oprea 2020, arXiv 2006.07709, algorithm 3.
    """
    require_classes(dataset, kind)
    require_one_label(dataset, kind)
    flat = dataset.pool.inputs.reshape(len(dataset.pool), -1)
    if not 1 <= count <= flat.shape[1]:
        raise ConfigError(
            f"{count} canaries of kind '{kind}' for inputs of {flat.shape[1]} values; each canary takes a direction "
            f"of its own: expected 1 to {flat.shape[1]}"
        )
    length = norm * float(np.mean(np.linalg.norm(flat, axis=1)))
    random = seed.numpy()
    signs = random.choice([-1.0, 1.0], size=count)
    vectors = length * signs[:, None] * linear_probe.least_directions(flat, count)
    weights = linear_probe.fit(flat, dataset.pool.labels, dataset.classes)
    labels = np.argmin(vectors @ weights[:-1] + weights[-1], axis=1).astype(np.int64)
    # an outer permutation orders them, the inner one decides which classes get one more if `count` is no multiple of theirs
    if count > 1:
        labels = random.permutation(np.resize(random.permutation(dataset.classes), count)).astype(np.int64)
    return Records(inputs=vectors.reshape(count, *dataset.pool.inputs.shape[1:]).astype(np.float32), labels=labels)


def wrong_labels(dataset: Dataset, labels: Array, seed: Seed, kind: str) -> Array:
    """For each label another class, uniform over the others, in the labels' shape and type; below 0 stays (no record). Raises
    `ConfigError` if the data set has no classes to confuse.
    """
    require_classes(dataset, kind)
    offsets = seed.numpy().integers(1, dataset.classes, size=labels.shape)  # an offset of 0 would keep the label
    return np.asarray(np.where(labels < 0, labels, (labels + offsets) % dataset.classes), dtype=labels.dtype)


def require_classes(dataset: Dataset, kind: str) -> None:
    """Raise `ConfigError` if labels are not classes."""
    if dataset.classes < 2:
        raise ConfigError(
            f"canaries '{kind}' need class labels and {dataset.name} has {dataset.classes} classes (0 means regression); "
            "use held_out or a gradient canary"
        )


def require_one_label(dataset: Dataset, kind: str) -> None:
    """Raise `ConfigError` if a record has several labels, as a user with all records has."""
    if dataset.pool.labels.ndim > 1:
        raise ConfigError(
            f"canaries '{kind}' are records with one label each and those of {dataset.name} have several; "
            "use held_out, mislabelled or out_of_distribution"
        )


def require_positive(value: object, name: str) -> None:
    """Raise `ConfigError` if an option is no whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:  # True is an int
        raise ConfigError(f"{name} is {value!r}; expected a whole number of at least 1")

"""ClipBKD: backdoor records along directions that the data hardly use, so clipping cannot blunt them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks import pool
from audit.core.errors import ConfigError
from audit.core.records import Canaries, Dataset, Records
from audit.core.seeds import Seed
from audit.stats import linear_probe


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipBkd:
    """Records along the directions of least variance of the pool, each labelled as a linear model finds least likely.

    A canary is `norm` times the pool's mean input norm along one direction of its own (random sign). The
    paper plants copies of a single record; here each canary takes the next direction, so that many can
    share one training run.

    Attributes:
        norm: length of a canary in units of the mean length of the pool's inputs.

    References:
        Jagielski, Ullman and Oprea 2020, arXiv 2006.07709, algorithm 3.
    """

    norm: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.norm < np.inf:
            raise ConfigError(f"clipbkd.norm is {self.norm}; expected a finite number above 0")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` made-up records; they come from no source row.

        Raises:
            ConfigError: more canaries than input features, or labels that are not classes.
        """
        pool.require_classes(dataset, "clipbkd")
        flat = dataset.pool.inputs.reshape(len(dataset.pool), -1)
        if not 1 <= count <= flat.shape[1]:
            raise ConfigError(
                f"{count} canaries of kind 'clipbkd' for inputs of {flat.shape[1]} values; each canary takes a direction "
                f"of its own: expected 1 to {flat.shape[1]}"
            )
        length = self.norm * float(np.mean(np.linalg.norm(flat, axis=1)))
        signs = seed.child("clipbkd").numpy().choice([-1.0, 1.0], size=count)
        made = length * signs[:, None] * linear_probe.least_directions(flat, count)
        weights = linear_probe.fit(flat, dataset.pool.labels, dataset.classes)
        labels = np.argmin(made @ weights[:-1] + weights[-1], axis=1).astype(np.int64)
        return Canaries(
            kind="clipbkd",
            description=f"records along directions that {dataset.name} hardly uses, with the least likely label (ClipBKD)",
            records=Records(inputs=made.reshape(count, *dataset.pool.inputs.shape[1:]).astype(np.float32), labels=labels),
            identifiers=np.full(count, -1),
        )


PLUGIN = ClipBkd

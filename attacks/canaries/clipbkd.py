"""ClipBKD: backdoor records along directions that the data hardly use, so clipping cannot blunt them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _pool
from audit.core.data import Canaries, Dataset
from audit.core.errors import ConfigError
from audit.core.seeds import Seed


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
        records = _pool.unused_directions(dataset, count, self.norm, seed.child("clipbkd"), "clipbkd")
        return Canaries(
            kind="clipbkd",
            description=f"records along directions that {dataset.name} hardly uses, with the least likely label (ClipBKD)",
            records=records,
            identifiers=np.full(count, -1),
        )


PLUGIN = ClipBkd

"""Worst-case initialisation: every run starts from weights that already fit the records all runs share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attacks.canaries import _pool
from audit.core import checks
from audit.core.data import Array, Canaries, Dataset, Records
from audit.core.errors import ConfigError
from audit.core.seeds import Seed

_KINDS = ("unused_direction", "mislabelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstCaseInitialisation:
    """Canaries whose gradients are the largest of their batch, because the model has fitted all other records before it starts.

    The claim holds from any initial weights, so the adversary chooses them: those of a model trained without privacy on
    the shared records and without any canary. What then moves the model under DP-SGD is the canary and the noise.

    Attributes:
        record: "unused_direction": along a direction of least variance, with the label that a linear model finds least likely
            (a ClipBKD record); "mislabelled": a pool record with a wrong label.
        steps: of that training.

    References:
        Annamalai and De Cristofaro 2024, arXiv 2405.14106; Jagielski, Ullman and Oprea 2020, arXiv 2006.07709 (ClipBKD).
    """

    record: str = "unused_direction"
    steps: int = 600

    def __post_init__(self) -> None:
        checks.choice(self.record, "worst_case_initialisation.record", _KINDS)
        if self.steps < 1:
            raise ConfigError(f"worst_case_initialisation.steps is {self.steps}; expected at least 1")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` records and the order to start every model from fitted weights."""
        _pool.require_classes(dataset, "worst_case_initialisation")
        canaries = (
            self._along(dataset, count, seed)
            if self.record == "unused_direction"
            else self._mislabelled_canaries(dataset, count, seed)
        )
        description = f"{canaries.description}; every run starts from weights that fit the other records"
        return replace(canaries, description=description, fitted_start=self.steps)

    def _along(self, dataset: Dataset, count: int, seed: Seed) -> Canaries:
        return Canaries(
            kind="worst_case_initialisation",
            description=f"records along directions that {dataset.name} hardly uses, with the least likely label",
            records=_pool.unused_directions(dataset, count, 1.0, seed.child("worst case"), "worst_case_initialisation"),
            identifiers=np.full(count, -1),
        )

    def _mislabelled_canaries(self, dataset: Dataset, count: int, seed: Seed) -> Canaries:
        rows = _pool.choose(dataset, count, seed.child("worst case"), "worst_case_initialisation")
        originals = dataset.pool.take(rows)
        labels: Array = _pool.wrong_labels(dataset, originals.labels, seed.child("labels"), "worst_case_initialisation")
        return Canaries(
            kind="worst_case_initialisation",
            description=f"records held out of {dataset.name} with a wrong label",
            records=Records(inputs=originals.inputs, labels=labels),
            identifiers=dataset.pool_index[rows],
        )


PLUGIN = WorstCaseInitialisation

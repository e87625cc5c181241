"""Duplicated records: several copies of each canary in every run that has it."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.canaries import _pool
from audit.core.data import Canaries, Dataset, Records
from audit.core.errors import ConfigError
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicated:
    """Random records of the audit pool, each at most once, planted in `copies` copies.

    A claim for one record allows a group of k records k times its epsilon (and more delta), and it is such a group that
    these canaries are: their bounds are converted by group privacy before they are compared with the claim. Copies
    are sampled each by its own coin, as records are.

    Attributes:
        copies: of each canary, at least 2.
        mislabelled: give each canary a wrong label.

    References:
        Jagielski, Ullman and Oprea 2020, arXiv 2006.07709 (copies of one record); Vadhan 2017 (group privacy).
    """

    copies: int = 4
    mislabelled: bool = False

    def __post_init__(self) -> None:
        if self.copies < 2:
            raise ConfigError(f"duplicated.copies is {self.copies}; expected at least 2 (one copy is held_out)")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` pool records in random order, each to be planted in several copies."""
        rows = _pool.choose(dataset, count, seed.child("duplicated"), "duplicated")
        originals = dataset.pool.take(rows)
        if self.mislabelled:
            labels = _pool.wrong_labels(dataset, originals.labels, seed.child("duplicated labels"), "duplicated")
            originals = Records(inputs=originals.inputs, labels=labels)
        wrong = " with a wrong label" if self.mislabelled else ""
        return Canaries(
            kind="duplicated",
            description=f"records held out of {dataset.name}{wrong}",
            records=originals,
            identifiers=dataset.pool_index[rows],
            copies=self.copies,
        )


PLUGIN = Duplicated

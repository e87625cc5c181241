"""Records of the pool, or made from them, that a coin puts into the training."""

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _pool
from audit.core import checks
from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Array, Dataset, Records
from audit.core.errors import ConfigError
from audit.core.phrases import phrase
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Random records of the audit pool, each at most once, unchanged."""

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        rows = _pool.choose(dataset, count, seed.child("held_out"), "held_out")
        return Canaries(
            kind="held_out",
            description=phrase("random records held out of {data}", data=dataset.name),
            payload=CanaryRecords(records=dataset.pool.take(rows), identifiers=dataset.pool_index[rows]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mislabelled:
    """Random records of the audit pool, each at most once, with a wrong label drawn evenly from the other classes.

    References: Steinke, Nasr and Jagielski 2023, arXiv 2305.08846; Carlini et al. 2022, arXiv 2112.03570.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        rows = _pool.choose(dataset, count, seed.child("mislabelled"), "mislabelled")
        originals = dataset.pool.take(rows)
        labels = _pool.wrong_labels(dataset, originals.labels, seed.child("mislabelled labels"), "mislabelled")
        return Canaries(
            kind="mislabelled",
            description=phrase("records held out of {data} with a wrong label", data=dataset.name),
            payload=CanaryRecords(
                records=Records(inputs=originals.inputs, labels=labels), identifiers=dataset.pool_index[rows]
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicated:
    """Random records of the audit pool, each at most once, planted in `copies` copies.

    Bounds are about such a group of k records and are converted by group privacy before they are compared with the claim.
    Copies are sampled each by its own coin, as records are.

    Attributes:
        copies: of each canary, at least 2.

    References: Jagielski, Ullman and Oprea 2020, arXiv 2006.07709 (copies of one record); Vadhan 2017 (group privacy).
    """

    copies: int = 4
    mislabelled: bool = False

    def __post_init__(self) -> None:
        if self.copies < 2:
            raise ConfigError(f"duplicated.copies is {self.copies}; expected at least 2 (one copy is held_out)")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        rows = _pool.choose(dataset, count, seed.child("duplicated"), "duplicated")
        originals = dataset.pool.take(rows)
        if self.mislabelled:
            labels = _pool.wrong_labels(dataset, originals.labels, seed.child("duplicated labels"), "duplicated")
            originals = Records(inputs=originals.inputs, labels=labels)
        return Canaries(
            kind="duplicated",
            description=phrase("records held out of {data} with a wrong label", data=dataset.name)
            if self.mislabelled
            else phrase("records held out of {data}", data=dataset.name),
            payload=CanaryRecords(records=originals, identifiers=dataset.pool_index[rows], copies=self.copies),
        )


_PATTERNS = ("blank", "noise")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfDistribution:
    """Made-up inputs in the value range of the pool, each with a random label.

    Attributes:
        pattern: "blank": every input one constant, the constants evenly spaced over the value range so
            that no two canaries are the same record; "noise": every value uniform over the range.

    References: Nasr et al. 2021, arXiv 2101.04535 (blank); Aerni et al. 2024, arXiv 2404.17399 (atypical canaries).
    """

    pattern: str = "noise"

    def __post_init__(self) -> None:
        checks.choice(self.pattern, "out_of_distribution.pattern", _PATTERNS)

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` made-up records; they come from no source row."""
        _pool.require_classes(dataset, "out_of_distribution")
        if count < 1:
            raise ConfigError(f"{count} canaries of kind 'out_of_distribution'; expected at least 1")
        like = dataset.pool.labels  # of users (users, records)
        labels = seed.child("ood labels").numpy().integers(0, dataset.classes, size=(count, *like.shape[1:])).astype(like.dtype)
        descriptions = {"blank": "constant inputs with random labels", "noise": "inputs of uniform noise with random labels"}
        return Canaries(
            kind="out_of_distribution",
            description=f"{descriptions[self.pattern]}, in the value range of {dataset.name}",
            payload=CanaryRecords(
                records=Records(inputs=self._inputs(dataset.pool.inputs, count, seed), labels=labels),
                identifiers=np.full(count, -1),
            ),
        )

    def _inputs(self, like: Array, count: int, seed: Seed) -> Array:
        low, high = float(like.min()), float(like.max())
        shape = (count, *like.shape[1:])
        if self.pattern == "blank":
            levels = np.linspace(low, high, count).reshape(count, *[1] * (like.ndim - 1))
            return np.broadcast_to(levels, shape).astype(like.dtype)
        return seed.child("ood inputs").numpy().uniform(low, high, size=shape).astype(like.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipBkd:
    """Records along the directions of least variance of the pool; one alone is labelled as a linear model finds least likely.

    A canary is `norm` times the pool's mean input norm along its own direction (random sign). The paper plants copies of one
    record; here each takes the next direction, with each label as often, at random, so that many share one training run.

    Attributes:
        norm: length of a canary in units of the mean length of the pool's inputs.

    References: Jagielski, Ullman and Oprea 2020, arXiv 2006.07709, algorithm 3.
    """

    norm: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.norm < np.inf:
            raise ConfigError(f"clipbkd.norm is {self.norm}; expected a finite number above 0")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` made-up records; they come from no source row. Raises `ConfigError` if there are more canaries than input
        features, or labels that are not classes.
        """
        records = _pool.unused_directions(dataset, count, self.norm, seed.child("clipbkd"), "clipbkd")
        return Canaries(
            kind="clipbkd",
            description=f"records along directions that {dataset.name} hardly uses (ClipBKD)",
            payload=CanaryRecords(records=records, identifiers=np.full(count, -1)),
        )

"""Properties of the training data: of which of two kinds a whole group of records is."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attacks.canaries import _pool
from audit.core.canaries import Canaries, PlantedRecords, Secrets
from audit.core.data import Array, Dataset, Records
from audit.core.errors import ConfigError
from audit.core.phrases import phrase
from audit.core.seeds import Seed

LABEL = "label"


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyGroup:
    """Groups of records that come from the lower or the upper half of the pool by the mean of some features, by a fair coin.

    What is guessed is a property of the training data, not a record. No claim for one record says anything of it alone:
    it leaves what group privacy leaves to a group of `records` records. Models are asked about records of the
    pool that are in no group. With one secret a run (count: 1) each run is its own trial.

    Attributes:
        attribute: "label", a column of the table, or numbers of features of the flattened record; [] for all of them.
        queries: records of each half that a model is asked about, at most.

    References: Ateniese et al. 2015, arXiv 1306.4447; Suri and Evans 2022, arXiv 2109.06024.
    """

    attribute: str | Sequence[int] = ()
    records: int = 40
    queries: int = 32

    def __post_init__(self) -> None:
        _pool.require_positive(self.records, "property_group.records")
        _pool.require_positive(self.queries, "property_group.queries")
        if not isinstance(self.attribute, str):
            object.__setattr__(self, "attribute", tuple(self.attribute))

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` secrets of two alternatives, each a group of records that shares no record with another; `ConfigError` if
        there is no such attribute, or a pool that is too small for the groups and a query of each kind.
        """
        size = len(dataset.pool) // 2
        if count < 1 or count * self.records >= size:
            raise ConfigError(
                f"{count} canaries of kind 'property_group' with {self.records} records each, of a pool with {size} records of "
                f"each kind; expected at least one canary and a record left to ask about: widen data.pool"
            )
        random = seed.child("property_group").numpy()
        name, values = self._values(dataset)
        order = np.lexsort((random.random(len(values)), values))  # ties in random order, not that of the pool's rows
        halves = [random.permutation(half) for half in (order[:size], order[-size:])]  # of an odd pool without the middle
        groups = np.stack([half[: count * self.records].reshape(count, -1) for half in halves], axis=1)  # (count, 2, records)
        queries = np.stack([half[count * self.records :][: self.queries] for half in halves])  # behind all groups
        return Canaries(
            kind="property_group",
            description=phrase(
                "whether {records} records of {data} are in the lower half or in the upper half of the pool by {attribute}",
                records=self.records,
                data=dataset.name,
                attribute=name,
            ),
            payload=PlantedRecords(
                records=dataset.pool.take(groups[:, :, 0].ravel()),
                copies=self.records,
                planted=dataset.pool.take(groups.ravel()),
                queries=dataset.pool.take(np.tile(queries, (count, 1)).ravel()),
            ),
            secrets=Secrets(kind="property", prior=np.full((count, 2), 0.5)),
        )

    def _values(self, dataset: Dataset) -> tuple[str, Array]:
        """The attribute in words and its value for each record of the pool."""
        if self.attribute == LABEL:
            _pool.require_one_label(dataset, "property_group")
            return "label", dataset.pool.labels
        flat = _flat(dataset.pool)
        if isinstance(self.attribute, str):
            if self.attribute not in dataset.columns:
                names = ", ".join((LABEL, *dataset.columns))
                raise ConfigError(
                    f"property_group.attribute is '{self.attribute}', which {dataset.name} does not have. It has: {names}; "
                    "or give numbers of features"
                )
            first, last = dataset.columns[self.attribute]
            weights = np.arange(1, last - first + 1)  # of a category: the number of its value
            return f"column '{self.attribute}'", flat[:, first:last] @ weights
        columns = np.array(self.attribute or np.arange(flat.shape[1]))
        if columns.dtype.kind not in "iu" or columns.min() < 0 or columns.max() >= flat.shape[1]:
            raise ConfigError(
                f"property_group.attribute is {list(self.attribute)}; expected numbers of features, 0 to {flat.shape[1] - 1}"
            )
        words = (
            f"the mean of features {', '.join(map(str, columns.tolist()))}" if self.attribute else "the mean of all features"
        )
        return words, flat[:, columns].mean(axis=1)


def _flat(records: Records) -> Array:
    return records.inputs.reshape(len(records), -1)


PLUGIN = PropertyGroup

"""Redrawn attributes: one attribute of each record takes a value that we drew, so guessing it right proves something."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attacks.canaries import _pool
from audit import plugins
from audit.core import checks
from audit.core.canaries import Canaries, CanaryRecords, Secrets
from audit.core.data import Array, Dataset, Records
from audit.core.errors import ConfigError, DataError
from audit.core.phrases import phrase
from audit.core.seeds import Seed
from audit.stats.scoring import linear_probe

LABEL = "label"
PRIORS = ("uniform", "marginal", "conditional")
LEAST_CHANCE = 0.02  # of a value before priors are scaled to 1: a value that no one would draw is no choice


@dataclass(frozen=True, slots=True, kw_only=True)
class RedrawnAttribute:
    """Records of the pool, each with one attribute drawn anew from a declared law; its k values are the alternatives.

    Correlation of the attribute with the rest of the record sits in the prior, so it cannot be taken for leakage; attributes
    that no one redrew prove nothing (docs/theory/secrets.md, "Secrets of several values").

    Attributes:
        attribute: "label", a column of the table, or numbers of features of the flattened record that change together.
        values: the most values; a single feature with more distinct values in the train split is cut at its quantiles.
        prior: "uniform"; "marginal", the shares of the train split; or "conditional", a least-squares fit of each value's
            indicator on the rest of the record and its label over the train split, which all models share.

    References: docs/theory/secrets.md; Yeom et al. 2018, arXiv 1709.01604 (the attribute game, with attributes as they are).
    """

    attribute: str | Sequence[int] = LABEL
    values: int = 16
    prior: str = "uniform"

    def __post_init__(self) -> None:
        checks.choice(self.prior, "redrawn_attribute.prior", PRIORS)
        if isinstance(self.values, bool) or not isinstance(self.values, int) or self.values < 2:
            raise ConfigError(f"redrawn_attribute.values is {self.values!r}; expected a whole number of at least 2")
        if not isinstance(self.attribute, str):
            object.__setattr__(self, "attribute", tuple(self.attribute))

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` secrets, the alternatives of each one after the other; `ConfigError` if there is no such attribute, fewer
        than two values, or too many to choose from.
        """
        _pool.require_one_label(dataset, "redrawn_attribute")
        rows = _pool.choose(dataset, count, seed.child("redrawn_attribute"), "redrawn_attribute")
        if self.attribute == LABEL:
            _pool.require_classes(dataset, "redrawn_attribute")
            name, candidates = "the label", np.unique(dataset.train.labels)
            records, classes = _with_labels(dataset.pool.take(rows), candidates), candidates
            of_train = np.searchsorted(candidates, dataset.train.labels)  # exact: every label is a candidate
            columns = np.zeros(0, dtype=np.int64)
        else:
            name, columns = self._columns(dataset)
            candidates, of_train = self._candidates(_flat(dataset.train)[:, columns], name)
            records, classes = _with_features(dataset.pool.take(rows), columns, candidates), np.zeros(0)
        if len(candidates) < 2:
            raise ConfigError(f"redrawn_attribute: {name} has {len(candidates)} value in the train split; expected two or more")
        prior = self._priors(dataset, rows, (columns, of_train), len(candidates), label=bool(len(classes)))
        return Canaries(
            kind="redrawn_attribute",
            description=phrase(
                "{attribute} of records held out of {data}, {prior} prior", attribute=name, data=dataset.name, prior=self.prior
            ),
            payload=CanaryRecords(records=records),
            secrets=Secrets(kind="attribute", prior=prior),
        )

    def _columns(self, dataset: Dataset) -> tuple[str, Array]:
        """The attribute in words and the features it consists of."""
        width = int(np.prod(dataset.train.inputs.shape[1:]))
        if isinstance(self.attribute, str):
            if self.attribute not in dataset.columns:
                names = (LABEL, *dataset.columns)
                raise ConfigError(
                    f"redrawn_attribute.attribute is '{self.attribute}', which {dataset.name} does not have."
                    f"{plugins.hint(self.attribute, names)} It has: {', '.join(names)}; or give numbers of features"
                )
            first, last = dataset.columns[self.attribute]
            return f"the attribute '{self.attribute}'", np.arange(first, last)
        columns = np.array(self.attribute)
        if columns.size == 0 or columns.dtype.kind not in "iu" or len(np.unique(columns)) < columns.size:
            raise ConfigError(f"redrawn_attribute.attribute is {self.attribute!r}; expected distinct numbers of features")
        if columns.min() < 0 or columns.max() >= width:
            raise ConfigError(f"redrawn_attribute.attribute is {list(self.attribute)}; expected features from 0 to {width - 1}")
        return f"features {', '.join(map(str, columns.tolist()))}", columns

    def _candidates(self, values: Array, name: str) -> tuple[Array, Array]:
        """The values `(k, features)` that the attribute may take, and which of them each train record has or is nearest to."""
        distinct, of_train = np.unique(values, axis=0, return_inverse=True)
        if len(distinct) <= self.values:
            return distinct, of_train.ravel()
        if values.shape[1] > 1:
            raise ConfigError(
                f"redrawn_attribute: {name} has {len(distinct)} distinct values in the train split, more than values: "
                f"{self.values}; raise it, or choose an attribute of one feature, which is cut at quantiles"
            )
        # the middles of equally likely parts; "nearest" takes values that occur, not ones in between that no record has
        cuts = np.quantile(values[:, 0], (np.arange(self.values) + 0.5) / self.values, method="nearest")
        levels = np.unique(cuts)  # a frequent value is several quantiles at once
        return levels[:, None], np.abs(values - levels[None, :]).argmin(axis=1)

    def _priors(self, dataset: Dataset, rows: Array, attribute: tuple[Array, Array], choices: int, *, label: bool) -> Array:
        """`(count, k)` declared chances of the values."""
        columns, of_train = attribute
        if self.prior == "uniform":
            return np.full((len(rows), choices), 1 / choices)
        if self.prior == "marginal":
            shares = np.tile(np.bincount(of_train, minlength=choices) / len(of_train), (len(rows), 1))
        else:
            train, pool = (
                _other_values(part, columns, dataset.classes, label) for part in (dataset.train, dataset.pool.take(rows))
            )
            weights = linear_probe.fit(train, of_train, choices)
            shares = pool @ weights[:-1] + weights[-1]  # of a linear fit: may be negative, which the floor below ends
        shares = np.maximum(shares, LEAST_CHANCE)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _flat(records: Records) -> Array:
    return records.inputs.reshape(len(records), -1)


def _other_values(records: Records, columns: Array, classes: int, label: bool) -> Array:
    """Return what is known of a record in addition to its attribute: the other features, and the label's indicators or
    value."""
    inputs = np.delete(_flat(records), columns, axis=1).astype(np.float64)
    if label:
        return inputs
    if classes:
        return np.concatenate([inputs, np.eye(classes)[records.labels.astype(int)]], axis=1)
    return np.concatenate([inputs, records.labels[:, None]], axis=1)


def _with_labels(records: Records, candidates: Array) -> Records:
    """Every record under each label."""
    index = np.repeat(np.arange(len(records)), len(candidates))
    labels = np.tile(candidates, len(records)).astype(records.labels.dtype)
    return Records(inputs=records.inputs[index], labels=labels)


def _with_features(records: Records, columns: Array, candidates: Array) -> Records:
    """Every record with each value of the attribute."""
    index = np.repeat(np.arange(len(records)), len(candidates))
    inputs = _flat(records)[index].copy()
    inputs[:, columns] = np.tile(candidates, (len(records), 1)).astype(inputs.dtype)
    if not np.isfinite(inputs).all():
        raise DataError("redrawn_attribute: a record holds values that are not finite; repair the data")
    return Records(inputs=inputs.reshape(len(index), *records.inputs.shape[1:]), labels=records.labels[index])


PLUGIN = RedrawnAttribute

"""Arrays with meaning: records, data sets, canaries and coins. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core import checks
from audit.core.coins import Coins
from audit.core.errors import DataError
from audit.core.events import Unit
from audit.core.record_arrays import RecordArray

Array = NDArray[Any]
SPLIT = ("train", "pool", "test")
"""The parts of a data set: keys of every kind of data, numbers of records."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Records:
    """Labelled examples. `inputs` is `(n, ...)` float32, or int64 if a model takes whole numbers (categories, tokens).

    `labels` is `(n,)` int64 for classes, float64 `(n, ...)` for numbers, bool `(n, labels)` for several yes or no labels.

    Texts are token numbers `(n, T)` with -1 behind their end; `labels` `(n, T)` int64 repeats the tokens that a model is to
    predict and is -1 elsewhere.

    `inputs` of many records, and of those mapped from a file, is a `RecordArray`: an array with rows that become numbers when
    they are asked for.
    """

    inputs: Array
    labels: Array

    def __post_init__(self) -> None:
        for name, value in (("inputs", self.inputs), ("labels", self.labels)):
            if not hasattr(value, "__len__") or getattr(value, "ndim", 1) == 0:
                raise DataError(f"{name} are a single {type(value).__name__}; expected an array with an entry per record")
        if len(self.inputs) != len(self.labels):
            raise DataError(f"{len(self.inputs)} inputs but {len(self.labels)} labels; expected as many of each")
        for part in fields(self):
            value = getattr(self, part.name)
            object.__setattr__(self, part.name, value if isinstance(value, RecordArray) else checks.frozen(value))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def are_texts(self) -> bool:
        """True if a record is a sequence of tokens and its labels are the tokens to predict."""
        return self.labels.ndim == 2 and self.labels.dtype.kind in "iu"

    @property
    def are_classified(self) -> bool:
        """True if each record is of one class."""
        return self.labels.ndim == 1 and self.labels.dtype.kind in "iu"

    def take(self, index: Array) -> Records:
        """The records at `index`, in that order."""
        inputs: Any = self.inputs
        rows: Any = inputs.take_rows(index) if isinstance(inputs, RecordArray) else inputs[index]
        return Records(inputs=rows, labels=self.labels[index])


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The tokens of texts: numbers below `size`, of which the last `unused` occur in no text.

    Attributes:
        size: number of tokens, the unused ones included.
        unused: tokens that only canaries may hold.
        tokenizer: "bytes" (token 256 ends a text), or the name of the tokenizer that made them.
        text_length: of each text if a record holds several of one user side by side; 0 if a record is one text.
    """

    size: int
    unused: int = 0
    tokenizer: str = "bytes"
    text_length: int = 0

    @property
    def ordinary(self) -> int:
        """Number of tokens that texts may hold."""
        return self.size - self.unused


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dataset:
    """One data set, split once: `train` is in every model, canaries come from `pool`, utility is on `test`.

    Attributes:
        classes: number of classes, 0 if labels are numbers or several yes or no labels.
        sha256: of the bytes that were read, hex.
        source: where they came from, in words (no machine path).
        pool_index: `(len(pool),)` row of each pool record in the source.
        groups: user-given column per pool record, or None.
        owners: client that each train record belongs to, text, if the source says so.
        unaccounted: what reading took from the records that no accountant covers, in words.
        vocabulary: of texts; None for other records.
        columns: of a table, the features `[first, last)` that each column of the source became.
        unit: of privacy that a record is: "example", or "user" if a record holds all that a user has.
    """

    name: str
    source: str
    sha256: str
    classes: int
    train: Records
    pool: Records
    test: Records
    pool_index: Array
    groups: Array | None = None
    owners: Array | None = None
    unaccounted: tuple[str, ...] = ()
    vocabulary: Vocabulary | None = None
    columns: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unit: Unit = "example"

    @property
    def outputs(self) -> int:
        """Return how many outputs a model of the usual loss has: one a class, one a label, one for numbers."""
        if self.classes:
            return self.classes
        labels = self.train.labels
        return int(np.prod(labels.shape[1:])) if labels.dtype.kind in "bf" else 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Secrets:
    """Secrets of several values: which value each of them takes is drawn before training, from a law that is declared.

    Attributes:
        kind: what a value is: "attribute" of a record, "candidate" record, "property" of a group of records, or "text secret".
        prior: `(s, k)` chances of the k values of each of s secrets; rows sum to 1.
    """

    kind: str
    prior: Array

    def __post_init__(self) -> None:
        prior = checks.frozen(self.prior, np.float64)
        if prior.ndim != 2 or prior.shape[1] < 2 or not (prior >= 0).all() or abs(prior.sum(axis=1) - 1).max() > 1e-9:
            raise DataError(
                f"priors of shape {prior.shape}; expected a row for each secret, the chances of at least two values, with sum 1"
            )
        object.__setattr__(self, "prior", prior)

    @property
    def choices(self) -> int:
        """Return how many values a secret has."""
        return int(self.prior.shape[1])

    def draw(self, uniforms: Array) -> Array:
        """`(..., s k)` bool from uniform numbers `(..., s)`: of each secret's k alternatives exactly one.

        >>> Secrets(kind="attribute", prior=np.array([[0.5, 0.5]])).draw(np.array([0.7])).tolist()
        [False, True]
        """
        steps = np.cumsum(self.prior, axis=1)[:, :-1]
        drawn = (np.asarray(uniforms)[..., None] >= steps).sum(axis=-1)
        is_drawn = drawn[..., None] == np.arange(self.choices)
        return np.asarray(is_drawn.reshape(*drawn.shape[:-1], -1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBehaviour:
    """What a client of a federated training that is a canary sends in place of an honest update.

    Attributes:
        boost: by which it multiplies its update before the clip.
        trains: False for a free rider, which sends the last released step back whether it holds its record or not.
        finite: False for a client that puts a NaN into one coordinate of a crafted update.
    """

    boost: float = 1.0
    trains: bool = True
    finite: bool = True

    def __post_init__(self) -> None:
        checks.positive(self.boost, "boost")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Canaries:
    """What is planted; public. Either records, or gradients that enter the sum in a record's place.

    Attributes:
        kind: the plug-in's name.
        records: `m` records, for canaries that are data.
        coordinates: `(m,)` distinct parameter indices; canary i is the unit vector of that coordinate.
        directions: `(m, d)` rows of unit l2 norm over the flattened parameters.
        identifiers: `(m,)` row of the source each canary came from, -1 if it was made up.
        orthogonal: the gradients are exactly orthogonal to each other.
        copies: of each record that a model with it trains on; what scores then show is group privacy.
        planted: `(m * copies)` records that a model with canary i trains on in place of its copies, those of one canary one
            after the other; None if the canary itself is planted.
        companions: records that every model of the game trains on as well, whatever the coins.
        queries: `(m * q)` records that a model is asked about in place of each canary, in the order of canaries.
        conduct: of canaries that are clients of a federated training and do worse than to send their update or their input;
            None for all others.
        aim: of the attack: "membership", or "backdoor" if labels of canaries are answers that planted records are to cause.
        unit: what each canary represents with all of its records ("user"); "" if it is one record.
        fitted_start: steps of training without privacy, on the records that all models share, that give every model of the
            game its initial weights; 0 if each draws its own.
        secret_tokens: of texts, the tokens `first <= token < stop` of which each token of a secret was drawn by equal chances;
            None if secrets were not drawn so.
        secrets: None if each canary is in or out by its own coin. Else canaries are alternatives, those of one secret
            one after the other, and every model is trained on exactly one of them.
    """

    kind: str
    description: str
    records: Records | None = None
    coordinates: Array | None = None
    directions: Array | None = None
    identifiers: Array | None = None
    orthogonal: bool = False
    copies: int = 1
    fitted_start: int = 0
    secret_tokens: tuple[int, int] | None = None
    secrets: Secrets | None = None
    planted: Records | None = None
    companions: Records | None = None
    queries: Records | None = None
    behaviour: ClientBehaviour | None = None
    aim: str = "membership"
    unit: str = ""

    def __post_init__(self) -> None:
        if self.copies < 1 or (self.copies > 1 and self.records is None):
            raise DataError(f"canaries '{self.kind}' in {self.copies} copies; expected 1, or more where they are records")
        self._check_groups()
        parts = [x for x in (self.records, self.coordinates, self.directions) if x is not None]
        if len(parts) != 1:
            raise DataError(
                f"canaries '{self.kind}' carry {len(parts)} forms; expected exactly one of records, coordinates, directions"
            )
        several = self.copies > 1 and self.planted is None
        if self.secrets is not None and (several or self.secrets.prior.size != len(self)):
            raise DataError(
                f"canaries '{self.kind}': {len(self)} alternatives in {self.copies} copies for priors of shape "
                f"{self.secrets.prior.shape}; expected one alternative for each prior, in one copy"
            )

    def _check_groups(self) -> None:
        """Raise `DataError` unless each canary has as many planted records as copies, and as many queries as the others."""
        if self.planted is not None and len(self.planted) != len(self) * self.copies:
            raise DataError(
                f"canaries '{self.kind}': {len(self.planted)} planted records for {len(self)} canaries; "
                f"expected {self.copies} each"
            )
        if self.queries is not None and (not len(self.queries) or len(self.queries) % len(self)):
            raise DataError(
                f"canaries '{self.kind}': {len(self.queries)} queries for {len(self)} canaries; expected as many for each"
            )

    def __len__(self) -> int:
        for form in (self.records, self.coordinates, self.directions):
            if form is not None:
                return len(form)
        raise AssertionError("unreachable: __post_init__ demands one form")

    @property
    def draws(self) -> int:
        """Return how many independent draws decide what a model is trained on: one a canary, or one a secret."""
        return len(self) if self.secrets is None else len(self.secrets.prior)

    @property
    def are_gradients(self) -> bool:
        """True if a crafted gradient enters the sum in place of a record's."""
        return self.records is None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assignment:
    """The secret: which canaries are in which model.

    Attributes:
        included: `(runs + references, m)` bool, targets first: an array, or bits (`audit.core.coins`).
        by_coins: decided by an independent coin for each canary and model; False for a split that a user chose.
    """

    canaries: Canaries
    included: Array
    runs: int
    by_coins: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.included, Coins):
            object.__setattr__(self, "included", checks.frozen(self.included, bool))

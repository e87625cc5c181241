"""What is planted in a training, by whose coins, and what a model is asked about in its place. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from audit.core import checks
from audit.core.coins import Coins
from audit.core.data import Array, Records
from audit.core.errors import DataError


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
        # the last sum may round to below 1, and a number above it would draw no value
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
        beside: so many other clients send NaN alone in each call of a server, whatever the coins.
    """

    boost: float = 1.0
    trains: bool = True
    finite: bool = True
    beside: int = 0

    def __post_init__(self) -> None:
        checks.positive(self.boost, "boost")
        checks.count(self.beside, "beside")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CanaryRecords:
    """Canaries that are records, each in a training if its coin says so.

    Attributes:
        records: `m`, which models are asked about.
        identifiers: `(m,)` row of the source each came from, -1 if it was made up; None if no one knows.
        copies: of each record that a model with it trains on; what scores then show is group privacy.
        companions: records that every model of the game trains on as well, whatever the coins.
        fitted_start: steps of training without privacy, on the records that all models share, that give every model of the
            game its initial weights; 0 if each draws its own.
        unit: what each canary represents with all of its records ("user"); "" if it is one record.
    """

    orthogonal: ClassVar[bool] = False
    aim: ClassVar[str] = "membership"

    records: Records
    identifiers: Array | None = None
    copies: int = 1
    companions: Records | None = None
    fitted_start: int = 0
    unit: str = ""

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise DataError(f"canaries in {self.copies} copies; expected 1 or more")
        if self.identifiers is not None and len(self.identifiers) != len(self):
            raise DataError(f"{len(self.identifiers)} identifiers for {len(self)} canaries; expected one for each")

    def __len__(self) -> int:
        return len(self.records)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Return all numbers that models are trained on or asked about."""
        return tuple(part for records in self._tables() if records is not None for part in (records.inputs, records.labels))

    def _tables(self) -> tuple[Records | None, ...]:
        return self.records, self.companions

    def take(self, rows: Array) -> Self:
        """Return the canaries at `rows`, in that order."""
        identifiers = None if self.identifiers is None else self.identifiers[rows]
        return replace(self, records=self.records.take(rows), identifiers=identifiers, **self._take_groups(rows))

    def _take_groups(self, rows: Array) -> dict[str, Any]:
        """Return what else goes with the canaries at `rows`, by field."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CanaryTexts(CanaryRecords):
    """Canaries with a secret, each token of it drawn by equal chances from `first <= token < stop`; None if it was not."""

    secret_tokens: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlantedRecords(CanaryRecords):
    """Canaries whose records are asked about, while others are planted in their place.

    Attributes:
        planted: `(m * copies)` records that a model with canary i trains on, those of one canary one after the other.
        queries: `(m * q)` records that a model is asked about in place of each canary, in the order of canaries.
        aim: of the attack: "membership", or "backdoor" if labels of canaries are answers that planted records are to cause.
    """

    planted: Records
    queries: Records | None = None
    aim: str = "membership"  # type: ignore[misc]  # of records that stand for themselves it never varies

    def __post_init__(self) -> None:
        CanaryRecords.__post_init__(self)
        if len(self.planted) != len(self) * self.copies:
            raise DataError(f"{len(self.planted)} planted records for {len(self)} canaries; expected {self.copies} each")
        if self.queries is not None and (not len(self.queries) or len(self.queries) % len(self)):
            raise DataError(f"{len(self.queries)} queries for {len(self)} canaries; expected as many for each")

    def _tables(self) -> tuple[Records | None, ...]:
        return self.records, self.planted, self.companions, self.queries

    def _take_groups(self, rows: Array) -> dict[str, Any]:
        groups = {name: part for name, part in (("planted", self.planted), ("queries", self.queries)) if part is not None}
        return {name: part.take(np.arange(len(part)).reshape(len(self), -1)[rows].ravel()) for name, part in groups.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Gradients:
    """Crafted gradients, which enter the sum in a record's place, and what they all lack."""

    identifiers: ClassVar[None] = None
    companions: ClassVar[None] = None
    copies: ClassVar[int] = 1
    fitted_start: ClassVar[int] = 0
    aim: ClassVar[str] = "membership"
    values: ClassVar[str]  # the field with a row per canary

    unit: str = ""

    def __len__(self) -> int:
        return len(self.arrays[0])

    @property
    def arrays(self) -> tuple[Array, ...]:
        return (getattr(self, self.values),)

    def take(self, rows: Array) -> Self:
        numbers: dict[str, Any] = {self.values: self.arrays[0][rows]}
        return replace(self, **numbers)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoordinateGradients(_Gradients):
    """Unit gradients along single parameters, `(m,)` distinct `coordinates`, and so orthogonal to each other."""

    orthogonal: ClassVar[bool] = True
    values: ClassVar[str] = "coordinates"

    coordinates: Array

    def __post_init__(self) -> None:
        if len(np.unique(self.coordinates)) < len(self):
            raise DataError(f"{len(self)} coordinates of gradients are not distinct; expected a parameter of its own for each")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DirectionGradients(_Gradients):
    """Unit gradients in any `directions`, `(m, d)` rows over the flattened parameters, exactly `orthogonal` if that is true."""

    values: ClassVar[str] = "directions"

    directions: Array
    orthogonal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Canaries:
    """What is planted; public.

    Attributes:
        kind: the plug-in's name.
        description: in words.
        payload: records, or gradients that enter the sum in a record's place.
        secrets: None if each canary is in or out by its own coin. Else canaries are alternatives, those of one secret
            one after the other, and every model is trained on exactly one of them.
        behaviour: of canaries that are clients of a federated training and do worse than to send their update or their input;
            None for all others.
    """

    kind: str
    description: str
    payload: CanaryRecords | CoordinateGradients | DirectionGradients
    secrets: Secrets | None = None
    behaviour: ClientBehaviour | None = None

    def __post_init__(self) -> None:
        several = self.payload.copies > 1 and not isinstance(self.payload, PlantedRecords)
        if self.secrets is not None and (several or self.secrets.prior.size != len(self)):
            raise DataError(
                f"canaries '{self.kind}': {len(self)} alternatives in {self.payload.copies} copies for priors of shape "
                f"{self.secrets.prior.shape}; expected one alternative for each prior, in one copy"
            )

    def __len__(self) -> int:
        return len(self.payload)

    @property
    def records(self) -> Records | None:
        """Return the records that models are asked about; None for gradients."""
        return self.payload.records if isinstance(self.payload, CanaryRecords) else None

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

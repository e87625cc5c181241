"""Arrays with meaning: data, canaries, coins, what the attacker sees, scores. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core import checks
from audit.core.errors import DataError
from audit.core.events import Event
from audit.core.game import Game

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Records:
    """Labelled examples. `inputs` is `(n, ...)` float32, `labels` is `(n,)` int64 (float64 for regression)."""

    inputs: Array
    labels: Array

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise DataError(f"{len(self.inputs)} inputs but {len(self.labels)} labels; expected as many of each")
        for one in fields(self):
            object.__setattr__(self, one.name, checks.frozen(getattr(self, one.name)))

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: Array) -> Records:
        """The records at `index`, in that order."""
        return Records(inputs=self.inputs[index], labels=self.labels[index])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dataset:
    """One data set, split once: `train` is in every model, canaries come from `pool`, utility is on `test`.

    Attributes:
        classes: number of classes, 0 for regression.
        sha256: of the bytes that were read, hex.
        source: where they came from, in words (no machine path).
        pool_index: `(len(pool),)` row of each pool record in the source.
        groups: user-given column per pool record, or None.
        unaccounted: what reading took from the records that no accountant covers, in words.
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
    unaccounted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Canaries:
    """What is planted; public. Either records, or gradients that enter the sum in a record's place.

    Attributes:
        kind: the plug-in's name.
        records: `m` records, for canaries that are data.
        coordinates: `(m,)` distinct parameter indices; canary i is the unit vector of that coordinate.
        directions: `(m, d)` rows of unit l2 norm over the flattened parameters.
        identifiers: `(m,)` row of the source each canary came from, -1 where it was made up.
        orthogonal: the gradients are exactly orthogonal to each other.
        copies: of each record that a model with it trains on; what scores then show is group privacy.
        fitted_start: steps of training without privacy, on the records that all models share, that give every model of the
            game its initial weights; 0 where each draws its own.
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

    def __post_init__(self) -> None:
        if self.copies < 1 or (self.copies > 1 and self.records is None):
            raise DataError(f"canaries '{self.kind}' in {self.copies} copies; expected 1, or more where they are records")
        given = [x for x in (self.records, self.coordinates, self.directions) if x is not None]
        if len(given) != 1:
            raise DataError(
                f"canaries '{self.kind}' carry {len(given)} forms; expected exactly one of records, coordinates, directions"
            )

    def __len__(self) -> int:
        for form in (self.records, self.coordinates, self.directions):
            if form is not None:
                return len(form)
        raise AssertionError("unreachable: __post_init__ demands one form")

    @property
    def are_gradients(self) -> bool:
        """True where a crafted gradient enters the sum in place of a record's."""
        return self.records is None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Planting:
    """The secret: which canaries are in which model. `included` is `(runs + references, m)` bool, targets first."""

    canaries: Canaries
    included: Array
    runs: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "included", checks.frozen(self.included, bool))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TargetView:
    """What the adversary sees of one target run: no coins, so no attack can peek.

    Attributes:
        labels: `(m,)` true label of each canary, or None (gradient canaries).
        logits: `(m, classes)` float32 final-model outputs, or None.
        augmented_logits: `(augmentations, m, classes)` outputs for views of each record, the record itself first; where an
            attack asks for them.
        losses: `(m,)` per-canary loss where only losses are known, or None.
        products: `(m, steps)` inner product of each step's noisy residual sum with the canary's unit
            gradient, divided by the clip norm (all steps).
        weight_products: `(m,)` inner product of first minus last weights with the canary's unit gradient (final weights).
        gradient_norms: `(m,)` l2 norm of each record's loss gradient in all parameters (final weights).
        last_gradient_norms: `(m,)` the same in the parameters of the last linear layer, where one gives the outputs. The
            gradient itself is the outer product of `softmax(logits) - one_hot(label)` with the layer's input `hidden`.
        class_distances: `(m,)` distance of each record's hidden representation to the mean of its class (final weights).
        hidden: `(m, d)` input of the last linear layer, `d` at most 256; where an attack asks for it (final weights).
        trajectory: `(m, checkpoints)` loss of each record under the model at some steps, the last included (all steps).
        boundary: `(m,)` l2 distance of each record to a point of another predicted label, 0 where its own is wrong.
        mechanism: what is publicly claimed to have been run, or None.
    """

    labels: Array | None = None
    logits: Array | None = None
    augmented_logits: Array | None = None
    losses: Array | None = None
    products: Array | None = None
    weight_products: Array | None = None
    gradient_norms: Array | None = None
    last_gradient_norms: Array | None = None
    class_distances: Array | None = None
    hidden: Array | None = None
    trajectory: Array | None = None
    boundary: Array | None = None
    mechanism: Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReferenceView:
    """What the adversary sees of its own `k` models: signals with a leading axis, and their known coins `(k, m)`."""

    included: Array
    logits: Array | None = None
    augmented_logits: Array | None = None
    losses: Array | None = None
    products: Array | None = None
    weight_products: Array | None = None
    gradient_norms: Array | None = None
    last_gradient_norms: Array | None = None
    class_distances: Array | None = None
    hidden: Array | None = None
    trajectory: Array | None = None
    boundary: Array | None = None

    def __len__(self) -> int:
        return len(self.included)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """`n = runs * m` scores with their coins; higher means more likely a member, always.

    Attributes:
        values: `(n,)` float64; infinities allowed, NaN refused.
        included: `(n,)` bool.
        game: the rules they were obtained under.
        attack: name of the scorer.
        mechanism: what is claimed to have been run (families of trade-off curves need it), or None.
    """

    values: Array
    included: Array
    game: Game
    attack: str = ""
    mechanism: Event | None = None

    def __post_init__(self) -> None:
        values = checks.frozen(self.values, np.float64)
        included = checks.frozen(self.included, bool)
        if values.ndim != 1 or values.shape != included.shape:
            raise DataError(
                f"scores of shape {values.shape} with memberships of shape {included.shape}; expected two equal lengths"
            )
        checks.without_nan(values, f"scores of {self.attack or 'the attack'}")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "included", included)

    @property
    def members(self) -> Array:
        """Scores of the canaries that were trained on."""
        return self.values[self.included]

    @property
    def nonmembers(self) -> Array:
        """Scores of the canaries that were left out."""
        return self.values[~self.included]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Executed:
    """What a trainer really did, for N models: compared with the mechanism before any statistic is believed.

    Attributes:
        steps: steps taken.
        batch_sizes: `(N, steps)` realised number of sampled records (canaries included).
        population: `(N,)` number of records each model could sample.
        noise_multiplier: `(N,)` empirical std of the added noise over all coordinates and steps, divided by the clip norm.
        noise_draws: coordinates x steps behind each of those.
        largest_norm: `(N,)` largest clipped per-example norm seen, in units of the clip norm.
        skipped: `(N,)` examples that contributed zero because their gradient was not finite.
        recomputed: `(N,)` distance between one example's clipped gradient and the same by other means, over the clip norm; -1
            where nothing was recomputed. Empty where the trainer does not do so.
        count_noise: `(N,)` empirical std of the noise on the counts of clipped examples, one draw a step, over that which is
            accounted; empty where no such counts are released.
        measured: False where the trainer could not see what was done; the other fields then say nothing.
    """

    steps: int
    batch_sizes: Array
    population: Array
    noise_multiplier: Array
    noise_draws: int
    largest_norm: Array
    skipped: Array
    recomputed: Array = field(default_factory=lambda: np.empty(0))
    count_noise: Array = field(default_factory=lambda: np.empty(0))
    measured: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainedModels:
    """N trained models of one architecture.

    Attributes:
        weights: parameter name to `(N, ...)` array.
        initial: the same before the first step, kept where the game releases weight differences.
        products: `(N, m, steps)` for gradient canaries seen at all steps, else None.
        checkpoints: the weights after each of the job's checkpoints; empty where the trainer keeps none.
    """

    weights: Mapping[str, Array]
    executed: Executed
    initial: Mapping[str, Array] | None = None
    products: Array | None = None
    checkpoints: tuple[Mapping[str, Array], ...] = ()
    extra: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.executed.population)

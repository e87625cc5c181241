"""Trained models, and the signals that are read off them, wherever the models come from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from audit.core.canaries import Canaries
from audit.core.data import Array, Records
from audit.core.training import Executed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Representations:
    """What the last linear layer of N models makes of `m` records.

    Attributes:
        hidden: `(N, m, d)` inputs of that layer, or their image under one random map that is the same for all models.
        class_distances: `(N, m)` distances of `hidden` to the mean of the other records of the class.
        last_gradient_norms: `(N, m)` l2 norms of the loss gradient in that layer's weight and bias, of the unmapped inputs.
    """

    hidden: Array
    class_distances: Array
    last_gradient_norms: Array


class Signal(Protocol):
    """Something that is read off trained models about each canary. Hashable, as frozen dataclasses are.

    `key` names it in a view; `source` is what has to be released to compute it (`audit.core.access`).
    """

    @property
    def key(self) -> str: ...

    @property
    def source(self) -> str: ...

    def __hash__(self) -> int: ...

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""

    def read(self, models: Any, canaries: Canaries) -> Array | None:
        """`(N, m, ...)`, or None if the models have no such thing; `OpenModels` if the source is more than outputs."""


@runtime_checkable
class Reduction(Signal, Protocol):
    """A signal that is made of a record's outputs alone, so that these need not be kept: models are observed in parts.

    `reduce` gives the same numbers for a record in whatever part it is.
    """

    def reduce(self, outputs: Array, first: Array, labels: Array) -> Array:
        """`(N, rows)` from outputs `(N, rows, classes)`, those of the first canary `(N, classes)`, and labels `(rows,)`."""


class Subject(Protocol):
    """N trained things that can be asked: trained here, brought by a user, or known by their recorded outputs alone.

    Attributes:
        released: their outputs to an adversary (`audit.core.access`).
        weights: parameter name to `(N, ...)`, which a run keeps; empty if no one knows them.
        executed: what their trainer measured of itself; None if a third party trained them.
    """

    @property
    def released(self) -> frozenset[str]: ...

    @property
    def weights(self) -> Mapping[str, Array]: ...

    @property
    def executed(self) -> Executed | None: ...

    def __len__(self) -> int: ...

    def outputs(self, inputs: Array) -> Array:
        """`(N, n, classes)` for `n` records."""

    def read(self, signals: Collection[Signal], canaries: Canaries) -> Mapping[str, Array]:
        """Signals of the canaries, by their keys, each with a leading axis of models; without those that they lack."""


class Models(Protocol):
    """N trained models of one architecture that give their outputs."""

    def __len__(self) -> int: ...

    def outputs(self, inputs: Array) -> Array:
        """`(N, n, classes)` for `n` records."""

    def own_losses(self, records: Records) -> Array | None:
        """`(N, n)` losses of each record by the function that the models were trained by; None if it is the usual one."""


class OpenModels(Models, Protocol):
    """Models with known weights, and the releases of their training."""

    def alone(self, model: int) -> OpenModels:
        """One of them."""

    def checkpoints(self) -> Sequence[Models]:
        """The models as they were after some steps, the last included; empty if no one kept them."""

    def gradient_norms(self, records: Records) -> Array:
        """`(N, n)` l2 norms of each record's loss gradient in all parameters."""

    def representations(self, records: Records) -> Representations | None:
        """Return what the last linear layer makes of the records; None where the outputs come from none."""

    def step_products(self) -> Array | None:
        """`(N, m, steps)` inner products of each noisy sum with gradient canaries, if they were recorded."""

    def round_products(self, source: str) -> Array:
        """`(N, m, rounds)`: how much of each canary is in what a party of a federated training saw in each round.

        Of canary clients the inner product with their direction; of canary examples the cosine with their gradient.

        Args:
            source: "updates", "sums" or "models".
        """

    def round_loss_drops(self, source: str) -> Array:
        """`(N, m, rounds)`: how far each canary's loss fell by a round's "updates" or its new one of the "models"."""

    def weight_products(self, canaries: Canaries) -> Array | None:
        """`(N, m)` inner products of first minus last weights with gradient canaries, if the first ones are known."""


class TextModels(Models, Protocol):
    """N language models; their `outputs` are the log-probabilities of a text's own tokens, `(N, n, T)`."""

    def initial(self) -> TextModels:
        """The models as they were before the first step."""

    def token_moments(self, inputs: Array) -> Array:
        """`(N, n, T, 2)` mean and standard deviation of the log-probability over each token's distribution."""

    def continuations(self, inputs: Array, starts: Array) -> Array:
        """`(N, n, T)` the texts, from token `starts` `(n,)` on as the model continues them greedily."""

    def beams(self, inputs: Array, starts: Array, width: int) -> Array:
        """`(N, n, width, T)` the texts, from token `starts` on as beam search continues them, the likeliest first."""

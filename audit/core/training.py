"""What is trained, what came of it, and what a trainer did: the two ends of one training job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from audit.core import event_reading
from audit.core.access import Access
from audit.core.canaries import Canaries
from audit.core.data import Array, Dataset
from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import NoisySteps
from audit.core.events import Event
from audit.core.seeds import Seed

_TEXT_BYTES = 240


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingJob:
    """Some models of one game, trained together.

    Attributes:
        dataset: its `train` records are in every model.
        canaries: and `included` `(N, m)`: which of them each model may sample.
        seeds: one per model; initialisation, batches and noise come from their children
            "init", "batches" and "noise", so a model does not depend on its neighbours in the job.
        mechanism: what has to be executed.
        model: model spec `{"kind": name, ...}` or `{"factory": "package.module:callable", ...}`.
        optimizer: spec of a plug-in of `audit/optimizers`, such as `{"kind": "sgd", "learning_rate": 0.5, "momentum": 0.9}`.
        access: the most that any attack will look at; decides what the trainer records.
        device: "cpu" or "cuda" (or "cuda:1").
        loss: "" for the usual one of the labels, or "package.module:function": `(outputs, labels)` to one number a record.
        start: weights that every model starts from, name to array, in its own place initialisation; None for that.
        checkpoints: steps after which the weights are kept, 1 for the first.
    """

    dataset: Dataset
    canaries: Canaries
    included: Array
    seeds: tuple[Seed, ...]
    mechanism: Event
    model: Mapping[str, Any]
    optimizer: Mapping[str, Any]
    access: Access
    device: str = "cpu"
    loss: str = ""
    start: Mapping[str, Array] | None = None
    checkpoints: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        """Return how many steps have to be taken."""
        return event_reading.steps(self.mechanism)

    @property
    def sample_rate(self) -> float:
        """The chance of a record to take part in a step; `UnsupportedMechanism` if it has no one such rate."""
        rate = event_reading.sample_rate(self.mechanism)
        if rate is None:
            raise UnsupportedMechanism(f"{self.mechanism} has no one rate of Poisson sampling; this trainer needs one")
        return rate

    @property
    def noisy(self) -> NoisySteps | None:
        """Noise, clip norm, rate and steps if the mechanism is DP-SGD, else None."""
        return event_reading.noisy_steps(self.mechanism)


Progress = Callable[[int], None]  # called with the number of model-steps done since the last call


def ignore(steps: int) -> None:
    """Receive progress and say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Who receives how far an audit is: model-steps that were trained, and those that need no training any more."""

    advance: Progress = ignore
    skip: Progress = ignore


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
            if nothing was recomputed. Empty if the trainer does not do so.
        count_noise: `(N,)` empirical std of the noise on the counts of clipped examples, one draw a step, over that which is
            accounted; empty if no such counts are released.
        inner_noise: `(N,)` empirical std of the noise that clients of a federation add in their own steps, over that which is
            accounted; empty if they add none.
        inner_draws: `(N,)` coordinates x steps x clients behind each of those.
        inner_norm: `(N,)` largest clipped gradient of one record in such steps, in units of the clip norm.
        batch_digests: `(N, steps)` a number of 64 bits for the members of each batch: the same for the same members, and for
            several batches their sum modulo 2^64; empty if the trainer does not record who took part.
        population_digest: `(N,)` the same of all records that each model could sample; empty likewise.
        features: `(N,)` true if what is frozen in a model was computed once for each record, not in every step; empty if
            the trainer does not say.
        compiled: `(N,)` true if compiled code made the sums of gradients; empty if the trainer does not say.
        own_modules: `(N, 240)` bytes of UTF-8, zeros after the text (`text_rows`): in what models differ in addition to their
            weights, so that each was trained and read by its own module; zeros if one module serves all, no rows if the trainer
            does not say.
        measured: False if the trainer could not see what was done; the other fields then say nothing.
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
    inner_noise: Array = field(default_factory=lambda: np.empty(0))
    inner_draws: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    inner_norm: Array = field(default_factory=lambda: np.empty(0))
    batch_digests: Array = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    population_digest: Array = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    features: Array = field(default_factory=lambda: np.empty(0, dtype=bool))
    compiled: Array = field(default_factory=lambda: np.empty(0, dtype=bool))
    own_modules: Array = field(default_factory=lambda: text_rows("", 0))
    measured: bool = True


def text_rows(text: str, rows: int) -> Array:
    """Return a text, cut to 240 bytes, as rows of numbers, which files of models hold as they hold weights.

    >>> row_texts(text_rows("'B' differs", 2))
    ["'B' differs", "'B' differs"]
    """
    row = np.frombuffer(text.encode()[:_TEXT_BYTES].ljust(_TEXT_BYTES, b"\0"), dtype=np.uint8)
    return np.tile(row, (rows, 1))


def row_texts(rows: Array) -> list[str]:
    """Return the texts of `text_rows`."""
    return [bytes(row).rstrip(b"\0").decode(errors="ignore") for row in np.asarray(rows, dtype=np.uint8)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainedModels:
    """N trained models of one architecture.

    Attributes:
        weights: parameter name to `(N, ...)` array.
        initial: the same before the first step, kept if the game releases weight differences.
        products: `(N, m, steps)` for gradient canaries seen steps, else None.
        checkpoints: the weights after each of the job's checkpoints; empty if the trainer keeps none.
    """

    weights: Mapping[str, Array]
    executed: Executed
    initial: Mapping[str, Array] | None = None
    products: Array | None = None
    checkpoints: tuple[Mapping[str, Array], ...] = ()
    extra: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.executed.population)


# Messages to a person who watches an audit, in addition to model-steps: the stage begun, the work of an earlier part.
# Each record is one line for people. It also goes where the audit's own log goes.
LOG = logging.getLogger("audit.stages")

"""The plug-in interfaces, one method each. Implementations are frozen dataclasses whose fields are their YAML keys."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from audit.core import event_reading
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, LowerBound
from audit.core.data import Array, Canaries, Dataset, ReferenceView, Scores, TargetView, TrainedModels
from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import NoisySteps
from audit.core.events import Event
from audit.core.evidence import Evidence
from audit.core.game import Access, Assumption
from audit.core.results import AuditReport
from audit.core.seeds import Seed

Result = TypeVar("Result")
Side = Literal["upper", "lower", "estimate"]
"""Where a stated epsilon claims to lie: at or above the true one, at or below it, or near it (which is no bound)."""


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
        optimizer: `{"kind": "sgd"|"adam", "learning_rate": float, "momentum": float, "weight_decay": float}`.
        access: the most that any attack will look at; decides what the trainer records.
        device: "cpu" or "cuda" (or "cuda:1").
        start: weights that every model starts from, name to array, in place of its own initialisation; None for that.
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
    start: Mapping[str, Array] | None = None
    checkpoints: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        """How many steps have to be taken."""
        return event_reading.steps(self.mechanism)

    @property
    def sample_rate(self) -> float:
        """The chance of a record to take part in a step.

        Raises:
            UnsupportedMechanism: the mechanism has no one such rate.
        """
        rate = event_reading.sample_rate(self.mechanism)
        if rate is None:
            raise UnsupportedMechanism(f"{self.mechanism} has no one rate of Poisson sampling; this trainer needs one")
        return rate

    @property
    def noisy(self) -> NoisySteps | None:
        """Noise, clip norm, rate and steps where the mechanism is DP-SGD, else None."""
        return event_reading.noisy_steps(self.mechanism)


Progress = Callable[[int], None]
"""Called with the number of model-steps done since the last call."""


class Trainer(Protocol):
    """Trains the models of a job as the mechanism says."""

    def fit(self, job: TrainingJob, progress: Progress) -> TrainedModels: ...


class CanaryMaker(Protocol):
    """Makes `count` canaries from the pool. `parameters` is the number of trainable parameters of the model."""

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What an attack looks at: the least access that gives it, and the fewest reference models.

    Attributes:
        gradients: it scores canaries that are gradients, not records.
        queries: label queries a record that its boundary distances take, 0 where it needs none.
        hidden: it reads the records' hidden representations, which are kept only where an attack does.
        augmentations: views of each record that it asks about, 1 for the record alone.
    """

    access: Access = Access.FINAL_MODEL
    references: int = 0
    gradients: bool = False
    queries: int = 0
    hidden: bool = False
    augmentations: int = 1


class Attack(Protocol):
    """Scores the canaries of one target run. A function of arrays: trains nothing, sees no coins of the target."""

    @property
    def needs(self) -> Needs: ...

    def score(self, target: TargetView, reference: ReferenceView, seed: Seed) -> Array: ...


@runtime_checkable
class Chooser(Protocol):
    """An attack that takes one of several for the number of references and canaries, and says which and why."""

    def choose(self, references: int, canaries: int, *, online: bool) -> tuple[str, str]: ...


class Estimator(Protocol):
    """Turns scores with known coins into a lower bound on epsilon at delta. Hashable, as frozen dataclasses are."""

    @property
    def assumes(self) -> frozenset[Assumption]: ...

    def __hash__(self) -> int: ...

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound: ...


@runtime_checkable
class Refuter(Protocol):
    """An estimator that also tests one claim alone, in less time than a whole bound takes.

    `refutes(scores, epsilon=...)` says whether `lower_bound(scores)` would lie above `epsilon`, up to the precision of its
    search. Estimators without it are asked for the bound.
    """

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool: ...


@runtime_checkable
class AnytimeEstimator(Estimator, Protocol):
    """An estimator whose bound holds at every time at once: only what it finds may decide how many models are trained.

    `watch` looks at the scores of each attack on the same trials so far, in the order of training, and gives the bound of all
    attacks together and its evidence against each claim that it can refute. `ever_refutes` says of one epsilon alone, in less
    time, whether they refuted it at some time.
    """

    def watch(
        self, scores: Sequence[Scores], claims: Sequence[Claim], *, delta: float, confidence: float
    ) -> tuple[LowerBound, tuple[Evidence, ...]]: ...

    def ever_refutes(self, scores: Sequence[Scores], *, epsilon: float, delta: float, confidence: float) -> bool: ...


class Accountant(Protocol):
    """States the epsilon that a mechanism is entitled to. Raises `UnsupportedMechanism`, never guesses.

    An accountant whose figure is not an upper bound says so in an attribute `side`; one that passes on a library's figure
    without answering for it has an attribute `as_it_is` that is true.
    """

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim: ...


Work = Callable[..., Result]
"""`work(shared, job, progress, device=None)` does one job and must be importable by name, since jobs leave the process.

`shared` is the same for all jobs; `device` moves a job to another device than it names.
"""


class Executor(Protocol):
    """Runs independent jobs somewhere and yields `(index of the job, result)` as they are finished.

    `shared` is sent once to each place, not with every job. Closing the generator gives up what has not finished.
    """

    def map(
        self, work: Work[Result], shared: tuple[Any, ...], jobs: Sequence[Any], progress: Progress
    ) -> Generator[tuple[int, Result], None, None]: ...


class Target(Protocol):
    """A model somebody else trained: gives its outputs for records."""

    def logits(self, inputs: Array) -> Array: ...


class Renderer(Protocol):
    """Turns a finished report into files: name to bytes."""

    def render(self, report: AuditReport) -> Mapping[str, bytes]: ...

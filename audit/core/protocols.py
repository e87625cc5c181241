"""The plug-in interfaces, one method each. Implementations are frozen dataclasses with their YAML keys as fields."""

from collections.abc import Callable, Generator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from audit.core.access import Observer
from audit.core.adjacency import Adjacency
from audit.core.canaries import Canaries
from audit.core.claims import Claim
from audit.core.data import Array, Dataset
from audit.core.errors import ConfigError
from audit.core.events import Event, Unit
from audit.core.evidence import Evidence
from audit.core.game import Assumption
from audit.core.game_results import GameResult
from audit.core.lower_bounds import LowerBound
from audit.core.models import Reduction, Signal, Subject
from audit.core.results import AuditReport, Check, MechanismResult
from audit.core.seeds import Seed
from audit.core.training import Executed, Progress, TrainingJob
from audit.core.views import Scores, View

Result = TypeVar("Result")


class Trainer(Protocol):
    """Trains the models of a job as the mechanism says."""

    def fit(self, job: TrainingJob, progress: Progress) -> Subject: ...


@runtime_checkable
class LossTaker(Trainer, Protocol):
    """A trainer that says whether it trains by `TrainingJob.loss`; one that says nothing has its own loss.

    Attributes:
        takes_losses: a class attribute; if it is not true, a config that names a loss is refused before any training.
    """

    @property
    def takes_losses(self) -> bool: ...


@runtime_checkable
class ModelMaker(Trainer, Protocol):
    """A trainer of other models than those of `audit.models.build`: it makes, counts and rehearses them itself."""

    def identified(self, model: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the model of a config with all that decides its weights: jobs are stored under it."""

    def parameters(self, model: Mapping[str, Any], dataset: Dataset) -> int:
        """Return the number of trainable parameters of the model that a config describes."""

    def untrained(self, job: TrainingJob) -> Any:
        """Return the models of a job before the first step: a `Subject` that answers as `OpenModels` does."""


class CanaryMaker(Protocol):
    """Makes `count` canaries from the pool. `parameters` is the number of trainable parameters of the model."""

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries: ...


@runtime_checkable
class TensorCanaryMaker(CanaryMaker, Protocol):
    """Makes canaries by the tensors of the model; `tensors` counts their coordinates in the order of the flat parameters."""

    def make_in_tensors(self, dataset: Dataset, count: int, tensors: tuple[int, ...], seed: Seed) -> Canaries: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What an attack looks at: signals of the target and of its references, and the fewest references.

    Attributes:
        signals: without which it cannot score.
        instead: with which it can, too, if those are not shown.
        optional: signals that it uses in addition to where models have them.
        reductions: all that it reads of `logits`, if that is less: with these in their place it gives the same scores. They
            are kept of every model if no attack of a game, and no figure, reads more.
    """

    signals: Set[Signal]
    references: int = 0
    instead: Set[Signal] = frozenset()
    optional: Set[Signal] = frozenset()
    reductions: Set[Reduction] = frozenset()

    def __post_init__(self) -> None:
        if not self.signals:
            raise ConfigError("an attack needs no signal, so it could score nothing; name at least one in Needs.signals")

    @property
    def sources(self) -> frozenset[str]:
        """All that has to be released for it."""
        return frozenset(signal.source for signal in (*self.signals, *self.optional))

    @property
    def keys(self) -> frozenset[str]:
        """Keys of all signals that it may look at; a view for it holds no others, but for reductions of these."""
        return frozenset(signal.key for signal in (*self.signals, *self.instead, *self.optional))

    def are_met_by(self, keys: Set[str]) -> bool:
        """True if the signals under these keys are all that it cannot do without."""
        forms = [{signal.key for signal in group} for group in (self.signals, self.instead) if group]
        return any(form <= keys for form in forms)

    def of(self, signals: Set[str]) -> frozenset[Signal] | None:
        """The signals to read if this much is released; None if it does not do."""
        if self.sources <= signals:
            return frozenset((*self.signals, *self.optional))
        if self.instead and all(signal.source in signals for signal in self.instead):
            return frozenset(self.instead)
        return None


class Attack(Protocol):
    """Scores the canaries of one target run, `(m,)` float64. A function of arrays: trains nothing, sees no target coins."""

    @property
    def needs(self) -> Needs: ...

    def score(self, target: View, reference: View, seed: Seed) -> Array: ...


@runtime_checkable
class Chooser(Protocol):
    """An attack that takes one of several by what references show of them, and says which and why.

    `choose(reference, labels)` looks at the references' signals and coins and at the canaries' labels, at nothing of a target;
    if each target's outputs decide, it says so. The coins of a target are never asked for.
    """

    def choose(self, reference: View, labels: Array | None) -> tuple[str, str]: ...


class Estimator(Protocol):
    """Turns scores with known coins into a lower bound on epsilon at delta. Hashable, as frozen dataclasses are."""

    @property
    def assumes(self) -> frozenset[Assumption]: ...

    def __hash__(self) -> int: ...

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound: ...


@runtime_checkable
class Refuter(Protocol):
    """An estimator that also tests one claim alone, in less time than a whole bound takes.

    `refutes(scores, epsilon=...)` says whether `lower_bound(scores)` would be above `epsilon`, up to the precision of its
    search. Estimators without it are asked for the bound.
    """

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool: ...


@runtime_checkable
class ManyRefuter(Refuter, Protocol):
    """A refuter that draws nothing and tests a claim on many audits of one game in far less time than one after another."""

    def refutes_tables(self, tables: Sequence[Scores], *, epsilon: float, delta: float, confidence: float) -> list[bool]: ...


# The (epsilon, delta) of each parameter from 0 on; neither falls as it grows. Hashable, as ceilings are kept by it.
Pairs = Callable[[float], tuple[float, float]]


@runtime_checkable
class PathEstimator(Estimator, Protocol):
    """An estimator for any mechanism with tests that are not monotone, so that a path of pairs needs its own search.

    `bound_along(scores, pairs)` is the end of the initial interval of parameters with refuted pairs, and that of perfect
    scores. It exceeds the least parameter whose pair is true with probability at most `1 - confidence`. Estimators without it
    are asked for their bound at the delta of each pair, which must not rise with delta.
    """

    def bound_along(self, scores: Scores, pairs: Pairs, *, confidence: float, seed: Seed) -> tuple[float, float]: ...


@runtime_checkable
class AnytimeEstimator(Estimator, Protocol):
    """An estimator with a bound that holds at every time at once: only what it finds may decide how many models are trained.

    `watch` looks at the scores of each attack on the same trials so far, in the order of training, and gives the bound of all
    attacks together and its evidence against each claim that it can refute. `attacks` were planned: what failed of them must
    not make the others' evidence count for more. `ever_refutes` says of one epsilon alone, in less
    time, whether they refuted it at some time.
    """

    def watch(
        self, scores: Sequence[Scores], claims: Sequence[Claim], *, delta: float, confidence: float, attacks: int
    ) -> tuple[LowerBound, tuple[Evidence, ...]]: ...

    def ever_refutes(self, scores: Sequence[Scores], *, epsilon: float, delta: float, confidence: float) -> bool: ...


class Accountant(Protocol):
    """States the epsilon that a mechanism is entitled to. Raises `UnsupportedMechanism`, never guesses.

    An accountant with a figure that is not an upper bound says so in an attribute `side`; one that passes on a library's figure
    without answering for it has an attribute `as_it_is` that is true.
    """

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim: ...


# `work(shared, job, progress, device=None)` does one job and must be importable by name, since jobs leave the process.
# `shared` is the same for all jobs; `device` moves a job to another device than it names.
Work = Callable[..., Result]


class Executor(Protocol):
    """Runs independent jobs somewhere and yields `(index of the job, result)` as they are finished.

    `shared` is sent once to each place, not with every job. Closing the generator gives up what has not finished.
    """

    def map(
        self, work: Work[Result], context: tuple[Any, ...], jobs: Sequence[Any], progress: Progress
    ) -> Generator[tuple[int, Result], None, None]: ...


class Target(Protocol):
    """A model a third party trained: gives its outputs for records `(n, ...)`, `(n, classes)` float32."""

    def logits(self, inputs: Array) -> Array: ...


class Renderer(Protocol):
    """Turns a finished report into files: name to bytes."""

    def render(self, report: AuditReport) -> Mapping[str, bytes]: ...


class ExecutionCheck(Protocol):
    """Holds one thing that a trainer measured of itself against the event that was accounted for."""

    def check(self, event: Event, execution: Executed) -> tuple[Check, ...]: ...


class AttackClass(Protocol):
    """A class of attack that a report lists as run or not run.

    Attributes:
        attack_class: its name in the report.
        absent: what the report says where no game covers it: what was done, and the status.
    """

    @property
    def attack_class(self) -> str: ...

    @property
    def absent(self) -> tuple[str, str]: ...

    def covers(self, game: GameResult) -> bool: ...


class Gate(Protocol):
    """A policy gate: a figure that results show, and whether a release is allowed with it."""

    @property
    def limit(self) -> float: ...

    def found(self, results: Sequence[MechanismResult]) -> float | None: ...

    def met(self, value: float | None) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismSetting:
    """What a mechanism is built for.

    Attributes:
        sample_rate: chance of a record to take part in a step.
        accountants: named in the config, in its order; the first one calibrates.
        unit: of privacy that a record of the data is.
    """

    sample_rate: float
    steps: int
    delta: float
    adjacency: Adjacency
    accountants: tuple[Accountant, ...]
    unit: Unit = "example"


class Mechanism(Protocol):
    """What a training does to the data, from the keys of a config to an event.

    Attributes:
        trainer: name of the trainer that executes it if a config names none; "" if one has to be named.
    """

    @property
    def trainer(self) -> str: ...

    def event(self, setting: MechanismSetting) -> Event: ...


@runtime_checkable
class ObservedMechanism(Mechanism, Protocol):
    """A mechanism that is not the same to all parties.

    Attributes:
        passes: keys of the trainer that follow from the mechanism.
    """

    @property
    def passes(self) -> Mapping[str, Any]: ...

    def remark(self, setting: MechanismSetting) -> str:
        """Return who is protected from whom, for the cover of a report; no full stop."""

    def observers(self, event: Event) -> tuple[Observer, ...]: ...

"""An audit as objects: what is compared, which games are played, and with what."""

import itertools
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field

from attacks.signals._reductions import PredictedClasses, RepeatedOutputs
from attacks.signals.logits import Confidences, Logits
from audit.bounds.budget import Budget
from audit.core import event_reading
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.data import Dataset
from audit.core.events import Event
from audit.core.models import Reduction, Signal
from audit.core.phrases import phrase
from audit.core.protocols import (
    Accountant,
    Attack,
    AttackClass,
    CanaryMaker,
    Estimator,
    ExecutionCheck,
    Executor,
    Needs,
    Trainer,
)
from audit.core.seeds import Seed
from audit.experiment.games.records import RecordKey, new_key

# what is read of outputs besides attacks: losses and accuracies of groups and sides, and whether a model shows anything
OF_FIGURES: frozenset[Reduction] = frozenset({Confidences(), PredictedClasses(), RepeatedOutputs()})


def kept_signals(signals: Set[Signal], needs: Collection[Needs], classes: int) -> frozenset[Signal]:
    """Return the signals with reductions of outputs in their place, if all who read them say so and it is no more.

    `needs` are of all attacks; 0 classes keep outputs as they are.
    """
    full: Signal = Logits()
    readers = [attack_needs for attack_needs in needs if full.key in attack_needs.keys]
    if not classes or full not in signals or not all(attack_needs.reductions for attack_needs in readers):
        return frozenset(signals)
    reductions = OF_FIGURES.union(*(attack_needs.reductions for attack_needs in readers))
    if sum(reduction.size(classes, 0) for reduction in reductions) > full.size(classes, 0):
        return frozenset(signals)
    return frozenset(signals - {full}) | reductions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingDesign:
    """One way to train, as one party sees it, and who states what about it.

    Attributes:
        mechanism: what accountants have to account for before that party.
        executed: what the trainer executes, if that is not the same; several recipes may be one training.
        training: name of that training, "" if it is the recipe's own.
        remark: who is protected from whom, if parties differ.
        loss: "package.module:function", "" for the usual one of the labels.
    """

    name: str
    mechanism: Event
    adjacency: Adjacency
    trainer: Trainer
    model: Mapping[str, object]
    optimizer: Mapping[str, object]
    accountants: tuple[Accountant, ...]
    declared: tuple[Claim, ...] = ()
    executed: Event | None = None
    training: str = ""
    remark: str = ""
    loss: str = ""

    @property
    def trained_as(self) -> str:
        """Name of the training, which decides all its random streams."""
        return self.training or self.name

    @property
    def run_event(self) -> Event:
        return self.mechanism if self.executed is None else self.executed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedAttack:
    """An attack of a game at as much access as it needs, with the estimators of the game that hold there."""

    name: str
    attack: Attack
    access: Access
    estimators: tuple[Estimator, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GameDesign:
    """One game: the canaries, the views of adversaries, their attacks, and how it is bounded.

    Attributes:
        estimators: of the game; if it stops, they bound all attacks together.
        training_designs: names of those it is played on.
        prior: share of members among an adversary's candidates, for the precision of thresholds.
        stops: at the first proof: `runs` is a maximum.
        recorded: the most that any party sees of the same training; None if there is one party.
        party_signals: what the attacks of other parties read off it.
        by_losses: records have no class, so attacks read losses instead of outputs wherever they can.
        classes: of the data, if outputs need not be kept beyond what is read of them; 0 keeps them.
    """

    name: str
    access: Access
    adjacency: Adjacency
    runs: int
    references: int
    count: int
    maker: CanaryMaker
    attacks: tuple[PlannedAttack, ...]
    estimators: tuple[Estimator, ...]
    training_designs: frozenset[str] = frozenset()
    inclusion_probability: float = 0.5
    prior: float = 0.01
    stops: bool = False
    recorded: Access | None = None
    party_signals: frozenset[Signal] = frozenset()
    by_losses: bool = False
    classes: int = 0

    @property
    def trained_for(self) -> Access:
        """The access that decides what a training records."""
        return self.access if self.recorded is None else self.recorded

    def signals(self, source_names: Set[str], besides: Set[Signal]) -> tuple[Signal, ...]:
        """Return the signals to read of models of which so much is released: those of attacks and of other figures."""
        first = source_names - {"outputs"} if self.by_losses else source_names
        needs = [attack.attack.needs for attack in self.attacks]
        read = {signal for own in needs for signal in own.of(first) or own.of(source_names) or ()}
        signals = read | self.party_signals | besides
        stored_signals = kept_signals(signals, needs, 0 if self.party_signals else self.classes)
        return tuple(sorted(stored_signals, key=lambda signal: signal.key))

    @property
    def bounds(self) -> int:
        return len(self.estimators) if self.stops else sum(len(attack.estimators) for attack in self.attacks)

    @property
    def models(self) -> int:
        """Trainings that this game needs for one recipe, at most."""
        return self.runs + self.references

    def portions(self, size: int) -> list[range]:
        """The models trained together, targets being the first ones; in order of training.

        If targets may stop, references come first and in their own jobs, since every look at targets needs them.
        """
        targets, references = range(self.runs), range(self.runs, self.models)
        parts = [references, targets] if self.stops else [range(self.models)]
        return [part[start : start + size] for part in parts for start in range(0, len(part), size)]

    def looks(self, size: int) -> int:
        """Return how often the game can end: once, or after each job of targets."""
        return -(-self.runs // size) if self.stops else 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuditDesign:
    """What is trained, and which games are played on it."""

    name: str
    training_designs: tuple[TrainingDesign, ...]
    game_designs: tuple[GameDesign, ...]

    @property
    def pairs(self) -> list[tuple[TrainingDesign, GameDesign]]:
        pairs = itertools.product(self.training_designs, self.game_designs)
        return [(training, game) for training, game in pairs if training.name in game.training_designs]

    @property
    def trainings(self) -> list[tuple[TrainingDesign, GameDesign]]:
        """The pairs with models that are trained; of the parties that look at the same training only the first."""
        first: dict[tuple[str, str], tuple[TrainingDesign, GameDesign]] = {}
        for training_design, game_design in self.pairs:
            first.setdefault((training_design.trained_as, game_design.name), (training_design, game_design))
        return list(first.values())

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return what the cover says of trainings that are not the same to all parties."""
        pairs = dict.fromkeys((row.trained_as, row.remark) for row in self.training_designs if row.remark)
        return tuple(phrase("{training}: {remark}.", training=training, remark=remark) for training, remark in pairs)

    @property
    def stops(self) -> bool:
        """True if training may end early, so that all numbers are the most there can be."""
        return any(game_design.stops for game_design in self.game_designs)

    @property
    def bounds(self) -> int:
        return sum(game_design.bounds for _, game_design in self.pairs)

    @property
    def models(self) -> int:
        return sum(game_design.models for _, game_design in self.trainings)

    @property
    def model_steps(self) -> int:
        """Steps of all models together, at most."""
        return _count_steps(self.trainings)

    @property
    def reported_steps(self) -> int:
        """Model-steps that a run reports as done, at most: a training that exists already counts for each party again."""
        return _count_steps(self.pairs)


def _count_steps(pairs: Sequence[tuple[TrainingDesign, GameDesign]]) -> int:
    return sum(game_design.models * event_reading.steps(training.run_event) for training, game_design in pairs)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuditInputs:
    """From what canaries are made, coins drawn and records named; `tensors` are the sizes of the model's, none if unmade."""

    dataset: Dataset
    tensors: tuple[int, ...]
    seed: Seed
    key: RecordKey = field(default_factory=new_key)

    @property
    def parameters(self) -> int:
        return sum(self.tensors)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Execution:
    """Where and in what portions models are trained, and what third parties check of it after our own checks.

    `foreign` are third-party top-level modules with source that decides what is trained.
    """

    device: str
    models_per_job: int
    executor: Executor
    foreign: tuple[str, ...] = ()
    checks: tuple[ExecutionCheck, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Experiment:
    """An audit as objects, no names left to look up; each step of the line takes the part that it reads."""

    design: AuditDesign
    audit_inputs: AuditInputs
    budget: Budget
    execution: Execution
    classes: tuple[AttackClass, ...] = ()

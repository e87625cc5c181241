"""An audit as objects: what is compared, which games are played, and with what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from attacks.signals.logits import Logits
from audit.core import event_reading
from audit.core.access import Access, least
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.data import Canaries, Dataset
from audit.core.events import Event
from audit.core.game import Assumption
from audit.core.protocols import Accountant, Attack, CanaryMaker, Estimator, Executor, Signal, Trainer
from audit.core.results import LimitCurve
from audit.core.seeds import Seed
from audit.experiment import figures
from audit.experiment.naming import RecordKey, new_key


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recipe:
    """One way to train, and who states what about it."""

    name: str
    mechanism: Event
    trainer: Trainer
    model: Mapping[str, object]
    optimizer: Mapping[str, object]
    accountants: tuple[Accountant, ...]
    declared: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Play:
    """One game to play on some recipes.

    Attributes:
        stops: at the first proof: `runs` is a maximum, and its estimators bound all attacks together.
    """

    name: str
    access: Access
    adjacency: Adjacency
    runs: int
    references: int
    inclusion_probability: float
    count: int
    maker: CanaryMaker
    attacks: tuple[tuple[str, Attack], ...]
    estimators: tuple[Estimator, ...]
    recipes: frozenset[str]
    prior: float = 0.01
    stops: bool = False

    def level(self, attack: Attack) -> Access:
        """What the adversary of an attack sees: as much as it needs, which may be less than the game shows."""
        return least(attack.needs.sources, self.access) or self.access

    def signals(self, canaries: Canaries) -> tuple[Signal, ...]:
        """What is read off every model about these canaries: all that attacks need, and outputs for other figures."""
        wanted = {signal for _, attack in self.attacks for signal in attack.needs.of(self.access.released) or ()}
        wanted |= set() if canaries.are_gradients else {Logits()}
        return tuple(sorted(wanted, key=lambda signal: signal.key))

    def estimators_of(self, attack: Attack) -> tuple[Estimator, ...]:
        """The estimators whose assumptions hold for an attack that sees less than all steps: only those, of the game's.

        Canaries of one run meet independent noise where single steps are seen; in what was made of all steps together
        they do not.
        """
        if self.access != Access.ALL_STEPS or self.level(attack) == Access.ALL_STEPS or self.count == 1:
            return self.estimators
        return tuple(one for one in self.estimators if Assumption.INDEPENDENT_TRIALS not in one.assumes)

    def alone(self, attack: Attack) -> tuple[Estimator, ...]:
        """The estimators that bound this attack by itself: none where all attacks are bounded together."""
        return () if self.stops else self.estimators_of(attack)

    @property
    def bounds(self) -> int:
        """How many bounds the game has for one recipe."""
        return len(self.estimators) if self.stops else sum(len(self.estimators_of(attack)) for _, attack in self.attacks)

    @property
    def models(self) -> int:
        """Trainings that this game needs for one recipe, at most."""
        return self.runs + self.references

    def portions(self, size: int) -> list[range]:
        """The models trained together, targets being the first ones; in order of training.

        Where targets may stop, references come first and in jobs of their own, since every look at targets needs them.
        """
        targets, references = range(self.runs), range(self.runs, self.models)
        parts = [references, targets] if self.stops else [range(self.models)]
        return [part[start : start + size] for part in parts for start in range(0, len(part), size)]

    def looks(self, size: int) -> int:
        """How often the game can end: once, or after each job of targets."""
        return -(-self.runs // size) if self.stops else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What is claimed of a recipe before anything is trained, and the most that this leaves any attack."""

    claims: tuple[Claim, ...]
    limit: LimitCurve | None

    @property
    def tightest(self) -> Claim | None:
        """The smallest epsilon that anybody states."""
        return min(self.claims, key=lambda claim: claim.epsilon, default=None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Experiment:
    """An audit as objects: everything `run` needs, no names left to look up.

    Attributes:
        foreign: top-level modules of others, whose source decides what is trained as this project's does.
    """

    name: str
    dataset: Dataset
    recipes: tuple[Recipe, ...]
    plays: tuple[Play, ...]
    parameters: int
    delta: float
    confidence: float
    seed: Seed
    device: str
    models_per_job: int
    executor: Executor
    certificates: int = 0
    foreign: tuple[str, ...] = ()
    names: RecordKey = field(default_factory=new_key)

    @property
    def pairs(self) -> list[tuple[Recipe, Play]]:
        """Every recipe with every game that is played on it."""
        return [(recipe, play) for recipe in self.recipes for play in self.plays if recipe.name in play.recipes]

    @property
    def comparisons(self) -> int:
        """Bounds among which the error budget is split."""
        return sum(play.bounds for _, play in self.pairs)

    @property
    def bound_confidence(self) -> float:
        """The confidence of each single bound."""
        return figures.share(self.confidence, self.comparisons)

    @property
    def model_steps(self) -> int:
        """Total work in model-steps, at most; for progress."""
        return sum(play.models * event_reading.steps(recipe.mechanism) for recipe, play in self.pairs)

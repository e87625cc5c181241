"""Before any training: the canaries of each game, their coins, and the rules that statistics may rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from audit.core.access import Access
from audit.core.data import Canaries, Dataset, Planting, Records
from audit.core.events import Event
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.experiment import stopping
from audit.experiment.spec import Experiment, Play


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Insertion:
    """A game with its canaries made and its coins drawn, on one mechanism: nothing is trained yet.

    Attributes:
        recipe: name of what is trained.
        mechanism: what is claimed to be run; None for a model that somebody brings.
        notes: which of its attacks were left out, and why.
        executed: what trainers are held against, where the claim is about what one party sees of it.
    """

    recipe: str
    mechanism: Event | None
    play: Play
    seed: Seed
    planting: Planting
    notes: tuple[str, ...] = ()
    executed: Event | None = None

    def without(self, left_out: Mapping[str, str]) -> Insertion:
        """The same without these attacks, by name with the reason of each."""
        attacks = tuple(attack for attack in self.play.attacks if attack.name not in left_out)
        notes = tuple(f"'{name}' was left out: {reason}" for name, reason in left_out.items())
        return replace(self, play=replace(self.play, attacks=attacks), notes=(*self.notes, *notes))

    @property
    def run_event(self) -> Event | None:
        """What trainers are held against."""
        return self.mechanism if self.executed is None else self.executed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BroughtRecords:
    """Canaries that somebody brought: the records of an audited model, for which there is nothing to make."""

    records: Records

    def __len__(self) -> int:
        return len(self.records)

    @property
    def canaries(self) -> Canaries:
        """The records as canaries."""
        return Canaries(kind="given", description="records given as members and nonmembers", records=self.records)

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """The same, whatever is asked."""
        return self.canaries


def insertions(experiment: Experiment) -> list[Insertion]:
    """All games on all recipes, so that one that cannot be played is refused before any other is trained for."""
    insertion_list = []
    for recipe, play in experiment.pairs:
        seed = experiment.seed.child(f"recipe:{recipe.trained_as}").child(f"game:{play.name}")
        planting = plant(experiment.dataset, play, experiment.parameters, seed)
        refuse_unfit(play, planting, recipe.mechanism, experiment.budget.delta)
        insertion = Insertion(
            recipe=recipe.name, mechanism=recipe.mechanism, play=play, seed=seed, planting=planting, executed=recipe.executed
        )
        insertion_list.append(insertion)
    return insertion_list


def refuse_unfit(play: Play, planting: Planting, mechanism: Event, delta: float) -> None:
    """Raise an error where an estimator assumes more than the game grants, or a game that stops could have no evidence."""
    if play.stops:
        stopping.refuse_unfit(play, rules_of(play, planting, play.access), mechanism, delta)
    for attack in play.attacks:
        rules = rules_of(play, planting, attack.access)
        for estimator in attack.estimators:
            rules.require(estimator.assumes, type(estimator).__name__)


def plant(dataset: Dataset, play: Play, parameters: int, seed: Seed) -> Planting:
    """The canaries, the same in all models of the game, and one coin per model and canary, or one value per secret."""
    size = parameters or play.count  # a model that a dry run leaves unmade is taken to be large enough
    canaries = play.maker.make(dataset, play.count, size, seed.child("canaries"))
    coins = seed.child("coins").numpy().random((play.models, canaries.draws))
    included = coins < play.inclusion_probability if canaries.secrets is None else canaries.secrets.draw(coins)
    return Planting(canaries=canaries, included=included, runs=play.runs)


def rules_of(play: Play, planting: Planting, access: Access) -> Game:
    """The game as an adversary with this access played it, and what it grants to statistics."""
    canaries = planting.canaries
    return Game(
        adjacency=play.adjacency,
        access=access,
        inclusion=Inclusion.COINS if planting.by_coins else Inclusion.SPLIT,
        canaries=canaries.draws,
        runs=planting.runs,
        references=play.references,
        inclusion_probability=play.inclusion_probability,
        independent_noise=canaries.orthogonal and access.each_release,
        canary=canaries.description,
        copies=canaries.copies,
        choices=1 if canaries.secrets is None else canaries.secrets.choices,
        secret="" if canaries.secrets is None else canaries.secrets.kind,
    )

"""Before any training: the canaries of each game, their coins, and the rules that statistics may rely on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from audit.core.coins import Coins
from audit.core.data import Array, Canaries, Dataset, Planting, Records
from audit.core.errors import ConfigError
from audit.core.event_reading import unit
from audit.core.events import Event
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.experiment.games import stopping
from audit.experiment.games.records import RecordTable, table_of
from audit.experiment.games.spec import AuditDesign, Material, Play, Recipe
from audit.stats.spread import parts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Insertion:
    """A game with its canaries made and its coins drawn: nothing is trained yet.

    Attributes:
        recipe: what is trained; None for models that somebody brings.
        records: what reports say of the canaries.
        notes: which of its attacks were left out, and why.
    """

    recipe: Recipe | None
    play: Play
    seed: Seed
    planting: Planting
    records: RecordTable
    notes: tuple[str, ...] = ()

    @property
    def mechanism(self) -> Event | None:
        """Return what is claimed to be run."""
        return None if self.recipe is None else self.recipe.mechanism

    @property
    def training(self) -> Recipe:
        """The recipe, of a game whose models are trained here.

        Raises:
            ConfigError: somebody brings them.
        """
        if self.recipe is None:
            raise ConfigError(f"game '{self.play.name}' has models of the user's own; expected a recipe to train models by")
        return self.recipe

    @property
    def game(self) -> Game:
        """The game as an adversary with all of its access plays it, and what it grants to statistics."""
        canaries = self.planting.canaries
        return Game(
            adjacency=self.play.adjacency,
            access=self.play.access,
            inclusion=Inclusion.COINS if self.planting.by_coins else Inclusion.SPLIT,
            canaries=canaries.draws,
            runs=self.planting.runs,
            references=self.play.references,
            inclusion_probability=self.play.inclusion_probability,
            independent_noise=canaries.orthogonal and self.play.access.each_release,
            canary=canaries.description,
            copies=canaries.copies,
            choices=1 if canaries.secrets is None else canaries.secrets.choices,
            secret="" if canaries.secrets is None else canaries.secrets.kind,
            aim=canaries.aim,
            unit=canaries.unit,
        )

    def without(self, left_out: Mapping[str, str]) -> Insertion:
        """The same without these attacks, by name with the reason of each."""
        attacks = tuple(attack for attack in self.play.attacks if attack.name not in left_out)
        notes = tuple(f"'{name}' was left out: {reason}" for name, reason in left_out.items())
        return replace(self, play=replace(self.play, attacks=attacks), notes=(*self.notes, *notes))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BroughtRecords:
    """Canaries that somebody brought: the records of an audited model, for which there is nothing to make."""

    canaries: Canaries

    def __len__(self) -> int:
        return len(self.canaries)

    @classmethod
    def of(cls, records: Records) -> BroughtRecords:
        """Return the records as canaries."""
        return cls(canaries=Canaries(kind="given", description="records given as members and nonmembers", records=records))

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """The same, whatever is asked."""
        return self.canaries


def insertions(design: AuditDesign, material: Material, delta: float) -> list[Insertion]:
    """All games on all recipes, so that one that cannot be played is refused before any other is trained for."""
    games = []
    for recipe, play in design.pairs:
        insertion = insert(recipe, play, material, seed_of(recipe, play, material))
        refuse_unfit(insertion, delta)
        games.append(insertion)
    return games


def seed_of(recipe: Recipe, play: Play, material: Material) -> Seed:
    """The stream of a game on a recipe; parties that look at the same training share it."""
    return material.seed.child(f"recipe:{recipe.trained_as}").child(f"game:{play.name}")


def insert(recipe: Recipe, play: Play, material: Material, seed: Seed) -> Insertion:
    """The game with its canaries, the same in all models, and one coin per model and canary, or one value per secret."""
    size = material.parameters or play.count  # a model that a dry run leaves unmade is taken to be large enough
    canaries = play.maker.make(material.dataset, play.count, size, seed.child("canaries"))
    if canaries.conduct is not None and unit(recipe.run_event) != "client":
        raise ConfigError(
            f"games.{play.name}: canaries '{canaries.kind}' are clients of a federation, and '{recipe.name}' trains on "
            "records; use mechanism 'federated' with unit 'client'"
        )
    included = _coins(play, canaries, seed)
    return Insertion(
        recipe=recipe,
        play=play,
        seed=seed,
        planting=Planting(canaries=canaries, included=included, runs=play.runs),
        records=table_of(canaries, material.dataset, material.key),
    )


def _coins(play: Play, canaries: Canaries, seed: Seed) -> Any:
    """`(models, m)`, a bit each; draws are held for some models at a time."""
    random = seed.child("coins").numpy()

    def rows() -> Iterator[Array]:
        for part in parts(play.models, canaries.draws):
            draws = random.random((part.stop - part.start, canaries.draws))
            yield draws < play.inclusion_probability if canaries.secrets is None else canaries.secrets.draw(draws)

    return Coins.of(rows(), play.models, len(canaries))


def refuse_unfit(insertion: Insertion, delta: float) -> None:
    """Raise an error where an estimator assumes more than the game grants, or a game that stops could have no evidence."""
    game = insertion.game
    if insertion.play.stops:
        stopping.refuse_unfit(insertion.play, game, insertion.mechanism, delta)
    for attack in insertion.play.attacks:
        for estimator in attack.estimators:
            game.at(attack.access).require(estimator.assumes, type(estimator).__name__)

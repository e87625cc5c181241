"""Before any training: the canaries of each game, their coins, and the rules that statistics may rely on."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.access import Access
from audit.core.data import Planting
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.experiment import stopping
from audit.experiment.spec import Experiment, Play, Recipe


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Planted:
    """A game on a recipe with its canaries made and its coins drawn: nothing is trained yet."""

    recipe: Recipe
    game: Play
    seed: Seed
    planting: Planting


def planted(experiment: Experiment) -> list[Planted]:
    """All games on all recipes, so that one that cannot be played is refused before any other is trained for."""
    found = []
    for recipe, game in experiment.pairs:
        seed = experiment.seed.child(f"recipe:{recipe.name}").child(f"game:{game.name}")
        one = Planted(recipe=recipe, game=game, seed=seed, planting=plant(experiment, game, seed))
        if game.stops:
            stopping.refuse_unfit(game, rules_of(game, one.planting, game.access), recipe.mechanism, experiment.delta)
        for _, attack in game.attacks:
            rules = rules_of(game, one.planting, game.level(attack))
            for estimator in game.estimators_of(attack):
                rules.require(estimator.assumes, type(estimator).__name__)
        found.append(one)
    return found


def plant(experiment: Experiment, game: Play, seed: Seed) -> Planting:
    """The canaries, the same in all models of the game, and one coin per model and canary."""
    size = experiment.parameters or game.count  # a model that a dry run leaves unmade is taken to be large enough
    canaries = game.maker.make(experiment.dataset, game.count, size, seed.child("canaries"))
    coins = seed.child("coins").numpy().random((game.models, len(canaries)))
    return Planting(canaries=canaries, included=coins < game.inclusion_probability, runs=game.runs)


def rules_of(game: Play, planting: Planting, access: Access) -> Game:
    """The game as an adversary with this access played it, and what it grants to statistics."""
    canaries = planting.canaries
    return Game(
        adjacency=game.adjacency,
        access=access,
        inclusion=Inclusion.COINS,
        canaries=len(canaries),
        runs=planting.runs,
        references=game.references,
        inclusion_probability=game.inclusion_probability,
        independent_noise=canaries.orthogonal and access == Access.ALL_STEPS,
        canary=canaries.description,
        copies=canaries.copies,
    )

"""A training that is not the same to all: one recipe for each party, with the games as that party plays them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from audit.bounds.claim_test import probe
from audit.core.access import Access
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.game import Assumption, Game, Inclusion
from audit.core.observers import Observer, event_before
from audit.core.protocols import Estimator
from audit.experiment.games.spec import PlannedAttack, Play, Recipe

PROBED_DELTA = 1e-5  # at which estimators are asked whether they can speak about an event at all


def by_party(
    trainings: Sequence[tuple[Recipe, tuple[Observer, ...]]], plays: tuple[Play, ...]
) -> tuple[tuple[Recipe, ...], tuple[Play, ...]]:
    """Return the recipes with the games that are played on them: one of each for every party that sees something else."""
    several = {recipe.name for recipe, observers in trainings if observers}
    recipes, games = [], [replace(play, recipes=play.recipes - several) for play in plays if play.recipes - several]
    for recipe, observers in trainings:
        parties = _parties_of(recipe, observers, plays) if observers else [(recipe, ())]
        recipes += [party for party, _ in parties]
        games += [play for _, own in parties for play in own]
    return tuple(recipes), tuple(games)


def _parties_of(recipe: Recipe, observers: Sequence[Observer], plays: Sequence[Play]) -> list[tuple[Recipe, tuple[Play, ...]]]:
    """Return a training that is not the same to all as one recipe for each party, with the games as that party plays them.

    All of them are one training: the same jobs, which are done once and read by every party.
    """
    own = [play for play in plays if recipe.name in play.recipes]
    accesses = {attack.access for play in own for attack in play.attacks}
    parties = []
    for access in sorted(accesses, key=lambda access: (-len(access.released), access.name)):
        event = event_before(observers, access, recipe.mechanism) or recipe.mechanism
        name = f"{recipe.name} ({access.words})"
        declared = recipe.declared if observers[0].access.shows(access) else ()  # what owners state is about the least observer
        party = replace(recipe, name=name, mechanism=event, executed=recipe.mechanism, training=recipe.name, declared=declared)
        parties.append((party, tuple(_seen_by(play, access, party) for play in own if _attacks_of(play, access))))
    return parties


def _attacks_of(play: Play, access: Access) -> tuple[PlannedAttack, ...]:
    return tuple(attack for attack in play.attacks if attack.access == access)


def _seen_by(play: Play, access: Access, party: Recipe) -> Play:
    """Return the game as one party plays it, with the estimators that can speak about what it sees."""
    game = Game(adjacency=play.adjacency, access=access, inclusion=Inclusion.COINS, canaries=play.count)
    attacks = tuple(
        replace(attack, estimators=_speaking(attack, game, party, play.name)) for attack in _attacks_of(play, access)
    )
    read = {signal for attack in play.attacks for signal in attack.attack.needs.of(play.access.released) or ()}
    return replace(
        play,
        access=access,
        attacks=attacks,
        estimators=tuple(kind for kind in play.estimators if any(kind in attack.estimators for attack in attacks)),
        recipes=frozenset({party.name}),
        recorded=play.access,
        party_signals=frozenset(read),
    )


def _speaking(planned_attack: PlannedAttack, game: Game, party: Recipe, name: str) -> tuple[Estimator, ...]:
    """Return the estimators of an attack that can speak about an event; those of DP-SGD have nothing to say without noise.

    Raises:
        ConfigError: none of them can.
    """
    speaking = []
    for estimator in planned_attack.estimators:
        try:
            is_of_secrets = Assumption.INDEPENDENT_SECRETS in estimator.assumes
            probe(estimator, replace(game, choices=2) if is_of_secrets else game, party.mechanism, PROBED_DELTA)
        except UnsupportedMechanism:
            continue
        speaking.append(estimator)
    if not speaking:
        raise ConfigError(
            f"games.{name}: no estimator of the game can speak about '{party.name}', which is {party.mechanism}; add one_run"
        )
    return tuple(speaking)

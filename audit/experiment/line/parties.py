"""A training that is not the same to all: one recipe for each party, with the games as that party plays them."""

from collections.abc import Sequence
from dataclasses import replace

from audit.bounds.claim_test import probe
from audit.core.access import Access
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.game import Assumption, Game, Inclusion
from audit.core.observers import Observer, event_before
from audit.core.protocols import Estimator
from audit.experiment.games.spec import GameDesign, PlannedAttack, TrainingDesign

PROBED_DELTA = 1e-5  # at which estimators are asked whether they can speak about an event


def by_party(
    trainings: Sequence[tuple[TrainingDesign, tuple[Observer, ...]]], game_designs: tuple[GameDesign, ...]
) -> tuple[tuple[TrainingDesign, ...], tuple[GameDesign, ...]]:
    """Return the recipes with the games that are played on them: one of each for every party that sees something else."""
    several = {training_design.name for training_design, observers in trainings if observers}
    remainders = [(game_design, game_design.training_designs - several) for game_design in game_designs]
    games = [replace(game_design, training_designs=names) for game_design, names in remainders if names]
    training_designs: list[TrainingDesign] = []
    for training_design, observers in trainings:
        parties = _split_by_party(training_design, observers, game_designs) if observers else [(training_design, ())]
        training_designs += [party for party, _ in parties]
        games += [game_design for _, own in parties for game_design in own]
    return tuple(training_designs), tuple(games)


def _split_by_party(
    training_design: TrainingDesign, observers: Sequence[Observer], game_designs: Sequence[GameDesign]
) -> list[tuple[TrainingDesign, tuple[GameDesign, ...]]]:
    """Return a training that is not the same to all as one recipe for each party, with the games as that party plays them.

    All of them are one training: the same jobs, which are done once and read by every party.
    """
    own = [game_design for game_design in game_designs if training_design.name in game_design.training_designs]
    accesses = {attack.access for game_design in own for attack in game_design.attacks}
    parties = []
    for access in sorted(accesses, key=lambda access: (-len(access.released), access.name)):
        event = event_before(observers, access, training_design.mechanism) or training_design.mechanism
        name = f"{training_design.name} ({access.words})"
        # what owners state is about the least observer
        declared = training_design.declared if observers[0].access.shows(access) else ()
        party = replace(training_design, name=name, mechanism=event, executed=training_design.mechanism)
        party = replace(party, training=training_design.name, declared=declared)
        games = [_seen_by(game_design, access, party) for game_design in own if _select_attacks(game_design, access)]
        parties.append((party, tuple(games)))
    return parties


def _select_attacks(game_design: GameDesign, access: Access) -> tuple[PlannedAttack, ...]:
    return tuple(attack for attack in game_design.attacks if attack.access == access)


def _seen_by(game_design: GameDesign, access: Access, party: TrainingDesign) -> GameDesign:
    """Return the game as one party plays it, with the estimators that apply to its view."""
    game = Game(adjacency=game_design.adjacency, access=access, inclusion=Inclusion.COINS, canaries=game_design.count)
    attacks = tuple(
        replace(attack, estimators=_speaking(attack, game, party, game_design.name))
        for attack in _select_attacks(game_design, access)
    )
    read = {signal for attack in game_design.attacks for signal in attack.attack.needs.of(game_design.access.released) or ()}
    return replace(
        game_design,
        access=access,
        attacks=attacks,
        estimators=tuple(kind for kind in game_design.estimators if any(kind in attack.estimators for attack in attacks)),
        training_designs=frozenset({party.name}),
        recorded=game_design.access,
        party_signals=frozenset(read),
    )


def _speaking(planned_attack: PlannedAttack, game: Game, party: TrainingDesign, name: str) -> tuple[Estimator, ...]:
    """Return the estimators of an attack that can speak about an event; those of DP-SGD have nothing to say without noise."""
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

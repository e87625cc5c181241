"""The games of a config as objects: canaries, attacks at the access that they need, estimators that hold there, parties."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from audit import plugins
from audit.bounds.claim_test import probe
from audit.config import Config
from audit.config.model import GameSpec
from audit.core.access import ACCESS_BY_NAME, Access, Observer, event_before, smallest_access
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.game import Assumption, Game, Inclusion
from audit.core.protocols import Attack, Estimator, TensorCanaryMaker
from audit.experiment.games import stopping
from audit.experiment.games.attack import check_attack
from audit.experiment.games.spec import AuditInputs, GameDesign, PlannedAttack, TrainingDesign

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


def named_plugins(location: str, package: str, specs: Sequence[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Return plug-ins with a name each: the kind, numbered if it occurs twice; `ConfigError` with the place of a wrong one."""
    pairs: list[tuple[str, Any]] = []
    for index, spec in enumerate(specs):
        try:
            plugin = plugins.build(package, spec)
        except ConfigError as error:
            raise ConfigError(f"{location}[{index}]: {error}") from error
        kind = str(spec["kind"]).rsplit(":", maxsplit=1)[-1]
        duplicates = sum(name == kind or name.startswith(f"{kind} ") for name, _ in pairs)
        pairs.append((f"{kind} {duplicates + 1}" if duplicates else kind, plugin))
    return pairs


def design_game(config: Config, spec: GameSpec) -> GameDesign:
    """Return a game of a config with its attacks, each at the access that it needs; `ConfigError` for a plug-in that does not
    exist, or that the game cannot serve.
    """
    location = f"games.{spec.name}"
    access = Access.by_name(spec.access) if ":" not in spec.access else plugins.load(spec.access, Access)
    estimators_by_name = named_plugins(f"{location}.estimators", "audit.bounds.estimators", spec.estimators)
    if spec.stopping != "never":
        stopping.refuse(location, estimators_by_name, spec.runs, config.execution.models_per_job)
    estimators = tuple(plugin for _, plugin in estimators_by_name)
    attacks = []
    for name, attack in named_plugins(f"{location}.scorers", "attacks.scorers", spec.scorers):
        check_attack(attack, name)
        if spec.references < attack.needs.references:
            raise ConfigError(
                f"{location}: scorer '{name}' needs {attack.needs.references} reference models, "
                f"the game trains {spec.references}; raise references or choose another scorer"
            )
        attacks.append(_planned_attack(location, (name, attack), access, estimators, alone=spec.count == 1))
    training_designs = spec.mechanisms if spec.mechanisms is not None else [mechanism.name for mechanism in config.mechanisms]
    ((_, maker),) = named_plugins(f"{location}.canaries", "attacks.canaries", [spec.canaries])
    return GameDesign(
        name=spec.name,
        access=access,
        adjacency=spec.adjacency,
        runs=spec.runs,
        references=spec.references,
        inclusion_probability=spec.inclusion_probability,
        prior=spec.prior,
        count=spec.count,
        maker=maker,
        attacks=tuple(attacks),
        estimators=estimators,
        training_designs=frozenset(training_designs),
        stops=spec.stopping != "never",
    )


def _planned_attack(
    location: str, named_attack: tuple[str, Attack], access: Access, estimators: tuple[Estimator, ...], *, alone: bool
) -> PlannedAttack:
    """An attack at the smallest access that it needs, with the estimators that hold there.

    Canaries of one run meet independent noise if single steps are seen, but not in what was made of all steps together.
    """
    name, attack = named_attack
    signals = attack.needs.of(access.released)
    sources = attack.needs.sources if signals is None else frozenset(signal.source for signal in signals)
    own = smallest_access(sources, access)
    if own is None:
        access_needed = next((access for access in ACCESS_BY_NAME.values() if attack.needs.sources <= access.released), None)
        raise ConfigError(
            f"{location}: scorer '{name}' reads {', '.join(sorted(attack.needs.sources - access.released))}, which the game's "
            f"access '{access.name}' does not release{f'; {access_needed.name} does' if access_needed else ''}: raise access "
            "or choose another scorer"
        )
    if access.each_release and not own.each_release and not alone:
        estimators = tuple(estimator for estimator in estimators if Assumption.INDEPENDENT_TRIALS not in estimator.assumes)
    if not estimators:
        raise ConfigError(
            f"{location}: scorer '{name}' sees no single step, where canaries of one run are not "
            "independent trials, and every estimator of the game assumes that; add one_run"
        )
    return PlannedAttack(name=name, attack=attack, access=own, estimators=estimators)


def check_counts(game_designs: Sequence[GameDesign]) -> None:
    """Raise `ConfigError` if a game gives one score, which no statistic compares."""
    for game_design in game_designs:
        if game_design.runs * game_design.count < 2:
            raise ConfigError(
                f"games.{game_design.name}: {game_design.runs} run(s) of {game_design.count} canary give one score; "
                "raise runs or count"
            )


def refuse_beyond_pool(game_designs: Sequence[GameDesign], audit_inputs: AuditInputs) -> None:
    """Raise `ConfigError` for more canaries than the pool has records, if they are made of those, before planning."""
    dataset = audit_inputs.dataset
    for game_design in game_designs:
        maker, limit = game_design.maker, len(dataset.pool)
        if game_design.count > limit and not isinstance(maker, TensorCanaryMaker):
            parameters, seed = audit_inputs.parameters or game_design.count, audit_inputs.seed.child("canaries")
            try:
                maker.make(dataset, limit + 1, parameters, seed)
            except ConfigError:
                maker.make(dataset, game_design.count, parameters, seed)  # refuses with the number that was asked for

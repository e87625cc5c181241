"""Names in the config become objects, here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from audit import plugins
from audit.accounting.resolve import side_of
from audit.bounds.budget import Budget
from audit.bounds.claim_test import probe
from audit.bounds.granted import granted_estimators
from audit.config import Config
from audit.config.model import GameSpec, MechanismSpec, TrainingSection
from audit.core.access import ACCESS_BY_NAME, Access, smallest_access
from audit.core.adjacency import Adjacency
from audit.core.claims import DECLARED, Claim
from audit.core.data import Dataset
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_forms import encode
from audit.core.event_reading import noisy_steps, unit
from audit.core.events import Event
from audit.core.game import Assumption, Game, Inclusion
from audit.core.observers import Observer, event_before
from audit.core.protocols import (
    Accountant,
    Attack,
    Estimator,
    Mechanism,
    MechanismSetting,
    ModelMaker,
    ObservedMechanism,
    Trainer,
)
from audit.core.seeds import Seed
from audit.execution.code import foreign_modules
from audit.experiment import sizes, stopping
from audit.experiment.insertion import BroughtRecords
from audit.experiment.settings import Settings
from audit.experiment.spec import Execution, Experiment, PlannedAttack, Play, Recipe

PROBED_DELTA = 1e-5  # at which estimators are asked whether they can speak about an event at all


def assemble(config: Config, *, call_factory: bool = True) -> Experiment:
    """The experiment that a config describes, its data read and its noise calibrated.

    Args:
        call_factory: False leaves a model of the user's own unmade and its `parameters` at 0: to look at a config.

    Raises:
        ConfigError: a name, key or combination that cannot be used.
        DataError: the data cannot be read or are too few.
    """
    from audit.data import load
    from audit.engine import device

    device.find_device(config.device)
    for name in config.output.formats:
        if ":" in name:  # one that is not there is better named before the training than after it
            plugins.find(plugins.FOLDERS["formats"], name, "formats")
    seed = Seed(config.seed)
    dataset = load.load(config.data, seed.child("data"))
    accountants = tuple(_named_plugins("accountants", "audit.accounting.accountants", config.accountants))
    for name, accountant in accountants:
        if side_of(accountant) == "lower":
            raise ConfigError(f"accountants: '{name}' states a lower bound on epsilon; a claim has to be an upper bound")
    if len(dataset.train) == 0:
        raise ConfigError("the train split is empty, so there is nothing to train on; lower data.pool or data.test")
    trainings = [_recipe(config, spec, dataset, [accountant for _, accountant in accountants]) for spec in config.mechanisms]
    plays = tuple(_play(config, spec) for spec in config.games)
    _check_counts(plays)
    recipes, plays = _parties(trainings, plays)
    bounds = sum(play.bounds for recipe in recipes for play in plays if recipe.name in play.recipes)
    experiment = Experiment(
        name=config.name,
        dataset=dataset,
        recipes=recipes,
        plays=plays,
        parameters=_parameters(config, dataset, recipes[0].trainer) if call_factory or not _is_foreign(config.model) else 0,
        budget=Budget(delta=config.delta, confidence=config.confidence, comparisons=bounds, certificates=config.certificates),
        seed=seed,
        execution=Execution(
            device=config.device,
            models_per_job=config.execution.models_per_job,
            executor=plugins.build("audit.execution.executors", config.execution.executor),
            foreign=foreign_modules(config.model_dump(mode="json")),
        ),
        checks=tuple(check for _, check in _named_plugins("checks", plugins.FOLDERS["checks"], config.checks)),
        classes=tuple(own for _, own in _named_plugins("coverage", plugins.FOLDERS["coverage"], config.coverage)),
    )
    sizes.refuse(experiment)
    return experiment


def _parameters(config: Config, dataset: Dataset, trainer: Trainer) -> int:
    from audit.models import build

    if isinstance(trainer, ModelMaker):
        return trainer.parameters(config.model, dataset)
    return build.parameter_count(config.model, dataset.train.inputs.shape[1:], dataset.classes)


def _named_plugins(location: str, package: str, specs: Sequence[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Plug-ins with a name each: the kind, numbered where it occurs twice."""
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


def _is_foreign(model: Mapping[str, Any]) -> bool:
    return "factory" in model or ":" in str(model.get("kind", ""))


def _mechanism(spec: MechanismSpec, setting: MechanismSetting) -> tuple[Event, Trainer, ObservedMechanism | None]:
    """Return what a training does to the data, who executes it, and its mechanism where that is not the same to all."""
    maker: Mechanism = plugins.build(plugins.FOLDERS["mechanisms"], spec.mechanism, "mechanisms")
    try:
        event = maker.event(setting)
        encode(event)  # a report has to hold it
    except ConfigError as error:
        raise ConfigError(f"mechanism '{spec.name}': {error}") from error
    if spec.trainer is None and not maker.trainer:
        raise ConfigError(f"mechanism '{spec.name}' of kind '{spec.kind}' has no default trainer; name a trainer in 'trainer'")
    keys: dict[str, Any] = spec.trainer or {"kind": maker.trainer}
    observed = maker if isinstance(maker, ObservedMechanism) else None
    trainer: Trainer = plugins.build("audit.trainers", keys if observed is None else {**keys, **observed.passes})
    return event, trainer, observed


def _recipe(
    config: Config, spec: MechanismSpec, dataset: Dataset, accountants: Sequence[Accountant]
) -> tuple[Recipe, tuple[Observer, ...]]:
    """Return a training, and what it is to each party where it is not the same to all."""
    training = config.training_of(spec)
    rate = _sample_rate(training, len(dataset.train), spec.name)
    steps = _steps(training, rate, spec.name)
    adjacency = _adjacency(config, spec.name)
    setting = MechanismSetting(
        sample_rate=rate, steps=steps, delta=config.delta, adjacency=adjacency, accountants=tuple(accountants)
    )
    mechanism, trainer, observed = _mechanism(spec, setting)
    if unit(mechanism) != "example" and training.batch_size is not None:
        raise ConfigError(
            f"training of '{spec.name}': batch_size counts records, and its mechanism is about one {unit(mechanism)}; give "
            "sample_rate, the chance of each to take part in a step"
        )
    declarations: tuple[Claim, ...] = ()
    if spec.claim is not None:
        delta = config.delta if spec.claim.delta is None else spec.claim.delta
        if delta != config.delta:
            raise ConfigError(
                f"mechanism '{spec.name}' claims at delta {delta:g}, the audit works at delta {config.delta:g}; make them equal"
            )
        family: str | None = spec.claim.family
        noisy = noisy_steps(mechanism)
        if family == "dp_sgd" and noisy is not None:
            family = noisy.family
        source = spec.claim.source if spec.claim.source == DECLARED else f"{DECLARED} ({spec.claim.source})"
        declarations = (Claim(epsilon=spec.claim.epsilon, delta=delta, adjacency=adjacency, source=source, family=family),)
    recipe = Recipe(
        name=spec.name,
        mechanism=mechanism,
        trainer=trainer,
        model=config.model,
        optimizer=training.optimizer,
        accountants=tuple(accountants),
        declared=declarations,
        remark="" if observed is None else observed.remark,
    )
    return recipe, () if observed is None else observed.observers(mechanism)


def _sample_rate(training: TrainingSection, records: int, name: str) -> float:
    if (training.batch_size is None) == (training.sample_rate is None):
        raise ConfigError(f"training of '{name}': give exactly one of batch_size and sample_rate")
    if training.sample_rate is not None:
        return training.sample_rate
    size = training.batch_size or 0
    if size > records:
        raise ConfigError(f"training of '{name}': batch_size is {size} but there are {records} training records")
    return size / records


def _steps(training: TrainingSection, rate: float, name: str) -> int:
    if (training.steps is None) == (training.epochs is None):
        raise ConfigError(f"training of '{name}': give exactly one of steps and epochs")
    return training.steps if training.steps is not None else max(1, round((training.epochs or 0) / rate))


def _adjacency(config: Config, name: str) -> Adjacency:
    adjacencies = {game.adjacency for game in config.games if game.mechanisms is None or name in game.mechanisms}
    if not adjacencies:
        raise ConfigError(f"no game is played on mechanism '{name}'; name it in a game or remove it")
    if len(adjacencies) > 1:
        raise ConfigError(f"the games of mechanism '{name}' differ in adjacency: {sorted(adjacencies)}; use one")
    return adjacencies.pop()


def _play(config: Config, spec: GameSpec) -> Play:
    location = f"games.{spec.name}"
    access = Access.by_name(spec.access) if ":" not in spec.access else plugins.load(spec.access, Access)
    estimators_by_name = _named_plugins(f"{location}.estimators", "audit.bounds.estimators", spec.estimators)
    if spec.stopping != "never":
        stopping.refuse(location, estimators_by_name, spec.runs, config.execution.models_per_job)
    estimators = tuple(plugin for _, plugin in estimators_by_name)
    attacks = []
    for name, attack in _named_plugins(f"{location}.scorers", "attacks.scorers", spec.scorers):
        if spec.references < attack.needs.references:
            raise ConfigError(
                f"{location}: scorer '{name}' needs {attack.needs.references} reference models, "
                f"the game trains {spec.references}; raise references or choose another scorer"
            )
        attacks.append(_planned_attack(location, (name, attack), access, estimators, alone=spec.count == 1))
    recipes = spec.mechanisms if spec.mechanisms is not None else [mechanism.name for mechanism in config.mechanisms]
    ((_, maker),) = _named_plugins(f"{location}.canaries", "attacks.canaries", [spec.canaries])
    return Play(
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
        recipes=frozenset(recipes),
        stops=spec.stopping != "never",
    )


def _parties(
    trainings: Sequence[tuple[Recipe, tuple[Observer, ...]]], plays: tuple[Play, ...]
) -> tuple[tuple[Recipe, ...], tuple[Play, ...]]:
    """Return the recipes with the games that are played on them: one of each for every party that sees something else."""
    several = {recipe.name for recipe, observers in trainings if observers}
    recipes, games = [], [replace(play, recipes=play.recipes - several) for play in plays if play.recipes - several]
    for recipe, observers in trainings:
        parties = _by_party(recipe, observers, plays) if observers else [(recipe, ())]
        recipes += [party for party, _ in parties]
        games += [play for _, own in parties for play in own]
    return tuple(recipes), tuple(games)


def _by_party(recipe: Recipe, observers: Sequence[Observer], plays: Sequence[Play]) -> list[tuple[Recipe, tuple[Play, ...]]]:
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
    rules = Game(adjacency=play.adjacency, access=access, inclusion=Inclusion.COINS, canaries=play.count)
    attacks = tuple(
        replace(attack, estimators=_speaking(attack, rules, party, play.name)) for attack in _attacks_of(play, access)
    )
    read = {signal for attack in play.attacks for signal in attack.attack.needs.of(play.access.released) or ()}
    return replace(
        play,
        access=access,
        attacks=attacks,
        recipes=frozenset({party.name}),
        recorded=play.access,
        others=frozenset(read),
    )


def _speaking(planned_attack: PlannedAttack, rules: Game, party: Recipe, game: str) -> tuple[Estimator, ...]:
    """Return the estimators of an attack that can speak about an event; those of DP-SGD have nothing to say without noise.

    Raises:
        ConfigError: none of them can.
    """
    speaking = []
    for estimator in planned_attack.estimators:
        try:
            probe(estimator, rules, party.mechanism, PROBED_DELTA)
        except UnsupportedMechanism:
            continue
        speaking.append(estimator)
    if not speaking:
        raise ConfigError(
            f"games.{game}: no estimator of the game can speak about '{party.name}', which is {party.mechanism}; add one_run"
        )
    return tuple(speaking)


def _planned_attack(
    location: str, named_attack: tuple[str, Attack], access: Access, estimators: tuple[Estimator, ...], *, alone: bool
) -> PlannedAttack:
    """An attack at the smallest_access access that it needs, with the estimators whose assumptions hold there.

    Canaries of one run meet independent noise where single steps are seen; in what was made of all steps together they do not.
    """
    name, attack = named_attack
    signals = attack.needs.of(access.released)
    sources = attack.needs.sources if signals is None else frozenset(signal.source for signal in signals)
    level = smallest_access(sources, access)
    if level is None:
        access_needed = next((access for access in ACCESS_BY_NAME.values() if attack.needs.sources <= access.released), None)
        raise ConfigError(
            f"{location}: scorer '{name}' reads {', '.join(sorted(attack.needs.sources - access.released))}, which the game's "
            f"access '{access.name}' does not release{f'; {access_needed.name} does' if access_needed else ''}: raise access "
            "or choose another scorer"
        )
    if access.each_release and not level.each_release and not alone:
        estimators = tuple(estimator for estimator in estimators if Assumption.INDEPENDENT_TRIALS not in estimator.assumes)
    if not estimators:
        raise ConfigError(
            f"{location}: scorer '{name}' sees no single step, where canaries of one run are not "
            "independent trials, and every estimator of the game assumes that; add one_run"
        )
    return PlannedAttack(name=name, attack=attack, access=level, estimators=estimators)


def _check_counts(plays: Sequence[Play]) -> None:
    for play in plays:
        if play.runs * play.count < 2:
            raise ConfigError(
                f"games.{play.name}: {play.runs} run(s) of {play.count} canary give one score; raise runs or count"
            )


def brought_play(
    settings: Settings, brought_records: BroughtRecords, models: int, signals: Set[str], *, by_coins: bool
) -> Play:
    """The game of a model that somebody brought: the attacks asked for, or all that it and its references can serve.

    Args:
        records_given: the records.
        models: number of them, the target among them.
        signals: what they show.
        by_coins: whether recorded coins decided what the target was trained on; without them nothing is bounded.

    Raises:
        ConfigError: an attack that was asked for cannot be served.
    """
    provers = settings.proven_by or ()
    rules = Game(
        adjacency=Adjacency.ADD_REMOVE, access=Access.FINAL_MODEL, inclusion=Inclusion.COINS, canaries=len(brought_records)
    )
    estimators = granted_estimators(rules, settings.estimators) if by_coins else ()
    attacks = []
    for name, scorer in brought_scorers(settings).items():
        reason = unserved_reason(scorer, models, signals)
        if reason and (settings.scorers is not None or name in provers):
            raise ConfigError(f"scorer '{name}' {reason}: use loss, give references, or `audit run`")
        if not reason:
            level = smallest_access(scorer.needs.sources, Access.FINAL_MODEL) or Access.FINAL_MODEL
            own = estimators if name in provers else ()
            attacks.append(PlannedAttack(name=name, attack=scorer, access=level, estimators=own))
    return Play(
        name="membership",
        access=Access.FINAL_MODEL,
        adjacency=Adjacency.ADD_REMOVE,
        runs=1,
        references=models - 1,
        count=len(brought_records),
        maker=brought_records,
        attacks=tuple(attacks),
        estimators=estimators,
    )


def brought_scorers(settings: Settings) -> dict[str, Attack]:
    """Return the scorers that were asked for, or all there are, those whose scores are bounded first."""
    provers, package = settings.proven_by or (), plugins.FOLDERS["scorers"]
    names = settings.scorers or (*provers, *(name for name in plugins.names(package) if name not in provers))
    return {name: plugins.build(package, {"kind": name}) for name in names}


def unserved_reason(scorer: Attack, models: int, names: Set[str]) -> str:
    """Return why a scorer cannot be run on so many models, target included, of which so much is released; "" if it can."""
    if scorer.needs.references < models and scorer.needs.of(names) is not None:
        return ""
    signals = ", ".join(sorted(signal.key for signal in scorer.needs.signals))
    return (
        f"needs {scorer.needs.references} reference models and {signals}; what was given shows "
        f"{', '.join(sorted(names))} of {models - 1} references"
    )

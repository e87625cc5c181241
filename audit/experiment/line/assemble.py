"""Names in the config become objects, here and in `assemble_games` alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

from audit import plugins
from audit.accounting.resolve import find_side
from audit.bounds.budget import Budget
from audit.config import Config
from audit.config.model import MechanismSpec
from audit.config.training import TrainingSection
from audit.core import event_reading, files
from audit.core.access import Observer
from audit.core.adjacency import Adjacency
from audit.core.claims import DECLARED, Claim
from audit.core.data import Dataset
from audit.core.errors import ConfigError
from audit.core.event_forms import encode
from audit.core.event_reading import unit
from audit.core.events import Event, Unit
from audit.core.phrases import phrase
from audit.core.protocols import Accountant, LossTaker, Mechanism, MechanismSetting, ModelMaker, ObservedMechanism, Trainer
from audit.core.seeds import Seed, new_seed
from audit.event_curves import find_curves
from audit.execution.code import foreign_modules
from audit.experiment.games.records import RecordKey, new_key
from audit.experiment.games.spec import AuditDesign, AuditInputs, Execution, Experiment, GameDesign, TrainingDesign
from audit.experiment.line.assemble_games import by_party, check_counts, design_game, named_plugins, refuse_beyond_pool

# What an audit will hold in memory at least, so that one which cannot fit is refused before anything is made for it.
FLOAT = 4
COIN = 1 + 2  # bytes of a coin, and of its copies while it is stored
COPIES = 3  # of the parameters, while one model trains: weights, gradient, sum
MOST_STEPS, MOST_MODELS = 10**9, 10**8  # beyond these no training ends, whatever it needs


def refuse(design: AuditDesign, audit_inputs: AuditInputs, models_per_job: int) -> None:
    """Raise `ConfigError` naming the game and the largest of what does not fit into this machine's memory."""
    for training_design, game_design in design.pairs:
        steps = event_reading.steps(training_design.run_event)
        if steps > MOST_STEPS or game_design.models > MOST_MODELS:
            raise ConfigError(
                f"games.{game_design.name} trains {game_design.models:,} models for {steps:,} steps each; expected at most "
                f"{MOST_MODELS:,} models and {MOST_STEPS:,} steps"
            )
        for purpose, size in _parts(audit_inputs, training_design, game_design, models_per_job).items():
            files.refuse(size, f"games.{game_design.name}, mechanism {training_design.name}: {purpose}", _ADVICE[purpose])


_COINS, _MODEL, _JOB = "the coins of all models", "one model while it trains", "what is kept of the models of one job"
_ADVICE = {
    _COINS: "lower runs, references or count",
    _MODEL: "choose a smaller model",
    _JOB: "lower execution.models_per_job, steps, count or the model's size",
}


def _parts(
    audit_inputs: AuditInputs, training_design: TrainingDesign, game_design: GameDesign, models_per_job: int
) -> dict[str, float]:
    steps, classes = event_reading.steps(training_design.run_event), audit_inputs.dataset.outputs
    together = min(models_per_job, game_design.models)
    signals = sum(signal.size(classes, steps) for signal in game_design.signals(game_design.trained_for.released, set()))
    outputs = len(audit_inputs.dataset.test) * max(classes, 1)
    numbers = audit_inputs.parameters + game_design.count * signals + outputs + 2 * steps
    return {
        _COINS: COIN * game_design.models * game_design.count,
        _MODEL: FLOAT * COPIES * audit_inputs.parameters,
        _JOB: FLOAT * together * numbers,
    }


def assemble(config: Config, *, key: RecordKey | None = None, seed: int | None = None, call_factory: bool = True) -> Experiment:
    """The experiment that a config describes, its data read and its noise calibrated.

    Args:
        key: of the records' names; None draws one.
        seed: if the config names none; None draws one.
        call_factory: False leaves a model of the user's own unmade and its `parameters` at 0: to look at a config.

    Raises:
        ConfigError: a name, key or combination that cannot be used.
        DataError: the data cannot be read or are too few.
    """
    from audit.data import load
    from audit.engine import device
    from audit.models import packed_inputs

    device.find_device(config.device)
    packed_inputs.refuse_order(config.model, config.data)
    for name in config.output.formats:
        if ":" in name:  # one that is not there is better named before the training than after it
            plugins.find(plugins.FOLDERS["formats"], name, "formats")
    number = config.seed if config.seed is not None else seed
    root = Seed(new_seed() if number is None else number)
    dataset = load.load(config.data, root.child("data"))
    accountants = tuple(named_plugins("accountants", "audit.accounting.accountants", config.accountants))
    for name, accountant in accountants:
        if find_side(accountant) == "lower":
            raise ConfigError(f"accountants: '{name}' states a lower bound on epsilon; a claim has to be an upper bound")
    if len(dataset.train) == 0:
        raise ConfigError("the train split is empty, so there is nothing to train on; lower data.pool or data.test")
    trainings = [_recipe(config, spec, dataset, [accountant for _, accountant in accountants]) for spec in config.mechanisms]
    by_losses = _by_losses(dataset, [training_design for training_design, _ in trainings])
    classes = 0 if by_losses or any(training_design.loss for training_design, _ in trainings) else dataset.classes
    game_designs = tuple(replace(design_game(config, spec), by_losses=by_losses, classes=classes) for spec in config.games)
    check_counts(game_designs)
    training_designs, game_designs = by_party(trainings, game_designs)
    design = AuditDesign(name=config.name, training_designs=training_designs, game_designs=game_designs)
    is_foreign = "factory" in config.model or ":" in str(config.model.get("kind", ""))
    audit_inputs = AuditInputs(
        dataset=dataset,
        tensors=_tensors(config, dataset, training_designs[0].trainer) if call_factory or not is_foreign else (),
        seed=root,
        key=key or new_key(),
    )
    refuse_beyond_pool(game_designs, audit_inputs)
    refuse(design, audit_inputs, config.execution.models_per_job)
    return Experiment(
        design=design,
        audit_inputs=audit_inputs,
        budget=Budget(
            delta=config.delta, confidence=config.confidence, comparisons=design.bounds, certificates=config.certificates
        ),
        execution=_execution(config),
        classes=tuple(own for _, own in named_plugins("coverage", plugins.FOLDERS["coverage"], config.coverage)),
    )


def _by_losses(dataset: Dataset, training_designs: Sequence[TrainingDesign]) -> bool:
    """True if records have no class and no single number that models predict: losses alone can be compared."""
    records = dataset.train
    has_loss = records.labels.dtype.kind == "f" and any(training_design.loss for training_design in training_designs)
    return not records.are_texts and (records.labels.ndim > 1 or has_loss)


def _execution(config: Config) -> Execution:
    return Execution(
        device=config.device,
        models_per_job=config.execution.models_per_job,
        executor=plugins.build("audit.execution.executors", config.execution.executor),
        foreign=foreign_modules(config.model_dump(mode="json")),
        checks=tuple(check for _, check in named_plugins("checks", plugins.FOLDERS["checks"], config.checks)),
    )


def _tensors(config: Config, dataset: Dataset, trainer: Trainer) -> tuple[int, ...]:
    from audit.models import build

    if isinstance(trainer, ModelMaker):
        return (trainer.parameters(config.model, dataset),)
    return build.tensor_sizes(config.model, dataset.train.inputs.shape[1:], dataset.outputs)


def stated_mechanism(spec: MechanismSpec, setting: MechanismSetting) -> tuple[Event, Mechanism]:
    """Return what a training does to the data, as its config says, and its mechanism."""
    maker: Mechanism = plugins.build(plugins.FOLDERS["mechanisms"], spec.mechanism, "mechanisms")
    try:
        event = maker.event(setting)
        encode(event)  # a report has to hold it
    except ConfigError as error:
        raise ConfigError(f"mechanism '{spec.name}': {error}") from error
    return event, maker


def _mechanism(spec: MechanismSpec, setting: MechanismSetting) -> tuple[Event, Trainer, ObservedMechanism | None]:
    """Return what a training does to the data, who executes it, and its mechanism if that is not the same to all."""
    event, maker = stated_mechanism(spec, setting)
    if spec.trainer is None and not maker.trainer:
        raise ConfigError(f"mechanism '{spec.name}' of kind '{spec.kind}' has no default trainer; name a trainer in 'trainer'")
    keys: dict[str, Any] = spec.trainer or {"kind": maker.trainer}
    observed = maker if isinstance(maker, ObservedMechanism) else None
    trainer: Trainer = plugins.build("audit.trainers", keys if observed is None else {**keys, **observed.passes})
    return event, trainer, observed


def _refuse_loss(loss: str, spec: MechanismSpec, trainer: Trainer) -> NoReturn:
    package = plugins.FOLDERS["trainers"]
    takers = [name for name in plugins.names(package) if getattr(plugins.find(package, name), "takes_losses", False)]
    raise ConfigError(
        f"training.loss is '{loss}', but the trainer of mechanism '{spec.name}' ({type(trainer).__name__}) does not declare "
        "that it takes one (takes_losses = True), and would train by a loss of its own; drop the key, or use trainer "
        f"{', '.join(takers)}"
    )


def find_setting(
    config: Config, spec: MechanismSpec, records: int, unit: Unit, accountants: Sequence[Accountant]
) -> MechanismSetting:
    """Return what a mechanism's event depends on, at that many records; `ConfigError` if rate or steps do not follow."""
    training = config.find_training(spec)
    rate = _sample_rate(training, records, spec.name)
    return MechanismSetting(
        sample_rate=rate,
        steps=_steps(training, rate, spec.name),
        delta=config.delta,
        adjacency=_adjacency(config, spec.name),
        accountants=tuple(accountants),
        unit=unit,
    )


def _recipe(
    config: Config, spec: MechanismSpec, dataset: Dataset, accountants: Sequence[Accountant]
) -> tuple[TrainingDesign, tuple[Observer, ...]]:
    """Return a training, and its form for each party if it is not the same to all."""
    training, adjacency = config.find_training(spec), _adjacency(config, spec.name)
    setting = find_setting(config, spec, len(dataset.train), dataset.unit, accountants)
    mechanism, trainer, observed = _mechanism(spec, setting)
    from audit.engine.losses import USERS_LOSS

    loss = training.loss or (USERS_LOSS if dataset.unit == "user" and dataset.vocabulary is None else "")
    if loss and not (isinstance(trainer, LossTaker) and trainer.takes_losses):
        _refuse_loss(loss, spec, trainer)
    if unit(mechanism) != dataset.unit and training.batch_size is not None:
        raise ConfigError(
            f"training of '{spec.name}': batch_size counts records, and its mechanism is about one {unit(mechanism)}; give "
            "sample_rate, the chance of each to take part in a step"
        )
    declarations = _declarations(config, spec, adjacency, mechanism)
    training_design = TrainingDesign(
        name=spec.name,
        mechanism=mechanism,
        adjacency=adjacency,
        trainer=trainer,
        model=trainer.identified(config.model) if isinstance(trainer, ModelMaker) else config.model,
        optimizer=training.optimizer,
        loss=loss,
        accountants=tuple(accountants),
        declared=declarations,
        remark="" if observed is None else observed.remark(setting),
    )
    return training_design, () if observed is None else observed.observers(mechanism)


def _declarations(config: Config, spec: MechanismSpec, adjacency: Adjacency, mechanism: Event) -> tuple[Claim, ...]:
    """Return the claim that a config declares for a training, in the family that the mechanism's curves are of."""
    if spec.claim is None:
        return ()
    delta = config.delta if spec.claim.delta is None else spec.claim.delta
    if delta != config.delta:
        raise ConfigError(
            f"mechanism '{spec.name}' claims at delta {delta:g}, the audit works at delta {config.delta:g}; make them equal"
        )
    family: str | None = spec.claim.family
    curves = find_curves(mechanism)
    if family == "dp_sgd" and curves is not None:
        family = curves.family
    source = spec.claim.source if spec.claim.source == DECLARED else phrase("declared ({name})", name=spec.claim.source)
    return (Claim(epsilon=spec.claim.epsilon, delta=delta, adjacency=adjacency, source=source, family=family),)


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

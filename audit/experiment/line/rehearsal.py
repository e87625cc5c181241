"""A game played once on a few untrained models, so that an attack that could not score it is known before training."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attacks.signals._asking import ask_signals
from audit.core import event_reading
from audit.core.access import ROUNDS, Access
from audit.core.canaries import Canaries, CoordinateGradients
from audit.core.coins import take_models
from audit.core.data import Array, Dataset, Records
from audit.core.errors import ConfigError, ObservationError
from audit.core.models import Representations, Signal
from audit.core.protocols import ModelMaker
from audit.core.seeds import Seed
from audit.core.training import Executed, TrainedModels, TrainingJob
from audit.experiment.games.attack import score
from audit.experiment.games.job_specs import checkpoints
from audit.experiment.games.observed import GameModels, Observations
from audit.experiment.games.prepared_game import PreparedGame
from audit.experiment.games.spec import PlannedAttack, TrainingDesign

MODELS = 3  # a target and two references that differ; further references repeat these two
RECORDS = 32  # that the models are really asked about; what they say of these is repeated for all others
SEED = Seed(0).child("rehearsal")
_TEST_RECORDS = 4


def untrained_models(training_design: TrainingDesign, dataset: Dataset, device: str) -> Any:
    """`MODELS` models as they are initialised, for all games of a recipe: an `Ensemble`, or what a `ModelMaker` makes."""
    from audit.engine.read.subject import Ensemble
    from audit.engine.trial.model_source import ModelSource

    seeds = tuple(SEED.child("model", number) for number in range(MODELS))
    empty = np.zeros(0, dtype=np.int64)
    job = TrainingJob(
        dataset=replace(dataset, test=dataset.test.take(np.arange(min(len(dataset.test), _TEST_RECORDS)))),
        canaries=Canaries(kind="none", description="none", payload=CoordinateGradients(coordinates=empty)),
        included=np.zeros((MODELS, 0), dtype=bool),
        seeds=seeds,
        mechanism=training_design.run_event,
        model=training_design.model,
        optimizer=training_design.optimizer,
        loss=training_design.loss,
        access=Access.FINAL_WEIGHTS,
        device=device,
    )
    if isinstance(training_design.trainer, ModelMaker):
        return training_design.trainer.untrained(job)
    source = ModelSource.of(job)
    weights = source.weights()
    return Ensemble(job, TrainedModels(weights=weights, initial=weights, executed=_executed()), source)


@dataclass(frozen=True, slots=True)
class RepeatingModels:
    """Models that look at `RECORDS` records at most, however many they are asked about, and repeat what these show.

    `products` `(N, m, steps)`, all zero, are what is recorded of canaries in each step or round, by what releases it; `looks`
    are checkpoints that a trainer would have kept.
    """

    ensemble: Any
    products: Mapping[str, Array]
    looks: int

    def __len__(self) -> int:
        return len(self.ensemble)

    def read(self, signals: Collection[Signal], canaries: Canaries) -> dict[str, Array]:
        """Signals of the canaries by their keys, without those that the models lack."""
        return ask_signals(signals, self, canaries)

    def outputs(self, inputs: Array) -> Array:
        return _repeated(self.ensemble.outputs(inputs[:RECORDS]), inputs)

    def own_losses(self, records: Records) -> Array | None:
        values = self.ensemble.own_losses(_first(records))
        return None if values is None else _repeated(values, records.inputs)

    def token_moments(self, inputs: Array) -> Array:
        return _repeated(self.ensemble.token_moments(inputs[:RECORDS]), inputs)

    def continuations(self, inputs: Array, starts: Array) -> Array:
        return _repeated(self.ensemble.continuations(inputs[:RECORDS], starts[:RECORDS]), inputs)

    def beams(self, inputs: Array, starts: Array, width: int) -> Array:
        return _repeated(self.ensemble.beams(inputs[:RECORDS], starts[:RECORDS], width), inputs)

    def initial(self) -> RepeatingModels:
        return replace(self, ensemble=self.ensemble.initial())

    def alone(self, model: int) -> RepeatingModels:
        return replace(self, ensemble=self.ensemble.alone(model))

    def checkpoints(self) -> list[RepeatingModels]:
        return [self] * self.looks

    def gradient_norms(self, records: Records) -> Array:
        return _repeated(self.ensemble.gradient_norms(_first(records)), records.inputs)

    def representations(self, records: Records) -> Representations | None:
        inside = self.ensemble.representations(_first(records))
        if inside is None:
            return None
        rows = _repeat(len(records))
        return Representations(
            hidden=inside.hidden[:, rows],
            class_distances=inside.class_distances[:, rows],
            last_gradient_norms=inside.last_gradient_norms[:, rows],
        )

    def step_products(self) -> Array | None:
        return self.products.get("steps")

    def round_products(self, source: str) -> Array:
        """`(N, m, rounds)`, all zero; `ObservationError` if the training has no rounds that parties see."""
        if source not in self.products:
            raise ObservationError(
                f"the {source} of each round are recorded by trainer 'federated' alone, of canary clients or, with unit: "
                "example in its mechanism, of records; digits, of canary clients; lengths, of one in each; counts, of one "
                "with adaptive_clip"
            )
        return self.products[source]

    def round_loss_drops(self, source: str) -> Array:
        return self.round_products(source)

    def weight_products(self, canaries: Canaries) -> Array | None:
        products: Array | None = self.ensemble.weight_products(canaries)
        return products


def _first(records: Records) -> Records:
    return records.take(np.arange(min(len(records), RECORDS)))


def _repeated(values: Array, records: Array) -> Array:
    return values[:, _repeat(len(records))]


def _repeat(count: int) -> Array:
    return np.arange(count) % RECORDS


def _executed() -> Executed:
    """Return the record of a training in which nothing was executed and nothing measured."""
    unknown = np.full(MODELS, np.nan)
    return Executed(
        steps=0,
        batch_sizes=np.zeros((MODELS, 0), dtype=np.int64),
        population=np.zeros(MODELS, dtype=np.int64),
        noise_multiplier=unknown,
        noise_draws=0,
        largest_norm=unknown,
        skipped=np.zeros(MODELS, dtype=np.int64),
        measured=False,
    )


SCORE_RECORDS, QUERY_RECORDS = 2000, 32  # canaries that are scored at most; fewer if each takes many queries
REFERENCES = 256  # at most, unless an attack needs more: the coins of so many leave none out
NUMBERS = 1 << 26  # of all signals together, about


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rehearsal:
    """What an adversary would see of untrained models.

    Attributes:
        signals: by key, `(1 + references, m, ...)`, the target first.
        canaries: the `m` that are scored, of the numbers `rows`: all of the game, or some of very many.
        references: how many of the game's take part, the first ones.
    """

    prepared_game: PreparedGame
    signals: Mapping[str, Array]
    canaries: Canaries
    rows: Array
    references: int

    def failure(self, planned_attack: PlannedAttack, included: Array) -> str:
        """Return why an attack cannot score the canaries with these coins of references `(references, m)`; "" if it can."""
        coins = np.concatenate([np.zeros((1, included.shape[1]), dtype=bool), included])
        assignment = replace(self.prepared_game.assignment, canaries=self.canaries, included=coins, runs=1)
        game_design = replace(self.prepared_game.game_design, runs=1)
        records = self.canaries.records
        models = GameModels(
            prepared_game=replace(self.prepared_game, game_design=game_design, assignment=assignment, seed=SEED),
            observed=Observations(signals=self.signals, diverged=np.zeros(len(coins), dtype=bool)),
            labels=None if records is None or self.prepared_game.game_design.by_losses else records.labels,
        )
        try:
            score(models, planned_attack)
        except ObservationError as error:
            return str(error)
        return ""


def playable(prepare_games: Sequence[PreparedGame], dataset: Dataset, device: str) -> list[PreparedGame]:
    """The games with the attacks that can score them; one that cannot be played is refused before any is trained for."""
    games, training_design, models = [], None, None
    for prepared_game in prepare_games:
        # the games of a training are side by side and share its models
        if models is None or prepared_game.training_design is not training_design:
            training_design, models = prepared_game.training, untrained_models(prepared_game.training, dataset, device)
        games.append(_playable(prepared_game, models))
    return games


def _playable(prepared_game: PreparedGame, models: Any) -> PreparedGame:
    """The game with the attacks that can score it, and why each other was left out, decided by the references' coins alone.

    `ConfigError` if an attack could not score the game with balanced coins either, or none can with those that were drawn.
    """
    game_design, assignment = prepared_game.game_design, prepared_game.assignment
    rehearsal = rehearse(prepared_game, event_reading.steps(prepared_game.training.run_event), models)
    coins = assignment.included[game_design.runs : game_design.runs + rehearsal.references, rehearsal.rows]
    balance = np.add.outer(np.arange(coins.shape[0]), np.arange(coins.shape[1])) % 2 == 1
    left_out = {}
    for attack in game_design.attacks:
        failure = rehearsal.failure(attack, coins)
        if failure and rehearsal.failure(attack, balance):
            raise ConfigError(
                f"games.{game_design.name}: scorer '{attack.name}' cannot score canaries '{assignment.canaries.kind}' with "
                f"access '{game_design.access.name}': {failure}"
            )
        if failure:
            left_out[attack.name] = failure
    if len(left_out) == len(game_design.attacks):
        reasons = "; ".join(f"'{name}': {failure}" for name, failure in left_out.items())
        raise ConfigError(f"games.{game_design.name}: with the coins of this seed none of its scorers can be played: {reasons}")
    return prepared_game.without(left_out)


def rehearse(prepared_game: PreparedGame, steps: int, models: Any) -> Rehearsal:
    """Signals of a few untrained models, for as many as the game trains; `ConfigError` if the model does not fit the data."""
    game_design, assignment = prepared_game.game_design, prepared_game.assignment
    signals = game_design.signals(game_design.trained_for.released, set())
    references = min(
        game_design.references, max(REFERENCES, *(attack.attack.needs.references for attack in game_design.attacks))
    )
    numbers = sum(signal.size(models.classes, steps) for signal in signals) * (1 + references)
    limit = min(SCORE_RECORDS, max(RECORDS, NUMBERS // max(numbers, 1)))
    limit = QUERY_RECORDS if any(signal.source == "label_queries" for signal in signals) else limit
    rows = _decisive(take_models(assignment.included, slice(game_design.runs, None)), len(assignment.canaries), limit)
    canaries = replace(assignment.canaries, payload=assignment.canaries.payload.take(rows), secrets=None)
    sources = {"steps", *ROUNDS} if canaries.are_gradients else ROUNDS if prepared_game.training.training else set()
    sources = sources & game_design.trained_for.released
    if "models" in sources and canaries.are_gradients:
        adaptive = getattr(prepared_game.training.trainer, "adaptive_clip", None)
        sources |= {"digits", "lengths", *(("counts",) if adaptive else ())} if len(assignment.canaries) == 1 else {"digits"}
    silent = np.zeros((MODELS, len(canaries), steps if sources else 0), dtype=np.float32)
    try:
        values_by_signal = RepeatingModels(
            ensemble=models, products=dict.fromkeys(sources, silent), looks=len(checkpoints(game_design, canaries, steps))
        ).read(signals, canaries)
    except ObservationError as error:
        raise ConfigError(f"games.{game_design.name}: {error}") from error
    read_rows = np.concatenate([[0], 1 + np.arange(references) % (MODELS - 1)])
    return Rehearsal(
        prepared_game=prepared_game,
        signals={name: value[read_rows] for name, value in values_by_signal.items()},
        canaries=canaries,
        rows=rows,
        references=references,
    )


def _decisive(included: Any, count: int, limit: int) -> Array:
    """Numbers of at most `limit` canaries: those that most and fewest references trained on, and the first ones."""
    members = included.sum(axis=0) if len(included) else np.zeros(count)
    order = [int(members.argmax()), int(members.argmin()), *range(count)]
    return np.array(sorted(list(dict.fromkeys(order))[:limit]))

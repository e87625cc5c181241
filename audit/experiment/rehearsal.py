"""A game played once on untrained models, so that an attack that could not score it is known before anything is trained."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from audit.core import event_reading
from audit.core.access import ROUNDS
from audit.core.data import Array, Canaries, Dataset, Records
from audit.core.errors import ConfigError, ObservationError
from audit.core.protocols import Signal
from audit.core.seeds import Seed
from audit.core.training import Executed, TrainedModels, TrainingJob
from audit.experiment.attack import Models, score
from audit.experiment.insertion import Insertion
from audit.experiment.observed import Observed
from audit.experiment.spec import PlannedAttack, Play, Recipe
from audit.experiment.train import checkpoints

if TYPE_CHECKING:
    from audit.engine.subject import Ensemble

MODELS = 3  # a target and two references that differ; further references repeat these two
RECORDS = 32  # that the models are really asked about; what they say of these is repeated for all others
SCORED, QUERIED = 2000, 32  # canaries that are scored at most; fewer where each takes many queries
_SEED = Seed(0).child("rehearsal")
_TEST_RECORDS = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rehearsal:
    """What an adversary would see of untrained models.

    Attributes:
        insertion: of the game that is rehearsed.
        signals: by key, `(1 + references, m, ...)`, the target first.
        canaries: the `m` of them that are scored: all of the game, or some of very many.
        rows: their numbers among all of the game.
    """

    insertion: Insertion
    signals: Mapping[str, Array]
    canaries: Canaries
    rows: Array

    def failure(self, planned_attack: PlannedAttack, included: Array) -> str:
        """Why an attack cannot score the canaries with these coins of references `(references, m)`; "" where it can."""
        coins = np.concatenate([np.zeros((1, included.shape[1]), dtype=bool), included])
        planting = replace(self.insertion.planting, canaries=self.canaries, included=coins, runs=1)
        play = replace(self.insertion.play, runs=1)
        records = self.canaries.records
        models = Models(
            insertion=replace(self.insertion, play=play, planting=planting, seed=_SEED),
            observed=Observed(signals=self.signals, diverged=np.zeros(len(coins), dtype=bool)),
            labels=None if records is None else records.labels,
        )
        try:
            score(models, planned_attack)
        except ObservationError as error:
            return str(error)
        return ""


def playable(insertion: Insertion, recipe: Recipe, dataset: Dataset, device: str) -> Insertion:
    """The game with the attacks that can score it, and why each other was left out, decided by the references' coins alone.

    Raises:
        ConfigError: an attack could not score the game with balanced coins either, or none can with those that were drawn.
    """
    play, planting = insertion.play, insertion.planting
    rehearsal = rehearse(insertion, recipe, dataset, device)
    coins = planting.included[play.runs :][:, rehearsal.rows]
    balance = np.add.outer(np.arange(coins.shape[0]), np.arange(coins.shape[1])) % 2 == 1
    left_out = {}
    for attack in play.attacks:
        failure = rehearsal.failure(attack, coins)
        if failure and rehearsal.failure(attack, balance):
            raise ConfigError(
                f"games.{play.name}: scorer '{attack.name}' cannot score canaries '{planting.canaries.kind}' with access "
                f"'{play.access.name}': {failure}"
            )
        if failure:
            left_out[attack.name] = failure
    if len(left_out) == len(play.attacks):
        reasons = "; ".join(f"'{name}': {failure}" for name, failure in left_out.items())
        raise ConfigError(f"games.{play.name}: with the coins of this seed none of its scorers can be played: {reasons}")
    return insertion.without(left_out)


def rehearse(insertion: Insertion, recipe: Recipe, dataset: Dataset, device: str) -> Rehearsal:
    """What the signals of a few untrained models look like, for as many models as the game trains.

    Raises:
        ConfigError: the model does not fit the data.
    """
    play, planting = insertion.play, insertion.planting
    signals = play.signals(play.trained_for.released, set())
    record_limit = QUERIED if any(signal.source == "label_queries" for signal in signals) else SCORED
    rows = _decisive(planting.included[play.runs :], len(planting.canaries), record_limit)
    canaries = _rows_of(planting.canaries, rows)
    small_dataset = replace(dataset, test=dataset.test.take(np.arange(min(len(dataset.test), _TEST_RECORDS))))
    try:
        values_by_signal = _untrained_models(play, recipe, canaries, (small_dataset, device)).read(signals, canaries)
    except ObservationError as error:
        raise ConfigError(f"games.{play.name}: {error}") from error
    models = np.concatenate([[0], 1 + np.arange(play.references) % (MODELS - 1)])
    return Rehearsal(
        insertion=insertion,
        signals={name: value[models] for name, value in values_by_signal.items()},
        canaries=canaries,
        rows=rows,
    )


def _decisive(included: Array, count: int, limit: int) -> Array:
    """Numbers of at most `limit` canaries: those that most and fewest references trained on, and the first ones."""
    members = included.sum(axis=0) if len(included) else np.zeros(count)
    order = [int(members.argmax()), int(members.argmin()), *range(count)]
    return np.array(sorted(list(dict.fromkeys(order))[:limit]))


def _rows_of(canaries: Canaries, rows: Array) -> Canaries:
    forms: dict[str, Any] = {
        name: None if form is None else form[rows]
        for name in ("coordinates", "directions", "identifiers")
        for form in [getattr(canaries, name)]
    }
    records = None if canaries.records is None else canaries.records.take(rows)
    return replace(canaries, records=records, copies=1, **forms)


def _untrained_models(play: Play, recipe: Recipe, canaries: Canaries, place: tuple[Dataset, str]) -> _Repeating:
    """`MODELS` models as they are initialised, with what a trainer would have recorded."""
    from audit.engine.subject import Ensemble
    from audit.models.build import initialise_model

    dataset, device = place
    steps = event_reading.steps(recipe.run_event)
    looks = checkpoints(play, canaries, steps)
    seeds = tuple(_SEED.child("model", number) for number in range(MODELS))
    job = TrainingJob(
        dataset=dataset,
        canaries=canaries,
        included=np.zeros((MODELS, len(canaries)), dtype=bool),
        seeds=seeds,
        mechanism=recipe.run_event,
        model=recipe.model,
        optimizer=recipe.optimizer,
        access=play.trained_for,
        device=device,
        checkpoints=looks,
    )
    states = [
        initialise_model(recipe.model, dataset.train.inputs.shape[1:], dataset.classes, seed).state_dict() for seed in seeds
    ]
    weights = {name: np.stack([state[name].detach().cpu().numpy() for state in states]) for name in states[0]}
    released = play.trained_for.released if canaries.are_gradients else frozenset()
    silent = np.zeros((MODELS, len(canaries), steps), dtype=np.float32)
    models = TrainedModels(
        weights=weights,
        initial=weights,
        products=silent if "steps" in released else None,
        extra={f"{source}/products": silent for source in sorted(released & ROUNDS)},
        checkpoints=(weights,) * len(looks),
        executed=_executed(),
    )
    return _Repeating(Ensemble(job, models))


@dataclass(frozen=True, slots=True)
class _Repeating:
    """Models that look at `RECORDS` records at most, however many they are asked about, and repeat what these show."""

    ensemble: Ensemble

    def __len__(self) -> int:
        return len(self.ensemble)

    def read(self, signals: Collection[Signal], canaries: Canaries) -> dict[str, Array]:
        """Signals of the canaries by their keys, without those that the models lack."""
        values = {signal.key: signal.read(self, canaries) for signal in signals}
        return {key: value for key, value in values.items() if value is not None}

    def outputs(self, inputs: Array) -> Array:
        """`(N, n, classes)`."""
        return self.ensemble.outputs(inputs[:RECORDS])[:, _repeat(len(inputs))]

    def alone(self, model: int) -> _Repeating:
        """One of them."""
        return _Repeating(self.ensemble.alone(model))

    def checkpoints(self) -> list[_Repeating]:
        """The same at every checkpoint."""
        return [_Repeating(checkpoint) for checkpoint in self.ensemble.checkpoints()]

    def gradient_norms(self, records: Records) -> Array:
        """`(N, n)`."""
        return self.ensemble.gradient_norms(_first(records))[:, _repeat(len(records))]

    def representations(self, records: Records) -> _Inside | None:
        """What the last linear layer makes of the records."""
        inside = self.ensemble.representations(_first(records))
        if inside is None:
            return None
        parts = (inside.hidden, inside.class_distances, inside.last_gradient_norms)
        return _Inside(*(part[:, _repeat(len(records))] for part in parts))

    def step_products(self) -> Array:
        """`(N, m, steps)`, all zero."""
        return self.ensemble.step_products()

    def round_products(self, source: str) -> Array:
        """`(N, m, rounds)`, all zero."""
        return self.ensemble.round_products(source)

    def weight_products(self, canaries: Canaries) -> Array | None:
        """`(N, m)`, all zero."""
        return self.ensemble.weight_products(canaries)


@dataclass(frozen=True, slots=True)
class _Inside:
    """What the last linear layer makes of records; see `audit.core.protocols.Representations`."""

    hidden: Array
    class_distances: Array
    last_gradient_norms: Array


def _first(records: Records) -> Records:
    return records.take(np.arange(min(len(records), RECORDS)))


def _repeat(count: int) -> Array:
    return np.arange(count) % RECORDS


def _executed() -> Executed:
    """Nothing was executed and nothing measured."""
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

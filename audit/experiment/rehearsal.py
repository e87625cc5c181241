"""A game played once on untrained models, so that an attack that could not score it is known before anything is trained."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from audit.core import event_reading
from audit.core.access import ROUNDS, Access
from audit.core.data import Array, Canaries, Dataset, Records
from audit.core.errors import ConfigError, ObservationError
from audit.core.models import Representations, Signal
from audit.core.protocols import ModelMaker
from audit.core.seeds import Seed
from audit.core.training import Executed, TrainedModels, TrainingJob
from audit.experiment.attack import score
from audit.experiment.insertion import Insertion
from audit.experiment.observed import GameModels, Observations
from audit.experiment.orders import checkpoints
from audit.experiment.spec import PlannedAttack, Recipe

MODELS = 3  # a target and two references that differ; further references repeat these two
RECORDS = 32  # that the models are really asked about; what they say of these is repeated for all others
(
    SCORE_RECORDS,
    QUERY_RECORDS,
) = 2000, 32  # canaries that are scored at most; fewer where each takes many queries
REFERENCES = 256  # at most, unless an attack needs more: the coins of so many leave none out
NUMBERS = 1 << 26  # of all signals together, about
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
        references: how many of the game's take part, the first ones.
    """

    insertion: Insertion
    signals: Mapping[str, Array]
    canaries: Canaries
    rows: Array
    references: int

    def failure(self, planned_attack: PlannedAttack, included: Array) -> str:
        """Return why an attack cannot score the canaries with these coins of references `(references, m)`; "" where it can."""
        coins = np.concatenate([np.zeros((1, included.shape[1]), dtype=bool), included])
        planting = replace(self.insertion.planting, canaries=self.canaries, included=coins, runs=1)
        play = replace(self.insertion.play, runs=1)
        records = self.canaries.records
        models = GameModels(
            insertion=replace(self.insertion, play=play, planting=planting, seed=_SEED),
            observed=Observations(signals=self.signals, diverged=np.zeros(len(coins), dtype=bool)),
            labels=None if records is None or self.insertion.play.by_losses else records.labels,
        )
        try:
            score(models, planned_attack)
        except ObservationError as error:
            return str(error)
        return ""


def playable(insertions: Sequence[Insertion], dataset: Dataset, device: str) -> list[Insertion]:
    """The games with the attacks that can score them; one that cannot be played is refused before any is trained for."""
    games, recipe, models = [], None, None
    for insertion in insertions:
        if models is None or insertion.recipe is not recipe:  # the games of a recipe lie side by side and share its models
            recipe, models = insertion.training, untrained_models(insertion.training, dataset, device)
        games.append(_playable(insertion, models))
    return games


def _playable(insertion: Insertion, models: Any) -> Insertion:
    """The game with the attacks that can score it, and why each other was left out, decided by the references' coins alone.

    Args:
        insertion: the game.
        models: made by `untrained_models`.

    Raises:
        ConfigError: an attack could not score the game with balanced coins either, or none can with those that were drawn.
    """
    play, planting = insertion.play, insertion.planting
    rehearsal = rehearse(insertion, event_reading.steps(insertion.training.run_event), models)
    coins = planting.included[play.runs :][: rehearsal.references, rehearsal.rows]
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


def rehearse(insertion: Insertion, steps: int, models: Any) -> Rehearsal:
    """Return what the signals of a few untrained models look like, for as many models as the game trains.

    Raises:
        ConfigError: the model does not fit the data.
    """
    play, planting = insertion.play, insertion.planting
    signals = play.signals(play.trained_for.released, set())
    references = min(play.references, max(REFERENCES, *(attack.attack.needs.references for attack in play.attacks)))
    numbers = sum(signal.size(models.classes, steps) for signal in signals) * (1 + references)
    limit = min(SCORE_RECORDS, max(RECORDS, NUMBERS // max(numbers, 1)))
    limit = QUERY_RECORDS if any(signal.source == "label_queries" for signal in signals) else limit
    rows = _decisive(planting.included[play.runs :], len(planting.canaries), limit)
    canaries = _rows_of(planting.canaries, rows)
    sources = {"steps", *ROUNDS} if canaries.are_gradients else ROUNDS if insertion.training.training else set()
    sources = sources & play.trained_for.released
    silent = np.zeros((MODELS, len(canaries), steps if sources else 0), dtype=np.float32)
    try:
        values_by_signal = _Repeating(
            ensemble=models,
            products=dict.fromkeys(sources, silent),
            looks=len(checkpoints(play, canaries, steps)),
        ).read(signals, canaries)
    except ObservationError as error:
        raise ConfigError(f"games.{play.name}: {error}") from error
    rows_of = np.concatenate([[0], 1 + np.arange(references) % (MODELS - 1)])
    return Rehearsal(
        insertion=insertion,
        signals={name: value[rows_of] for name, value in values_by_signal.items()},
        canaries=canaries,
        rows=rows,
        references=references,
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
    queries = canaries.queries
    if queries is not None:
        queries = queries.take(np.arange(len(queries)).reshape(len(canaries), -1)[rows].ravel())
    bare: dict[str, Any] = {"copies": 1, "secrets": None, "planted": None, "companions": None}
    return replace(canaries, records=records, queries=queries, **bare, **forms)


def untrained_models(recipe: Recipe, dataset: Dataset, device: str) -> Any:
    """`MODELS` models as they are initialised, for all games of a recipe: an `Ensemble`, or what a `ModelMaker` makes."""
    from audit.engine.subject import Ensemble
    from audit.models.build import initialise_model

    seeds = tuple(_SEED.child("model", number) for number in range(MODELS))
    empty = np.zeros(0, dtype=np.int64)
    job = TrainingJob(
        dataset=replace(dataset, test=dataset.test.take(np.arange(min(len(dataset.test), _TEST_RECORDS)))),
        canaries=Canaries(kind="none", description="none", coordinates=empty),
        included=np.zeros((MODELS, 0), dtype=bool),
        seeds=seeds,
        mechanism=recipe.run_event,
        model=recipe.model,
        optimizer=recipe.optimizer,
        loss=recipe.loss,
        access=Access.FINAL_WEIGHTS,
        device=device,
    )
    if isinstance(recipe.trainer, ModelMaker):
        return recipe.trainer.untrained(job)
    states = [
        initialise_model(recipe.model, dataset.train.inputs.shape[1:], dataset.outputs, seed).state_dict() for seed in seeds
    ]
    weights = {name: np.stack([state[name].detach().cpu().numpy() for state in states]) for name in states[0]}
    return Ensemble(job, TrainedModels(weights=weights, initial=weights, executed=_executed()))


@dataclass(frozen=True, slots=True)
class _Repeating:
    """Models that look at `RECORDS` records at most, however many they are asked about, and repeat what these show.

    Attributes:
        products: `(N, m, steps)` of what is recorded of canaries in each step or round, by what releases it.
        looks: checkpoints that a trainer would have kept.
    """

    ensemble: Any
    products: Mapping[str, Array]
    looks: int

    def __len__(self) -> int:
        return len(self.ensemble)

    def read(self, signals: Collection[Signal], canaries: Canaries) -> dict[str, Array]:
        """Signals of the canaries by their keys, without those that the models lack."""
        values = {signal.key: signal.read(self, canaries) for signal in signals}
        return {key: value for key, value in values.items() if value is not None}

    def outputs(self, inputs: Array) -> Array:
        """`(N, n, classes)`."""
        return _repeated(self.ensemble.outputs(inputs[:RECORDS]), inputs)

    def own_losses(self, records: Records) -> Array | None:
        """`(N, n)`."""
        values = self.ensemble.own_losses(_first(records))
        return None if values is None else _repeated(values, records.inputs)

    def token_moments(self, inputs: Array) -> Array:
        """`(N, n, T, 2)`."""
        return _repeated(self.ensemble.token_moments(inputs[:RECORDS]), inputs)

    def continuations(self, inputs: Array, starts: Array) -> Array:
        """`(N, n, T)`."""
        return _repeated(self.ensemble.continuations(inputs[:RECORDS], starts[:RECORDS]), inputs)

    def beams(self, inputs: Array, starts: Array, width: int) -> Array:
        """`(N, n, width, T)`."""
        return _repeated(self.ensemble.beams(inputs[:RECORDS], starts[:RECORDS], width), inputs)

    def initial(self) -> _Repeating:
        """The models that a training begins from."""
        return replace(self, ensemble=self.ensemble.initial())

    def alone(self, model: int) -> _Repeating:
        """One of them."""
        return replace(self, ensemble=self.ensemble.alone(model))

    def checkpoints(self) -> list[_Repeating]:
        """The same at every checkpoint."""
        return [self] * self.looks

    def gradient_norms(self, records: Records) -> Array:
        """`(N, n)`."""
        return _repeated(self.ensemble.gradient_norms(_first(records)), records.inputs)

    def representations(self, records: Records) -> Representations | None:
        """Return what the last linear layer makes of the records."""
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
        """`(N, m, steps)`, all zero."""
        return self.products.get("steps")

    def round_products(self, source: str) -> Array:
        """`(N, m, rounds)`, all zero.

        Raises:
            ObservationError: the training has no rounds that parties see.
        """
        if source not in self.products:
            raise ObservationError(
                f"the {source} of each round are recorded by trainer 'federated' alone, of canary clients or, with unit: "
                "example in its mechanism, of records"
            )
        return self.products[source]

    def round_loss_drops(self, source: str) -> Array:
        """`(N, m, rounds)`, all zero."""
        return self.round_products(source)

    def weight_products(self, canaries: Canaries) -> Array | None:
        """`(N, m)`, all zero."""
        products: Array | None = self.ensemble.weight_products(canaries)
        return products


def _first(records: Records) -> Records:
    return records.take(np.arange(min(len(records), RECORDS)))


def _repeated(values: Array, records: Array) -> Array:
    """Values of the first records, repeated for all of them."""
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

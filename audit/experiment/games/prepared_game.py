"""Before any training: the canaries of each game, their coins, and the rules that statistics may rely on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from audit.core.canaries import Assignment, Canaries, CanaryRecords
from audit.core.coins import Coins
from audit.core.data import Array, Dataset, Records
from audit.core.errors import ConfigError
from audit.core.event_reading import unit
from audit.core.events import Event
from audit.core.game import Game, Inclusion
from audit.core.phrases import phrase
from audit.core.protocols import TensorCanaryMaker
from audit.core.seeds import Seed
from audit.experiment.games import stopping
from audit.experiment.games.records import RecordTable, make_record_table
from audit.experiment.games.spec import AuditDesign, AuditInputs, GameDesign, TrainingDesign
from audit.stats.spread import parts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedGame:
    """A game with its canaries made and its coins drawn: nothing is trained yet.

    Attributes:
        training_design: what is trained; None for models that a user brings.
        assignment: the canaries, and the coins of every model.
        records: what reports say of the canaries.
        notes: which of its attacks were left out, and why.
    """

    training_design: TrainingDesign | None
    game_design: GameDesign
    seed: Seed
    assignment: Assignment
    records: RecordTable
    notes: tuple[str, ...] = ()

    @property
    def mechanism(self) -> Event | None:
        return None if self.training_design is None else self.training_design.mechanism

    @property
    def training(self) -> TrainingDesign:
        """The recipe, of a game with models trained here; `ConfigError` if a user brings them."""
        if self.training_design is None:
            raise ConfigError(
                f"game '{self.game_design.name}' has models of the user's own; expected a recipe to train models by"
            )
        return self.training_design

    @property
    def game(self) -> Game:
        """The game as an adversary with all of its access plays it, and what it grants to statistics."""
        canaries = self.assignment.canaries
        return Game(
            adjacency=self.game_design.adjacency,
            access=self.game_design.access,
            inclusion=Inclusion.COINS if self.assignment.by_coins else Inclusion.SPLIT,
            canaries=canaries.draws,
            runs=self.assignment.runs,
            references=self.game_design.references,
            inclusion_probability=self.game_design.inclusion_probability,
            independent_noise=canaries.payload.orthogonal and self.game_design.access.each_release,
            canary=canaries.description,
            copies=canaries.payload.copies,
            choices=1 if canaries.secrets is None else canaries.secrets.choices,
            secret="" if canaries.secrets is None else canaries.secrets.kind,
            aim=canaries.payload.aim,
            unit=canaries.payload.unit,
        )

    def without(self, left_out: Mapping[str, str]) -> PreparedGame:
        attacks = tuple(attack for attack in self.game_design.attacks if attack.name not in left_out)
        notes = [phrase("'{attack}' was left out: {reason}", attack=name, reason=left_out[name]) for name in left_out]
        return replace(self, game_design=replace(self.game_design, attacks=attacks), notes=(*self.notes, *notes))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExternalRecords:
    """Canaries that a user brought: the records of an audited model, for which there is nothing to make."""

    canaries: Canaries

    def __len__(self) -> int:
        return len(self.canaries)

    @classmethod
    def of(cls, records: Records) -> ExternalRecords:
        description, payload = "records given as members and nonmembers", CanaryRecords(records=records)
        return cls(canaries=Canaries(kind="given", description=description, payload=payload))

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        return self.canaries


def prepare_games(design: AuditDesign, audit_inputs: AuditInputs, delta: float) -> list[PreparedGame]:
    """All games on all recipes, so that one that cannot be played is refused before any other is trained for."""
    games = []
    for training_design, game_design in design.pairs:
        # parties that look at the same training share its stream
        seed = audit_inputs.seed.child(f"recipe:{training_design.trained_as}").child(f"game:{game_design.name}")
        prepared_game = insert(training_design, game_design, audit_inputs, seed)
        refuse_unfit(prepared_game, delta)
        games.append(prepared_game)
    return games


def insert(training_design: TrainingDesign, game_design: GameDesign, audit_inputs: AuditInputs, seed: Seed) -> PreparedGame:
    """Return the game with its canaries, the same in all models, and one coin per model and canary, or one value per secret.
    `ConfigError` for canaries that are clients, in a training on records.
    """
    # a model that a dry run leaves unmade is taken to be large enough
    tensors = audit_inputs.tensors if audit_inputs.parameters else (game_design.count,)
    maker, arguments = game_design.maker, (audit_inputs.dataset, game_design.count)
    if isinstance(maker, TensorCanaryMaker):
        canaries = maker.make_in_tensors(*arguments, tensors, seed.child("canaries"))
    else:
        canaries = maker.make(*arguments, sum(tensors), seed.child("canaries"))
    if audit_inputs.dataset.unit == "user" and not canaries.payload.unit:
        canaries = replace(canaries, payload=replace(canaries.payload, unit="user"))
    if canaries.behaviour is not None and unit(training_design.run_event) != "client":
        raise ConfigError(
            f"games.{game_design.name}: canaries '{canaries.kind}' are clients of a federation, and "
            f"'{training_design.name}' trains on records; use mechanism 'federated' with unit 'client'"
        )
    included = _coins(game_design, canaries, seed)
    return PreparedGame(
        training_design=training_design,
        game_design=game_design,
        seed=seed,
        assignment=Assignment(canaries=canaries, included=included, runs=game_design.runs),
        records=make_record_table(canaries, audit_inputs.dataset, audit_inputs.key),
    )


def _coins(game_design: GameDesign, canaries: Canaries, seed: Seed) -> Any:
    """`(models, m)`, a bit each; draws are held for some models at a time."""
    random = seed.child("coins").numpy()

    def rows() -> Iterator[Array]:
        for part in parts(game_design.models, canaries.draws):
            draws = random.random((part.stop - part.start, canaries.draws))
            yield draws < game_design.inclusion_probability if canaries.secrets is None else canaries.secrets.draw(draws)

    return Coins.of(rows(), game_design.models, len(canaries))


def refuse_unfit(prepared_game: PreparedGame, delta: float) -> None:
    """Raise an error if an estimator assumes more than the game grants, or a game that stops could have no evidence."""
    game = prepared_game.game
    if prepared_game.game_design.stops:
        stopping.refuse_unfit(prepared_game.game_design, game, prepared_game.mechanism, delta)
    for attack in prepared_game.game_design.attacks:
        for estimator in attack.estimators:
            game.at(attack.access).require(estimator.assumes, type(estimator).__name__)

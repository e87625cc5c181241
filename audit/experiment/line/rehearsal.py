"""A game played once on untrained models, so that an attack that could not score it is known before anything is trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from audit.core import event_reading
from audit.core.access import ROUNDS
from audit.core.canaries import Canaries
from audit.core.coins import take_models
from audit.core.data import Array, Dataset
from audit.core.errors import ConfigError, ObservationError
from audit.experiment.games.attack import score
from audit.experiment.games.job_specs import checkpoints
from audit.experiment.games.observed import GameModels, Observations
from audit.experiment.games.prepared_game import PreparedGame
from audit.experiment.games.spec import PlannedAttack
from audit.experiment.line.untrained import MODELS, RECORDS, SEED, RepeatingModels, untrained_models

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

"""Canary clients in a federation that runs: their replies join those of the real clients in a Flower strategy of your own."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attacks.canaries._cosines import direction
from audit.core import checks
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.seeds import new_seed
from audit.step_checks.rounds import wire
from audit.step_checks.rounds.bench import FAINT, LOUD
from audit.step_checks.tensors import Tensors

SCHEMA = "federated-rounds/1"  # that of examples/federated_rounds.py, which reads what is written here


@dataclass(kw_only=True, eq=False)
class CanaryRounds:
    """The canary clients of a federation, and what it released in each round.

    Attributes:
        count: number of canary clients; each sends its direction in every round, or next to nothing, by its coin.
        clip_norm: l2 norm to which one update is clipped.
        seed: of directions and coins; whoever knows it can make both again.
        oversize: length of what a canary client sends, before the clip, over the clip norm.
        divisor: by which the strategy divides the sum; None if it does not say so, and the number of replies is taken.
        rounds: `(d,)` per round, the released step times the divisor: the noisy sum of the updates, floating-point parameters
            flattened.
    """

    count: int
    clip_norm: float
    seed: int
    oversize: float
    divisor: int | None
    rounds: list[Array] = field(default_factory=list)
    _model: Tensors = field(default_factory=dict)

    @property
    def coins(self) -> Array:
        """Return which canary clients send their direction, `(count,)` bool; keep it from the audited party."""
        return np.random.Generator(np.random.Philox(key=[self.seed % 2**64, self.seed >> 64 ^ 1])).random(self.count) < 0.5

    def scores(self) -> tuple[Array, Array]:
        """Return the score of each canary client, summed over all rounds, and its coin, both `(count,)`.

        Raises:
            DataError: no round was played yet.
        """
        if not self.rounds:
            raise DataError("no round was released since the canary clients were planted; run the strategy first")
        total = np.sum(self.rounds, axis=0) / self.clip_norm
        return np.array([direction(number, len(total), self.seed) @ total for number in range(self.count)]), self.coins

    def write(self, path: str) -> None:
        """Write an npz with the rounds, `(rounds, d)` float32; `examples/federated_rounds.py` scores it for `audit scores`."""
        meta = {"schema": SCHEMA, "seed": self.seed, "count": self.count, "clip_norm": self.clip_norm}
        rounds = np.asarray(self.rounds, dtype=np.float32)
        np.savez_compressed(path, meta=np.array(json.dumps(meta)), rounds=rounds)

    def serve(self, arrays: Mapping[str, Any]) -> None:
        """Note the model that clients are sent in this round, tensors by name.

        Raises:
            ConfigError: there are not fewer canary clients than floating-point parameters.
        """
        self._model = wire.from_record(arrays)
        if self.count >= self._size:
            raise ConfigError(f"{self.count} canary clients for {self._size} floating parameters; expected fewer than those")

    @property
    def _floating(self) -> list[str]:
        return [name for name, value in self._model.items() if value.dtype.kind == "f"]

    @property
    def _size(self) -> int:
        return sum(self._model[name].size for name in self._floating)

    def replies(self, answers: list[Any], records: Any) -> list[Any]:
        """Return the canary clients' replies, in the form of the first of the real ones, `answers`.

        Raises:
            DataError: no client replied, a metric of the clients is not finite, or the strategy divides by another number than
                that of all replies.
        """
        if not answers:
            raise DataError("no client replied in this round, so canary clients have no reply to be like; start more clients")
        replies = len(answers) + self.count
        if self.divisor is not None and self.divisor != replies:
            raise DataError(
                f"{len(answers)} clients and {self.count} canary clients reply, and the strategy plans for {self.divisor}; "
                f"give it num_sampled_clients={replies}"
            )
        return [self._reply(number, coin, answers, records) for number, coin in enumerate(self.coins)]

    def _reply(self, number: int, coin: bool, answers: list[Any], records: Any) -> Any:
        """Return one canary client's reply; a faint update if its coin is False, since zero loses some strategies a round."""
        length = self.clip_norm * (self.oversize if coin else FAINT)
        flat = direction(number, self._size, self.seed) * length
        tensors, start = dict(self._model), 0
        for name in self._floating:
            value = self._model[name]
            step = flat[start : start + value.size].reshape(value.shape)
            tensors[name] = np.asarray(value + step, dtype=value.dtype)
            start += value.size
        like = answers[0].content
        content = {key: wire.to_record(records, tensors) for key in like.array_records}
        content |= {key: _middle(key, answers, records) for key in like.metric_records}
        return records.Message(records.RecordDict(content), dst_node_id=0, message_type="train")

    def keep(self, arrays: Mapping[str, Any], replies: int) -> None:
        """Keep the step from the model that was sent to the released one, times the divisor or the number of `replies`."""
        model = wire.from_record(arrays)
        step = np.concatenate([(model[name] - self._model[name]).ravel() for name in self._floating]).astype(np.float64)
        self.rounds.append(step * (replies if self.divisor is None else self.divisor))


def plant_canary_clients(
    strategy: Any, *, count: int, clip_norm: float, seed: int | None = None, oversize: float = LOUD, records: Any = None
) -> CanaryRounds:
    """Let canary clients take part in every round of a Flower strategy, and record the models that it releases.

    The strategy is changed in place: it gets the replies of its clients and those of the canary clients, and handles both by
    its own code. Start it as usual, then give `CanaryRounds.scores` to `audit.lower_bound` (an estimator for coins of one run;
    adjacency "zero_out"), or write the rounds for `audit scores`.

    Args:
        strategy: of Flower's message API. If it plans for a number of clients, that has to include the canary clients.
        count: number of canary clients, at least 2 and fewer than the model has parameters.
        clip_norm: l2 norm to which one update is clipped.
        seed: of directions and coins, of 128 bits at most; None draws one from the system.
        oversize: length of a canary client's update before the clip, over the clip norm; 1 if clients clip their own updates.
        records: module with Flower's record types; None imports Flower.

    Raises:
        ConfigError: the strategy lacks a method, a number is out of range, or Flower is not installed. Rounds raise `DataError`
            if the number of replies does not fit.
    """
    checks.positive(clip_norm, "clip_norm")
    checks.positive(oversize, "oversize")
    if count < 2:
        raise ConfigError(f"{count} canary client(s) show nothing; expected at least 2, better some hundreds")
    for name in ("configure_train", "aggregate_train"):
        if not callable(getattr(strategy, name, None)):
            raise ConfigError(f"{type(strategy).__name__} has no {name}; expected a strategy of Flower's message API")
    module = wire.flower_records() if records is None else records
    divisor = wire.read_setting(strategy, "num_sampled_clients", None)
    log = CanaryRounds(
        count=count, clip_norm=clip_norm, seed=new_seed() if seed is None else seed, oversize=oversize, divisor=divisor
    )
    configure, aggregate = strategy.configure_train, strategy.aggregate_train

    def configure_train(server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        log.serve(arrays)
        return configure(server_round, arrays, config, grid)

    def aggregate_train(server_round: int, replies: Iterable[Any]) -> Any:
        answers = list(replies)
        valid = [reply for reply in answers if not reply.has_error()]
        canaries = log.replies(valid, module)
        result = aggregate(server_round, [*answers, *canaries])
        if result[0] is not None:
            log.keep(result[0], len(valid) + len(canaries))
        return result

    strategy.configure_train, strategy.aggregate_train = configure_train, aggregate_train
    return log


def _middle(key: str, answers: list[Any], records: Any) -> Any:
    """Return a record of metrics with the median of what the clients sent, so that canary clients have a usual weight.

    Raises:
        DataError: a median that is not finite.
    """
    values: dict[str, Any] = {}
    for name, value in answers[0].content.metric_records[key].items():
        median = float(np.median([reply.content.metric_records[key][name] for reply in answers]))
        if not math.isfinite(median):
            raise DataError(f"clients send metric '{name}' that is not finite; canary clients cannot send its median")
        values[name] = type(value)(median)
    return records.MetricRecord(values)

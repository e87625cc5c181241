"""What clients answer to the messages of a round: replies made by hand, as they leave through the clients' mods."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.step_checks.rounds import wire
from audit.step_checks.tensors import Tensors

_TRIALS = 2  # clients that reply alike, whose mods have to come to the same before it is taken for all others


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replies:
    """The replies of a round."""

    updates: Sequence[Tensors]  # of each client, tensors by name: how far its model is from the one it was sent
    start: Tensors  # the model that clients are sent
    records: Sequence[float] = ()  # each client's claim to so many records; 1 each if it is empty
    metrics: Sequence[Mapping[str, float]] = ()  # what each client sends along; nothing if it is empty
    unmodded: tuple[int, ...] = ()  # clients with an app without the mods
    lazy: bool = False  # whether the strategy gets a generator in place of a list

    def digest(self) -> bytes:
        """Return a hash of everything that the server sees, and of the order in which it does."""
        content = hashlib.sha256(repr((self.records, self.metrics, self.unmodded, self.lazy)).encode())
        for tensors in (self.start, *self.updates):
            for name, value in tensors.items():
                content.update(f"{name} {value.dtype} {value.shape};".encode() + value.tobytes())
            content.update(b"|")
        return content.digest()

    def save(self, path: Path) -> None:
        """Write start, updates, records and metrics as an npz file without pickled objects."""
        arrays: dict[str, Any] = {f"start/{name}": value for name, value in self.start.items()}
        for index, update in enumerate(self.updates):
            arrays |= {f"update{index}/{name}": value for name, value in update.items()}
        for index, values in enumerate(self.metrics):
            arrays |= {f"metric{index}/{name}": np.array(value) for name, value in values.items()}
        np.savez(path, **arrays, records=np.array(self.records, dtype=np.float64))


def make_answers(messages: Sequence[Any], replies: Replies, mods: Sequence[Any], kinds: Any, weight_key: str) -> list[Any]:
    """Return the clients' answers, one for each message.

    Most clients of a round reply alike. If mods make the same of the first two such replies, which are to two clients, they
    make it of all of them: the others get copies, and mods that draw noise are called for each. A client claims its records
    by the metric `weight_key`.
    """
    models = _models(replies, kinds)
    answers: list[Any] = []
    alike: dict[Any, list[Any]] = {}
    repeats: dict[Any, bool] = {}
    for index, message in enumerate(messages):
        metrics = {weight_key: replies.records[index] if len(replies.records) else 1}
        metrics |= replies.metrics[index] if len(replies.metrics) else {}
        own_mods = () if index in replies.unmodded else mods
        model = models[id(replies.updates[index])]
        key = id(model), tuple(metrics.items()), bool(own_mods), _settings(message) if own_mods else ""
        earlier = alike.setdefault(key, [])
        if len(earlier) == _TRIALS and key not in repeats:
            repeats[key] = bool(own_mods) and _equal_answers(*earlier)
        if repeats.get(key, False):
            answers.append(kinds.Message(_content_copy(kinds, earlier[0].content), reply_to=message))
            continue
        arrays = wire.copied_record(kinds, model)
        content = kinds.RecordDict({"arrays": arrays, "metrics": kinds.MetricRecord(metrics)})
        answer = wire.through_mods(message, kinds.Message(content, reply_to=message), own_mods)
        if len(earlier) < _TRIALS:
            earlier.append(answer)
        answers.append(answer)
    return answers


def _models(replies: Replies, kinds: Any) -> dict[int, Any]:
    """Return the record of each different update's model, by the update's identity: most clients share theirs."""
    models = {}
    for update in {id(update): update for update in replies.updates}.values():
        model = {name: (replies.start[name] + value).astype(value.dtype) for name, value in update.items()}
        models[id(update)] = wire.to_record(kinds, model)
    return models


def _settings(message: Any) -> str:
    """Return what a message says beside the model."""
    return repr([sorted(record.items()) for record in message.content.config_records.values()])


def _equal_answers(left: Any, right: Any) -> bool:
    """Return whether two answers hold the same numbers; answers with an error are never the same."""
    if left.has_error() or right.has_error() or list(left.content) != list(right.content):
        return False
    pairs = [(value, right.content[name]) for name, value in left.content.items()]
    if any(type(first) is not type(second) or list(first) != list(second) for first, second in pairs):
        return False
    return all(_equal(value, second[name]) for first, second in pairs for name, value in first.items())


def _equal(left: Any, right: Any) -> bool:
    first, second = _array(left), _array(right)
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def _array(value: Any) -> Array:
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _content_copy(kinds: Any, content: Any) -> Any:
    """Return records of the same content that a strategy may change."""
    arrays = {id(record) for record in content.array_records.values()}
    return kinds.RecordDict(
        {
            name: wire.copied_record(kinds, record) if id(record) in arrays else type(record)(dict(record))
            for name, record in content.items()
        }
    )

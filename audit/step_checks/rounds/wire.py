"""What goes over the wire of a Flower round, made without a network: records, replies, a grid of nodes that never answer."""

import copy
import functools
import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core.errors import ConfigError
from audit.step_checks.tensors import Tensors

RECORDS = "flwr.app"
_WAITS = 3


def flower_records() -> Any:
    """Return the module with Flower's record types.

    Raises:
        ConfigError: Flower is not installed, or is older than its message API.
    """
    try:
        module = importlib.import_module(RECORDS)
    except ImportError as error:
        raise ConfigError(f"Flower cannot be imported: {error}; install flwr 1.41 or newer (docs/use/federated.md)") from error
    missing = [name for name in ("Array", "ArrayRecord", "Message", "MetricRecord", "RecordDict") if not hasattr(module, name)]
    if missing:
        raise ConfigError(f"{RECORDS} has no {', '.join(missing)}; expected flwr 1.41 or newer")
    return module


@contextmanager
def task_identity(records: ModuleType | Any) -> Iterator[None]:
    """Give messages a run to belong to, as Flower demands, and take it away afterwards."""
    if getattr(records, "__name__", "") != RECORDS:
        yield
        return
    identity = importlib.import_module("flwr.supercore.task_identity").TaskIdentity
    names = ("task_id", "run_id", "node_id")
    before = {name: getattr(identity, f"_{name}") for name in names}
    try:
        for name in names:
            setattr(identity, name, before[name] if before[name] is not None else 1)
        yield
    finally:
        for name in names:
            setattr(identity, name, before[name])


@dataclass(slots=True)
class Nodes:
    """The grid of a strategy: so many nodes are connected, and messages to them are never sent."""

    count: int
    calls: int = 0

    def get_node_ids(self) -> list[int]:
        """Return the connected nodes.

        Raises:
            ConfigError: the strategy asks again and again, because it waits for more nodes.
        """
        self.calls += 1
        if self.calls > _WAITS:
            raise ConfigError(f"the strategy waits for more than {self.count} nodes; lower its min_available_nodes")
        return list(range(1, self.count + 1))


def chain(strategy: Any) -> Iterator[Any]:
    """Yield a strategy and those that it wraps, outermost first."""
    while strategy is not None:
        yield strategy
        strategy = getattr(strategy, "strategy", None)


def read_setting(strategy: Any, name: str, default: Any) -> Any:
    """Return an attribute of the strategy or of one that it wraps."""
    for layer in chain(strategy):
        if hasattr(layer, name):
            return getattr(layer, name)
    return default


def to_record(records: Any, tensors: Mapping[str, NDArray[Any]]) -> Any:
    """Return an array record of those tensors, in their order."""
    kind = _parsing_array(records.Array) if getattr(records, "__name__", "") == RECORDS else records.Array
    record = records.ArrayRecord()
    for name, value in tensors.items():
        array = np.asarray(value, order="C")
        record[name] = kind(array)
    return record


@functools.cache
def _parsing_array(kind: Any) -> Any:
    """Return Flower's array with its bytes parsed once for all its copies; each reader gets its own numbers."""

    def numpy(self: Any) -> NDArray[Any]:
        content, values = self.__dict__.get("_content", (None, None))
        if content is not self.data:
            values = kind.numpy(self)
            self.__dict__["_content"] = self.data, values
        return np.array(values)

    return type(kind.__name__, (kind,), {"numpy": numpy, "__module__": kind.__module__})


def copied_record(records: Any, record: Mapping[str, Any]) -> Any:
    """Return a record of the same bytes that a strategy may change, without writing them out again."""
    copied = records.ArrayRecord()
    for name, array in record.items():
        if type(array) in (records.Array,) and getattr(records, "__name__", "") == RECORDS:
            array.__class__ = _parsing_array(records.Array)  # of a client's mod: parsed once for all copies as well
            array.numpy()
        copied[name] = copy.copy(array)
    return copied


def from_record(record: Mapping[str, Any]) -> Tensors:
    """Return the tensors of an array record."""
    return {name: np.array(array.numpy()) for name, array in record.items()}


def through_mods(message: Any, reply: Any, mods: Sequence[Any]) -> Any:
    """Return the reply to a message as it leaves a client with those mods in its app, the first outermost."""

    def call(message: Any, context: Any, depth: int = 0) -> Any:
        if depth == len(mods):
            return reply
        return mods[depth](message, context, lambda inner, inner_context: call(inner, inner_context, depth + 1))

    return call(message, None)

"""Strategies of Flower's older API (`flwr.server.strategy`) as the bench plays those of its message API."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from audit.core.errors import ConfigError
from audit.step_checks.rounds import wire

COMMON = "flwr.common"


def is_legacy(strategy: Any) -> bool:
    """Return whether it has the older API's methods and not those of the message API."""
    older = all(hasattr(strategy, name) for name in ("configure_fit", "aggregate_fit"))
    return older and not hasattr(strategy, "aggregate_train")


@dataclass(frozen=True, slots=True)
class LegacyClient:
    """A client that is never asked."""

    cid: str


@dataclass(frozen=True, slots=True)
class LegacyManager:
    """The clients that a strategy may sample: so many are connected."""

    count: int

    def num_available(self) -> int:
        """Return how many are connected."""
        return self.count

    def sample(self, num_clients: int, min_num_clients: int | None = None, criterion: Any = None) -> list[LegacyClient]:
        """Return the first of them.

        Raises:
            ConfigError: the strategy waits for more.
        """
        if max(num_clients, min_num_clients or 0) > self.count:
            raise ConfigError(f"the strategy waits for more than {self.count} clients; lower its min_available_clients")
        return [LegacyClient(str(number)) for number in range(1, num_clients + 1)]


class LegacyRounds:
    """A strategy of the older API behind the methods of the message API; all its settings are its own.

    Parameters travel there as a list without names, so that a client cannot return them in another order.

    Args:
        strategy: with `configure_fit` and `aggregate_fit`.
        records: module with the record types.
    """

    OWN = ("strategy", "records", "names")

    def __init__(self, strategy: Any, records: Any) -> None:
        self.strategy, self.records = strategy, records
        self.names: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name in self.OWN or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.strategy, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.strategy, name, value)

    @property
    def fraction_train(self) -> float:
        """Return the share of the clients that are asked."""
        return float(getattr(self._inner, "fraction_fit", 1.0))

    @property
    def min_available_nodes(self) -> int:
        """Return how many clients have to be connected."""
        return int(getattr(self._inner, "min_available_clients", 1))

    @property
    def _inner(self) -> Any:
        return list(wire.chain(self.strategy))[-1]

    def configure_train(self, number: int, arrays: Mapping[str, Any], config: Any, grid: Any) -> list[Any]:
        """Return the messages that stand for what the strategy asks its clients."""
        common = importlib.import_module(COMMON)
        self.names = tuple(arrays)
        parameters = common.ndarrays_to_parameters([array.numpy() for array in arrays.values()])
        pairs = self.strategy.configure_fit(number, parameters, LegacyManager(len(grid.get_node_ids())))
        return [
            self.records.Message(
                self.records.RecordDict({"arrays": arrays, "config": self.records.ConfigRecord(dict(order.config))}),
                dst_node_id=int(client.cid),
                message_type="train",
            )
            for client, order in pairs
        ]

    def aggregate_train(self, number: int, replies: Iterable[Any]) -> tuple[Any, Mapping[str, Any]]:
        """Return what the strategy makes of the replies."""
        common = importlib.import_module(COMMON)
        results = [(LegacyClient(str(index)), self._result(reply, common)) for index, reply in enumerate(replies, 1)]
        parameters, metrics = self.strategy.aggregate_fit(number, results, [])
        if parameters is None:
            return None, metrics
        arrays = common.parameters_to_ndarrays(parameters)
        return wire.to_record(self.records, dict(zip(self.names, arrays, strict=True))), metrics

    def _result(self, reply: Any, common: Any) -> Any:
        """Return a reply as the older API has it."""
        (arrays,) = reply.content.array_records.values()
        (metrics,) = reply.content.metric_records.values()
        values = dict(metrics)
        return common.FitRes(
            status=common.Status(common.Code.OK, ""),
            parameters=common.ndarrays_to_parameters([arrays[name].numpy() for name in self.names]),
            num_examples=values.pop("num-examples", 1),
            metrics=values,
        )

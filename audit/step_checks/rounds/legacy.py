"""Strategies of Flower's older API (`flwr.server.strategy`) as the bench plays those of its message API."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit.core.errors import ConfigError
from audit.step_checks.rounds import wire

COMMON, COMPAT, MODS = "flwr.common", "flwr.compat.common.recorddict_compat", "flwr.client."


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
        """Return the messages that represent what the strategy asks its clients."""
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
        results = [(LegacyClient(str(index)), fit_result(reply, self.names)) for index, reply in enumerate(replies, 1)]
        parameters, metrics = self.strategy.aggregate_fit(number, results, [])
        if parameters is None:
            return None, metrics
        arrays = common.parameters_to_ndarrays(parameters)
        return wire.to_record(self.records, dict(zip(self.names, arrays, strict=True))), metrics


def fit_result(reply: Any, names: Sequence[str]) -> Any:
    """Return a reply as the older API has it, with its parameters in that order."""
    common = importlib.import_module(COMMON)
    (arrays,) = reply.content.array_records.values()
    (metrics,) = reply.content.metric_records.values()
    values = dict(metrics)
    return common.FitRes(
        status=common.Status(common.Code.OK, ""),
        parameters=common.ndarrays_to_parameters([arrays[name].numpy() for name in names]),
        num_examples=values.pop("num-examples", 1),
        metrics=values,
    )


class LegacyMod:
    """A client's mod of the older API (`flwr.client.mod`) as one of the message API: it reads and writes that API's records."""

    def __init__(self, mod: Any, records: Any) -> None:
        self.mod, self.records = mod, records

    def __call__(self, message: Any, context: Any, call_next: Any) -> Any:
        """Return the reply to a message as it leaves through the mod."""
        common, compat = importlib.import_module(COMMON), importlib.import_module(COMPAT)
        (arrays,) = message.content.array_records.values()
        (config,) = message.content.config_records.values()
        names = list(arrays)
        order = common.FitIns(common.ndarrays_to_parameters([array.numpy() for array in arrays.values()]), dict(config))
        older = self.records.Message(compat.fitins_to_recorddict(order, True), dst_node_id=1, message_type="train")

        def inner(_: Any, inner_context: Any) -> Any:
            result = fit_result(call_next(message, inner_context), names)
            return self.records.Message(compat.fitres_to_recorddict(result, True), reply_to=older)

        answer = self.mod(older, context, inner)
        if answer.has_error():
            return answer
        result = compat.recorddict_to_fitres(answer.content, True)
        # a bit is a number there as well, and the records of metrics take whole and real ones alone
        metrics = {name: int(value) if isinstance(value, bool) else value for name, value in result.metrics.items()}
        tensors = dict(zip(names, common.parameters_to_ndarrays(result.parameters), strict=True))
        content = {
            "arrays": wire.to_record(self.records, tensors),
            "metrics": self.records.MetricRecord({"num-examples": result.num_examples, **metrics}),
        }
        return self.records.Message(self.records.RecordDict(content), reply_to=message)


def is_legacy_mod(mod: Any) -> bool:
    """Return whether a mod's class is one of the older API's, or is made from one."""
    return any(kind.__module__.startswith(MODS) for kind in type(mod).__mro__)

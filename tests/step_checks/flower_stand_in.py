"""Record types with Flower's interfaces, and strategies with and without its defects, for tests that run without Flower."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np


class Array:
    def __init__(self, value: np.ndarray) -> None:
        self.value = np.array(value)

    def numpy(self) -> np.ndarray:
        return self.value.copy()


class ArrayRecord(dict[str, Array]):
    def to_numpy_ndarrays(self) -> list[np.ndarray]:
        return [array.numpy() for array in self.values()]


class MetricRecord(dict[str, Any]):
    pass


class ConfigRecord(dict[str, Any]):
    pass


class RecordDict(dict[str, Any]):
    def of(self, kind: type) -> dict[str, Any]:
        return {name: value for name, value in self.items() if isinstance(value, kind)}

    array_records = property(lambda self: self.of(ArrayRecord))
    metric_records = property(lambda self: self.of(MetricRecord))
    config_records = property(lambda self: self.of(ConfigRecord))


class Message:
    def __init__(self, content: Any, *, dst_node_id: int = 0, message_type: str = "", reply_to: Any = None) -> None:
        self.content, self.error = content, None
        self.metadata = SimpleNamespace(src_node_id=dst_node_id, message_type=message_type)

    def has_error(self) -> bool:
        return False


class Correct:
    """A strategy that clips whole updates by name, divides by a constant, and draws its noise from its own generator.

    Each method is one thing that a broken strategy does otherwise; `records` is Flower's module if it runs on Flower.
    """

    records: Any = sys.modules[__name__]

    def __init__(self, noise_multiplier: float = 1.0, clipping_norm: float = 1.0, num_sampled_clients: int = 10) -> None:
        self.noise_multiplier, self.clipping_norm = noise_multiplier, clipping_norm
        self.num_sampled_clients = num_sampled_clients
        self.generator = np.random.default_rng(12)
        self.current: dict[str, np.ndarray] = {}

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any) -> list[Message]:
        self.current = {name: array.numpy() for name, array in arrays.items()}
        nodes = grid.get_node_ids()[: self.num_sampled_clients]
        content = self.records.RecordDict({"arrays": arrays, "config": config})
        return [self.records.Message(content, dst_node_id=node, message_type="train") for node in nodes]

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        listed = list(replies)
        updates = [self.clipped(self.update(reply)) for reply in listed]
        weights = self.weights(listed)
        mean = {
            name: sum(weight * update[name] for weight, update in zip(weights, updates, strict=True))
            for name in self.floating()
        }
        noisy = {name: self.current[name] + self.step(value) + self.noise(np.shape(value)) for name, value in mean.items()}
        return self.record({**self.current, **noisy}), self.metrics(listed)

    def floating(self) -> list[str]:
        return [name for name, value in self.current.items() if value.dtype.kind == "f"]

    def update(self, reply: Any) -> dict[str, np.ndarray]:
        record = next(iter(reply.content.array_records.values()))
        return {name: record[name].numpy().astype(float) - self.current[name] for name in self.floating()}

    def clipped(self, update: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if not all(np.isfinite(value).all() for value in update.values()):
            return {name: np.zeros_like(value) for name, value in update.items()}
        norm = math.sqrt(sum(float((value**2).sum()) for value in update.values()))
        factor = min(1.0, self.clipping_norm / max(norm, 1e-12))
        return {name: value * factor for name, value in update.items()}

    def weights(self, replies: list[Any]) -> list[float]:
        return [1 / self.num_sampled_clients] * len(replies)

    def step(self, mean: np.ndarray) -> np.ndarray:
        return mean

    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.generator.normal(0, self.noise_multiplier * self.clipping_norm / self.num_sampled_clients, shape)

    def metrics(self, replies: list[Any]) -> Any:
        return self.records.MetricRecord()

    def record(self, model: Mapping[str, np.ndarray]) -> Any:
        return self.records.ArrayRecord({name: self.records.Array(np.asarray(value)) for name, value in model.items()})


class ScalesReplies(Correct):
    """Right, and writes each client's share of the mean into its reply, as Flower's strategies write into theirs."""

    def weights(self, replies: list[Any]) -> list[float]:
        return [1.0] * len(replies)

    def update(self, reply: Any) -> dict[str, np.ndarray]:
        record = next(iter(reply.content.array_records.values()))
        for name, value in self.clipped(super().update(reply)).items():
            record[name].value = self.current[name] + value / self.num_sampled_clients
        return super().update(reply)


def _records(reply: Any) -> float:
    return float(next(iter(reply.content.metric_records.values()))["num-examples"])


class NotClipped(Correct):
    def clipped(self, update: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return update


class ScalarNotClipped(Correct):
    def clipped(self, update: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        near = super().clipped(update)
        return {name: value if value.ndim == 0 else near[name] for name, value in update.items()}


class NanPasses(Correct):
    def clipped(self, update: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return super().clipped(update) if all(np.isfinite(value).all() for value in update.values()) else update


class ZeroRaises(Correct):
    def clipped(self, update: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if not any(value.any() for value in update.values()):
            raise ZeroDivisionError("float division by zero")
        return super().clipped(update)


class ByPosition(Correct):
    def update(self, reply: Any) -> dict[str, np.ndarray]:
        record = next(iter(reply.content.array_records.values()))
        values = [array.numpy().astype(float) for array in record.values() if array.numpy().dtype.kind == "f"]
        return {name: value - self.current[name] for name, value in zip(self.floating(), values, strict=True)}

    def clipped(self, update: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return update if max(map(np.size, update.values())) == 50 else super().clipped(update)


class IntegersOut(Correct):
    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        listed = list(replies)
        arrays, metrics = super().aggregate_train(server_round, listed)
        record = next(iter(listed[0].content.array_records.values()))
        for name in set(self.current) - set(self.floating()):
            arrays[name] = record[name]
        return arrays, metrics


class WeightedByRecords(Correct):
    def weights(self, replies: list[Any]) -> list[float]:
        total = sum(_records(reply) for reply in replies)
        return [_records(reply) / total for reply in replies]


class RefusesWeights(Correct):
    """Right, in another way: it releases nothing if clients claim different numbers of records."""

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        listed = list(replies)
        if len({_records(reply) for reply in listed}) > 1 or len(listed) != self.num_sampled_clients:
            return None, None
        return super().aggregate_train(server_round, listed)


class DividedByReplies(Correct):
    def weights(self, replies: list[Any]) -> list[float]:
        return [1 / len(replies)] * len(replies)


class SignOfMean(Correct):
    def step(self, mean: np.ndarray) -> np.ndarray:
        return 0.1 * np.sign(mean)


class LossComesOut(Correct):
    def metrics(self, replies: list[Any]) -> Any:
        losses = [next(iter(reply.content.metric_records.values())).get("loss", 0.0) for reply in replies]
        return MetricRecord(loss=sum(losses) / len(losses))


class ReadTwice(Correct):
    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        if not sum(1 for _ in replies):
            raise ValueError("no replies")
        if not list(replies):
            raise ZeroDivisionError("division by zero")
        return super().aggregate_train(server_round, replies)


class HalfNoise(Correct):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return super().noise(shape) / 2


class NoNoise(Correct):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape)


class NoiseDividedTwice(Correct):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return super().noise(shape) / self.num_sampled_clients


class UniformNoise(Correct):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        deviation = self.noise_multiplier * self.clipping_norm / self.num_sampled_clients
        return self.generator.uniform(-(3**0.5) * deviation, 3**0.5 * deviation, shape)


class SameNoise(Correct):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.noise_multiplier * np.random.default_rng(3).normal(0, 1 / self.num_sampled_clients, shape)


class GlobalNoise(Correct):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.random.normal(0, self.noise_multiplier * self.clipping_norm / self.num_sampled_clients, shape)  # noqa: NPY002


class Adaptive(Correct):
    """An adaptive clip norm with updates and a count that together cost the claimed multiplier."""

    def __init__(self, noise_multiplier: float = 1.0, num_sampled_clients: int = 100) -> None:
        self.clipped_count_stddev = num_sampled_clients / 20
        effective = (noise_multiplier**-2 - self.clipped_count_stddev**-2) ** -0.5
        super().__init__(effective, 0.1, num_sampled_clients)

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        listed = list(replies)
        within = sum(self._norm(self.update(reply)) <= self.clipping_norm for reply in listed)
        result = super().aggregate_train(server_round, listed)
        share = (within + self.generator.normal(0, self.clipped_count_stddev)) / self.num_sampled_clients
        self.clipping_norm *= math.exp(self.sign * 0.2 * (share - 0.5))
        return result

    sign = -1

    @staticmethod
    def _norm(update: dict[str, np.ndarray]) -> float:
        return math.sqrt(sum(float((value**2).sum()) for value in update.values()))


class WrongDirection(Adaptive):
    sign = 1


class NoiseAfterUpdate(Adaptive):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return super().noise(shape) * math.exp(-0.1)


class CheapCount(Adaptive):
    def __init__(self, noise_multiplier: float = 1.0, num_sampled_clients: int = 100) -> None:
        super().__init__(noise_multiplier, num_sampled_clients)
        self.noise_multiplier = (noise_multiplier**-2 - (2 * self.clipped_count_stddev) ** -2) ** -0.5


class BareCount(Adaptive):
    """The count of clipped updates gets no noise, and the updates' noise is what both should have cost."""

    def __init__(self, noise_multiplier: float = 1.0, num_sampled_clients: int = 100) -> None:
        super().__init__(noise_multiplier, num_sampled_clients)
        self.clipped_count_stddev = 0.0


class NoiseOfFirstNorm(Adaptive):
    """The noise fits the clip norm of the first round, whatever becomes of it."""

    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return super().noise(shape) * 0.1 / self.clipping_norm


class TwiceTheNorm(Adaptive):
    """From the third round on updates are clipped to twice the norm that the noise fits."""

    def clipped(self, update: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        norm, self.clipping_norm = self.clipping_norm, self.clipping_norm * (2 if self.round > 2 else 1)
        near, self.clipping_norm = super().clipped(update), norm
        return near

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        self.round = server_round
        return super().aggregate_train(server_round, replies)


class NormFollowsOutlier(Adaptive):
    """The clip norm doubles when one update is very long."""

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        listed = list(replies)
        result = super().aggregate_train(server_round, listed)
        self.clipping_norm *= 1 + any(self._norm(self.update(reply)) > 1e20 for reply in listed)
        return result


class AdaptiveMomentum(Adaptive):
    """Right: the server's momentum is over noisy means."""

    def __init__(self) -> None:
        super().__init__()
        self.velocity: dict[str, np.ndarray] = {}

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        arrays, metrics = super().aggregate_train(server_round, replies)
        for name in self.floating():
            step = arrays[name].numpy() - self.current[name]
            self.velocity[name] = 0.5 * self.velocity.get(name, 0.0) + step
        return self.record(self.current | {name: self.current[name] + value for name, value in self.velocity.items()}), metrics


class ClippedByClients(Correct):
    def clipped(self, update: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return update if all(np.isfinite(value).all() for value in update.values()) else super().clipped(update)


def clipping_mod(message: Any, context: Any, call_next: Any) -> Any:
    """A client's mod that clips to 1 what leaves it."""
    sent = {name: array.numpy() for name, array in next(iter(message.content.array_records.values())).items()}
    reply = call_next(message, context)
    record = next(iter(reply.content.array_records.values()))
    server = Correct()
    server.current = sent
    near = server.clipped(server.update(reply))
    for name, value in near.items():
        record[name] = Array((sent[name] + value).astype(sent[name].dtype))
    return reply

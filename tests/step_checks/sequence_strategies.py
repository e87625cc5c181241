"""Strategies with defects that one round does not show, and correct ones with releases that look unusual."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.step_checks.flower_stand_in import Correct

Model = dict[str, np.ndarray]


class Rounds(Correct):
    """Keeps the round's number, its replies and what earlier rounds left."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.number, self.replies, self.kept, self.last = 0, 0, dict[Any, Any](), 0

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        listed = list(replies)
        self.number, self.replies, self.position = server_round, len(listed), 0
        self.longest = max(np.linalg.norm(self.update(reply)["weight"]) for reply in listed)
        result = super().aggregate_train(server_round, listed)
        self.last = server_round
        return result


class ShrinksWithReplies(Rounds):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return super().noise(shape) * self.replies / self.num_sampled_clients


class HalfIfOneIsMissing(Rounds):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return super().noise(shape) * (0.5 if self.replies < self.num_sampled_clients else 1)


class MomentumBeforeNoise(Rounds):
    def step(self, mean: np.ndarray) -> np.ndarray:
        self.kept[np.shape(mean)] = 0.9 * self.kept.get(np.shape(mean), 0) + mean
        return self.kept[np.shape(mean)]


class NoiseByRoundNumber(Rounds):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        self.position += 1
        return np.random.default_rng((self.number, self.position)).normal(0, 1 / self.num_sampled_clients, shape)


class NoNoiseBesideHugeUpdates(Rounds):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return super().noise(shape) * (self.longest < 1e4)


class ErrorFeedback(Rounds):
    """What the clip takes from the mean comes back in the next round."""

    def clipped(self, update: Model) -> Model:
        near = super().clipped(update)
        self.kept["sum"] = {name: self.kept.get("sum", {}).get(name, 0) + update[name] - near[name] for name in update}
        return near

    def step(self, mean: np.ndarray) -> np.ndarray:
        rest = next((v for v in self.kept.pop("old", {}).values() if np.shape(v) == np.shape(mean)), 0)
        return mean + np.clip(rest, -1, 1)

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        self.kept["old"] = self.kept.pop("sum", {})
        return super().aggregate_train(server_round, replies)


class OldUpdatesComeBack(Rounds):
    """A buffer of clipped updates is added again two rounds later."""

    def step(self, mean: np.ndarray) -> np.ndarray:
        self.kept[self.number, np.shape(mean)] = mean
        return mean + self.kept.get((self.number - 2, np.shape(mean)), 0)


class FadingNoise(Rounds):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return super().noise(shape) / self.number**0.25


class QuietEveryTenthRound(Rounds):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return super().noise(shape) * bool(self.number % 10)


class QuietAfterManyRounds(Rounds):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return super().noise(shape) * (self.number < 400)


class NoClipAfterManyRounds(Rounds):
    def clipped(self, update: Model) -> Model:
        return update if self.number > 300 else super().clipped(update)


class SameNoiseOnRetry(Rounds):
    """Noise is kept by round, so a round that is played again has the same."""

    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.kept.setdefault((self.number, shape), super().noise(shape))


class QuietRetry(Rounds):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return super().noise(shape) * (self.number != self.last)


class OverflowPasses(Rounds):
    def clipped(self, update: Model) -> Model:
        norm = np.sqrt(sum(np.square(value.astype(np.float32)).sum() for value in update.values()))
        return {name: value / 1e22 for name, value in update.items()} if np.isinf(norm) else super().clipped(update)


class NoiseOfTheMean(Rounds):
    """The more the clients agree, the less noise."""

    def step(self, mean: np.ndarray) -> np.ndarray:
        self.size = np.linalg.norm(mean)
        return mean

    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return super().noise(shape) / (1 + 20 * self.size * (len(shape) == 2))


class MoreNoiseOnOneLayer(Rounds):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return super().noise(shape) * (3 if len(shape) == 2 else 1)


class _NoisyStep(Rounds):
    """What the server does with the noisy mean is its own affair."""

    def step(self, mean: np.ndarray) -> np.ndarray:
        return self.after(mean + super().noise(np.shape(mean)))

    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape)

    def after(self, mean: np.ndarray) -> np.ndarray:
        return mean


class LearningRateOfTwo(_NoisyStep):
    def after(self, mean: np.ndarray) -> np.ndarray:
        return 2 * mean


class LearningRateOfHalf(_NoisyStep):
    def after(self, mean: np.ndarray) -> np.ndarray:
        return 0.5 * mean


class Momentum(_NoisyStep):
    def after(self, mean: np.ndarray) -> np.ndarray:
        self.kept[np.shape(mean)] = 0.9 * self.kept.get(np.shape(mean), 0) + mean
        return self.kept[np.shape(mean)]


class AveragedModels(_NoisyStep):
    """An exponential average of the noisy means."""

    def after(self, mean: np.ndarray) -> np.ndarray:
        self.kept[np.shape(mean)] = 0.7 * self.kept.get(np.shape(mean), 0) + 0.3 * mean
        return self.kept[np.shape(mean)]


class WeightDecay(Rounds):
    def record(self, model: Model) -> Any:
        return super().record({name: 0.99 * value for name, value in model.items()})


class RoundedModel(Rounds):
    def record(self, model: Model) -> Any:
        return super().record({name: np.round(value, 2) for name, value in model.items()})


class NoiseInTwoParts(Rounds):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return (super().noise(shape) + super().noise(shape)) / 2**0.5


class NoiseOfTheSystem(Rounds):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        random = np.random.default_rng(secrets.randbits(128))
        return random.normal(0, self.noise_multiplier * self.clipping_norm / self.num_sampled_clients, shape)


class QuietlyUndefined(Rounds):
    """Divides by its noise multiplier, so that it has no round without noise."""

    def step(self, mean: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return mean * (np.float64(self.noise_multiplier) / self.noise_multiplier)


class CatchesUp(Rounds):
    """Where more clients reply than in the round before, all count twice."""

    before = 10

    def weights(self, replies: list[Any]) -> list[float]:
        factor = 2 if self.replies > self.before else 1
        self.before = self.replies
        return [factor / self.num_sampled_clients] * len(replies)


class RateThatFalls(_NoisyStep):
    def after(self, mean: np.ndarray) -> np.ndarray:
        return mean / (1 + 0.1 * self.number)


class SlowCopy(_NoisyStep):
    """Every third round goes half of the way back to where the third round before it was."""

    def after(self, mean: np.ndarray) -> np.ndarray:
        since = self.kept.get(np.shape(mean), 0) + mean
        self.kept[np.shape(mean)] = 0 * since if self.number % 3 == 0 else since
        return mean - 0.5 * since if self.number % 3 == 0 else mean


WRONG = [
    CatchesUp,
    ShrinksWithReplies,
    HalfIfOneIsMissing,
    MomentumBeforeNoise,
    NoiseByRoundNumber,
    NoNoiseBesideHugeUpdates,
    ErrorFeedback,
    OldUpdatesComeBack,
    FadingNoise,
    QuietEveryTenthRound,
    QuietAfterManyRounds,
    NoClipAfterManyRounds,
    SameNoiseOnRetry,
    QuietRetry,
    OverflowPasses,
    NoiseOfTheMean,
]
RIGHT = [
    RateThatFalls,
    SlowCopy,
    MoreNoiseOnOneLayer,
    LearningRateOfTwo,
    LearningRateOfHalf,
    Momentum,
    AveragedModels,
    WeightDecay,
    RoundedModel,
    NoiseInTwoParts,
    NoiseOfTheSystem,
    QuietlyUndefined,
]


class NoiseFromCounter(Rounds):
    """Noise from a secret key and a counter, as keyed hardware gives it: copies of the strategy draw the same."""

    key, drawn = 99, 0

    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        self.drawn += 1
        random = np.random.default_rng((self.key, self.drawn))
        return random.normal(0, self.noise_multiplier * self.clipping_norm / self.num_sampled_clients, shape)


class NeverDefined(Rounds):
    def step(self, mean: np.ndarray) -> np.ndarray:
        return mean * np.nan


class TotalForNotFinite(Rounds):
    """An update that is not finite counts as the sum of those before it."""

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        self.kept["sum"] = {}
        return super().aggregate_train(server_round, replies)

    def clipped(self, update: Model) -> Model:
        is_finite = all(np.isfinite(value).all() for value in update.values())
        near = super().clipped(update) if is_finite or not self.kept["sum"] else dict(self.kept["sum"])
        self.kept["sum"] = {name: self.kept["sum"].get(name, 0) + near[name] for name in near}
        return near


class LastCountsThrice(Rounds):
    def weights(self, replies: list[Any]) -> list[float]:
        return [*super().weights(replies)[:-1], 3 / self.num_sampled_clients]


def _buckets(count: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    return random.integers(0, width, count), random.choice([-1.0, 1.0], count)


class CountSketch(_NoisyStep):
    """The noisy mean goes through a count sketch and back."""

    def after(self, mean: np.ndarray) -> np.ndarray:
        bucket, sign = _buckets(np.size(mean), max(1, np.size(mean) // 2))
        return (np.bincount(bucket, np.ravel(mean) * sign)[bucket] * sign).reshape(np.shape(mean))


class SignOfNoisyMean(_NoisyStep):
    def after(self, mean: np.ndarray) -> np.ndarray:
        return 0.01 * np.sign(mean)


class LargestTenth(_NoisyStep):
    def after(self, mean: np.ndarray) -> np.ndarray:
        return mean * (np.abs(mean) >= np.sort(np.abs(np.ravel(mean)))[-max(1, np.size(mean) // 10)])


class MediansOfRows(_NoisyStep):
    def after(self, mean: np.ndarray) -> np.ndarray:
        return mean if np.ndim(mean) < 2 else np.repeat(np.median(mean, 1, keepdims=True), mean.shape[1], 1)


class KalmanFilter(_NoisyStep):
    """Listens ever less to the noisy means."""

    def after(self, mean: np.ndarray) -> np.ndarray:
        state, variance = self.kept.get(np.shape(mean), (np.zeros(np.shape(mean)), 1.0))
        gain = (variance + 0.01) / (variance + 0.02)
        state = state + gain * (mean - state)
        self.kept[np.shape(mean)] = state, (1 - gain) * (variance + 0.01)
        return state


class UnitLength(_NoisyStep):
    def after(self, mean: np.ndarray) -> np.ndarray:
        return mean / max(float(np.linalg.norm(mean)), 1e-12)


class RateOfEachLayer(_NoisyStep):
    def after(self, mean: np.ndarray) -> np.ndarray:
        return mean * (3 if np.ndim(mean) == 2 else 0.3)


class SkipsOddRounds(_NoisyStep):
    def after(self, mean: np.ndarray) -> np.ndarray:
        return mean * (self.number % 2)


class MedianOfThreeRounds(_NoisyStep):
    def after(self, mean: np.ndarray) -> np.ndarray:
        self.kept[np.shape(mean)] = [*self.kept.get(np.shape(mean), [])[-2:], mean]
        return np.median(np.stack(self.kept[np.shape(mean)]), axis=0)


PROCESSED = [CountSketch, SignOfNoisyMean, LargestTenth, MediansOfRows, KalmanFilter, UnitLength, RateOfEachLayer]
PROCESSED += [SkipsOddRounds, MedianOfThreeRounds]


class SketchedNoise(Correct):
    """Noise in a sketch: entries of a bucket share theirs, so their differences come out bare."""

    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        width = max(1, int(np.prod(shape, dtype=int)) // 4)
        bucket, sign = _buckets(int(np.prod(shape, dtype=int)), width)
        return (super().noise((width,))[bucket] * sign).reshape(shape)


class SignQuarterNoise(_NoisyStep):
    def step(self, mean: np.ndarray) -> np.ndarray:
        return 0.01 * np.sign(mean + Correct.noise(self, np.shape(mean)) / 4)


class LayersScaledBeforeNoise(_NoisyStep):
    def step(self, mean: np.ndarray) -> np.ndarray:
        return mean * (3 if np.ndim(mean) == 2 else 1) + Correct.noise(self, np.shape(mean))


class NoiseOfTheSumsSign(Correct):
    def step(self, mean: np.ndarray) -> np.ndarray:
        self.mean = mean
        return mean

    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.abs(super().noise(shape)) * np.sign(self.mean + 1e-12)

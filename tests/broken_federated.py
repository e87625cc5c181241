"""Federated averaging as people get it wrong, as trainers that a config can name: `kind: tests.broken_federated:NoNoise`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from audit.core.training import Progress, TrainingJob
from audit.engine.federated.adaptive_clip import ClipNorms
from audit.engine.federated.federated import Federations
from audit.engine.federated.federated_clients import Workers
from audit.engine.federated.federated_plan import RecordNoise
from audit.engine.read.subject import Ensemble
from audit.trainers.federated import FederatedTrainer


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(FederatedTrainer):
    """The real trainer around federations with one defect; its log says that all is well if it does not `admit`."""

    federations: ClassVar[type[Federations]] = Federations

    admits: bool = False

    def fit(self, job: TrainingJob, progress: Progress) -> Ensemble:
        done = self.federations(job, self._plan(len(job.dataset.train))).run(progress)
        if self.admits:
            return Ensemble(job, done)
        honest = {"largest_norm": np.fmin(done.executed.largest_norm, 1.0)}  # what is no number as well
        if job.noisy is not None:
            honest["noise_multiplier"] = 0 * done.executed.noise_multiplier + job.noisy.noise_multiplier
        return Ensemble(job, replace(done, executed=replace(done.executed, **honest)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Correct(Broken):
    """No defect: the twin of all that follow."""


class _UnclippedScalar(Federations):
    """F1: the last coordinate of an update passes by the clip, as 0-dimensional parameters do."""

    def clipped(self, updates: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        clipped, finite = super().clipped(updates, weights)
        last = int(self.workers.columns[-1])
        clipped[:, last] = updates[:, last]
        return clipped, finite


@dataclass(frozen=True, slots=True, kw_only=True)
class UnclippedScalar(Broken):
    federations = _UnclippedScalar


class _NotFinitePasses(Federations):
    """F4: the clip norm over a norm of NaN is taken for a factor of 1, and the NaN itself is replaced afterwards."""

    def clipped(self, updates: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        clipped, finite = super().clipped(updates, weights)
        return torch.where(finite.unsqueeze(1), clipped, updates.nan_to_num(0.0, 0.0, 0.0)), torch.ones_like(finite)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFinitePasses(Broken):
    federations = _NotFinitePasses


class _NotFiniteAsMean(Federations):
    """An update that is not finite counts as the mean of those that are."""

    def clipped(self, updates: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        clipped, finite = super().clipped(updates, weights)
        clipped[~finite] = clipped.sum(0) / finite.sum().clamp(min=1)
        return clipped, finite


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFiniteAsMean(Broken):
    federations = _NotFiniteAsMean


class _WeightedByRecords(Federations):
    """F3: clients count by their records over the mean, without a cap; noise is scaled as if each counted once."""

    def client_weights(self, records: Tensor) -> Tensor:
        return records / float(self.sizes.mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedByRecords(Broken):
    federations = _WeightedByRecords


class _DividedByReplies(Federations):
    """F7: three quarters of the clients drop out, the mean is over the replies, and the noise is that of the plan."""

    def released(self, total: Tensor, noise: Tensor) -> Tensor:
        return total * 4 + noise


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedByReplies(Broken):
    federations = _DividedByReplies


class _NoNoise(Federations):
    def draw_noise(self, number: int) -> Tensor:
        return torch.zeros_like(super().draw_noise(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoNoise(Broken):
    federations = _NoNoise


class _SameNoise(Federations):
    """One draw serves all rounds: the generator is made anew from one seed in each."""

    def draw_noise(self, number: int) -> Tensor:
        if not hasattr(self, "_drawn"):
            self._drawn = super().draw_noise(number)
        return self._drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class SameNoise(Broken):
    federations = _SameNoise


class _DividedTwice(Federations):
    """The noise of the sum is added to the mean after it was divided by the number of clients, and divided again."""

    def draw_noise(self, number: int) -> Tensor:
        return super().draw_noise(number) / (self.rate * self.plan.clients)


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedTwice(Broken):
    federations = _DividedTwice


class _SharesAsWhole(Federations):
    """Each client adds its share of the sum's noise, and its update is claimed to carry the whole."""

    def update_noise(self) -> float:
        return super().update_noise() / math.sqrt(self.plan.clients)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesAsWhole(Broken):
    federations = _SharesAsWhole


class _ClientNoiseAsCentral(Federations):
    """Each client adds the noise that is meant for the mean to its own update; claimed is what the server would add."""

    def draw_noise(self, number: int) -> Tensor:
        replies = self.coins[:, number, : self.plan.clients].sum(1)
        share = torch.from_numpy(replies**0.5 / (self.rate * self.plan.clients)).to(self.served)
        return super().draw_noise(number) * share.unsqueeze(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientNoiseAsCentral(Broken):
    federations = _ClientNoiseAsCentral


class _QuietWorkers(Workers):
    """Clients that clip their records' gradients and forget the noise."""

    def step_noise(self, streams: Sequence[torch.Generator], private: RecordNoise) -> Tensor:
        return torch.zeros_like(super().step_noise(streams, private))


class _NoNoiseInside(Federations):
    crews = _QuietWorkers


@dataclass(frozen=True, slots=True, kw_only=True)
class NoNoiseInside(Broken):
    federations = _NoNoiseInside


class _QuietLastRound(Federations):
    """The last round's model is released without noise."""

    def draw_noise(self, number: int) -> Tensor:
        return super().draw_noise(number) * (number < self.rounds - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietLastRound(Broken):
    federations = _QuietLastRound


class _QuietTensor(Federations):
    """The first layer gets no noise."""

    def draw_noise(self, number: int) -> Tensor:
        noise = super().draw_noise(number)
        self.workers.layout.slots[0].view(noise).zero_()
        return noise


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietTensor(Broken):
    federations = _QuietTensor


class _QuietBias(Federations):
    """The last tensor, of a few coordinates, gets no noise."""

    def draw_noise(self, number: int) -> Tensor:
        noise = super().draw_noise(number)
        self.workers.layout.slots[-1].view(noise).zero_()
        return noise


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietBias(Broken):
    federations = _QuietBias


class _CoarseNoise(Federations):
    """Noise is rounded to a grid of four deviations, and has the right variance."""

    def draw_noise(self, number: int) -> Tensor:
        noise = super().draw_noise(number)
        deviation = self.private.noise_multiplier * self.scale if self.private else 1.0
        step = 4 * deviation
        uniform = torch.special.ndtr(noise / deviation)
        return torch.where(uniform < 1 / 32, -step, torch.where(uniform > 31 / 32, step, 0.0)) * (noise != 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoarseNoise(Broken):
    federations = _CoarseNoise


class _UniformNoise(Federations):
    """Noise is uniform, with the variance that it should have."""

    def draw_noise(self, number: int) -> Tensor:
        noise = super().draw_noise(number)
        deviation = self.private.noise_multiplier * self.scale if self.private else 1.0
        return (torch.special.ndtr(noise / deviation) - 0.5) * (12**0.5 * deviation) * (noise != 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformNoise(Broken):
    federations = _UniformNoise


class _TensorsClippedApart(Federations):
    """Each tensor of an update is clipped to the whole norm."""

    def clipped(self, updates: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        rows, finite = super().clipped(updates, weights)
        for slot in self.workers.layout.slots:
            part = slice(slot.start, slot.start + slot.size)
            rows[:, part] = super().clipped(updates[:, part], weights)[0]
        return rows, finite


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorsClippedApart(Broken):
    federations = _TensorsClippedApart


class _SharesMissing(Federations):
    """Three of ten shares of the noise are missing."""

    def draw_noise(self, number: int) -> Tensor:
        return super().draw_noise(number) * 0.7**0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesMissing(Broken):
    federations = _SharesMissing


class _NoiseInTheLog(Federations):
    """The server states a noisy sum, and moves the model by the sum without noise."""

    def move(self, release: Tensor, total: Tensor) -> None:
        super().move(total, total)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseInTheLog(Broken):
    federations = _NoiseInTheLog


class _OneNumberPerTensor(Federations):
    """All coordinates of a tensor get the same draw."""

    def draw_noise(self, number: int) -> Tensor:
        noise = super().draw_noise(number)
        for slot in self.workers.layout.slots:
            part = noise[:, slot.start : slot.start + slot.size]
            part.copy_(part[:, :1].clone())
        return noise


@dataclass(frozen=True, slots=True, kw_only=True)
class OneNumberPerTensor(Broken):
    federations = _OneNumberPerTensor


class _CancellingNoise(Federations):
    """Every other round takes the noise of the round before it out of the model again."""

    def draw_noise(self, number: int) -> Tensor:
        if number % 2:
            return -self._drawn
        self._drawn = super().draw_noise(number)
        return self._drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellingNoise(Broken):
    federations = _CancellingNoise


class _FadingNoise(Federations):
    """Noise is divided by the number of the round."""

    def draw_noise(self, number: int) -> Tensor:
        return super().draw_noise(number) / (number + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FadingNoise(Broken):
    federations = _FadingNoise


class _NarrowNoise(Federations):
    """Noise is drawn for a quarter of the directions and turned into the whole model."""

    def draw_noise(self, number: int) -> Tensor:
        noise = super().draw_noise(number)
        quarter = noise.shape[1] // 4
        noise[:, quarter:] = 0
        noise[:, :quarter] *= 2
        return noise


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowNoise(Broken):
    federations = _NarrowNoise


class _CutNoise(Federations):
    """Noise beyond one deviation is cut off, and the rest is scaled to the right variance."""

    def draw_noise(self, number: int) -> Tensor:
        noise = super().draw_noise(number)
        deviation = self.private.noise_multiplier * self.scale if self.private else 1.0
        return noise.clamp(-deviation, deviation) / 0.718


@dataclass(frozen=True, slots=True, kw_only=True)
class CutNoise(Broken):
    federations = _CutNoise


class _TwiceHeard(Federations):
    """An update that arrives again after a time-out is added again, in half of the rounds."""

    def released(self, total: Tensor, noise: Tensor) -> Tensor:
        self._heard = 1 - getattr(self, "_heard", 0)
        return total * (1 + 2 * self._heard) + noise


@dataclass(frozen=True, slots=True, kw_only=True)
class TwiceHeard(Broken):
    federations = _TwiceHeard


class _MomentumBeforeNoise(Federations):
    """The server's momentum gathers sums without noise; noise is added to the step alone."""

    def released(self, total: Tensor, noise: Tensor) -> Tensor:
        self._velocity = total + 0.9 * getattr(self, "_velocity", torch.zeros_like(total))
        return self._velocity + noise


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentumBeforeNoise(Broken):
    federations = _MomentumBeforeNoise


class _ClipByLargest(Federations):
    """The largest coordinate is clipped, not the norm."""

    def clipped(self, updates: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        limit = self.clip_norm or 1.0
        return updates.clamp(-limit, limit) * weights.unsqueeze(1), torch.ones(len(updates), dtype=torch.bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipByLargest(Broken):
    federations = _ClipByLargest


class _QuietCount(Federations):
    """The count behind an adaptive clip norm gets no noise."""

    def _clip_norms(self) -> ClipNorms | None:
        norms = super()._clip_norms()
        if norms is not None:
            norms.deviation = 0.0
        return norms


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietCount(Broken):
    federations = _QuietCount


class _NextClipNorm(Federations):
    """Noise is scaled by a later and smaller clip norm than updates are clipped to."""

    def draw_noise(self, number: int) -> Tensor:
        return super().draw_noise(number) * 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class NextClipNorm(Broken):
    federations = _NextClipNorm

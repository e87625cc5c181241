"""Federated averaging as people get it wrong, as trainers that a config can name: `kind: tests.broken_federated:NoNoise`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from audit.core.training import Progress, TrainingJob
from audit.engine.federated.federated import Federations
from audit.engine.federated.federated_clients import Workers
from audit.engine.federated.federated_plan import RecordNoise
from audit.engine.read.subject import Ensemble
from audit.trainers.federated import FederatedTrainer


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(FederatedTrainer):
    """The real trainer around federations with one defect; its log says that all is well unless it `admits` what was done."""

    federations: ClassVar[type[Federations]] = Federations

    admits: bool = False

    def fit(self, job: TrainingJob, progress: Progress) -> Ensemble:
        done = self.federations(job, self._plan(len(job.dataset.train))).run(progress)
        if self.admits:
            return Ensemble(job, done)
        honest = {"largest_norm": done.executed.largest_norm.clip(max=1.0)}
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
    def noise_of(self, number: int) -> Tensor:
        return torch.zeros_like(super().noise_of(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoNoise(Broken):
    federations = _NoNoise


class _SameNoise(Federations):
    """One draw serves all rounds: the generator is made anew from one seed in each."""

    def noise_of(self, number: int) -> Tensor:
        if not hasattr(self, "_drawn"):
            self._drawn = super().noise_of(number)
        return self._drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class SameNoise(Broken):
    federations = _SameNoise


class _DividedTwice(Federations):
    """The noise of the sum is added to the mean after it was divided by the number of clients, and divided again."""

    def noise_of(self, number: int) -> Tensor:
        return super().noise_of(number) / (self.rate * self.plan.clients)


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

    def noise_of(self, number: int) -> Tensor:
        replies = self.coins[:, number, : self.plan.clients].sum(1)
        share = torch.from_numpy(replies**0.5 / (self.rate * self.plan.clients)).to(self.served)
        return super().noise_of(number) * share.unsqueeze(1)


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

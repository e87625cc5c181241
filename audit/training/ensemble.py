"""Training N models of one architecture together, with and without differential privacy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from audit.core.errors import ConfigError
from audit.core.game import Access
from audit.core.mechanism import DpSgd
from audit.core.protocols import Progress, TrainingJob
from audit.core.records import Executed, TrainedModels
from audit.training.clipping import Gradients, Rows, gradients_of, stacked_state
from audit.training.device import find_device
from audit.training.models import initialised, refuse_mixing_layers, refuse_mixing_outputs
from audit.training.noise import NoiseStreams
from audit.training.optimizers import parse
from audit.training.planted import PlantedGradients
from audit.training.sampling import Block, EnsembleSampler, Law

_PROGRESS_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the arithmetic is arranged; no setting changes what is computed.

    Attributes:
        model_chunk: models trained together; None takes as many as fit the cache and the memory.
        dtype: of parameters, activations and noise.
        one_by_one: the path for modules that no ensemble layer covers, for any module.
    """

    model_chunk: int | None = None
    dtype: torch.dtype = torch.float32
    one_by_one: bool = False


def train(job: TrainingJob, progress: Progress, settings: Settings | None = None) -> TrainedModels:
    """The trained models of `job`, with a record of what was really done.

    Each step samples every record by its own coin (Poisson), clips each example's gradient over all parameters to
    the clip norm, adds Gaussian noise to the sum and divides by the expected batch size. Without a `DpSgd`
    mechanism there is no clipping and no noise. Models share nothing but kernel launches: the result of one
    depends on its seed alone.

    Args:
        job: what to train.
        progress: called with the model-steps done since its last call.
        settings: how to arrange the arithmetic.

    Raises:
        ConfigError: a device that is absent, a model or an optimiser that cannot be built.
        UnsupportedMechanism: a layer that mixes examples under DP-SGD.

    References:
        Abadi et al. 2016, arXiv 1607.00133; Bu et al. 2022, arXiv 2210.00038 (sums without per-example gradients).
    """
    chosen = settings or Settings()
    find_device(job.device)
    total = len(job.seeds)
    if job.included.shape != (total, len(job.canaries)):
        raise ConfigError(
            f"coins of shape {job.included.shape} for {total} models and {len(job.canaries)} canaries; "
            "expected one row a model and one column a canary"
        )
    chunk = chosen.model_chunk or total
    parts = [_Chunk(job, slice(start, start + chunk), chosen).run(progress) for start in range(0, total, chunk)]
    return joined(parts)


def training_tensors(job: TrainingJob, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """All that a model of `job` may sample, on `device`: the shared records, then the canaries that are records."""
    inputs, labels = job.dataset.train.inputs, job.dataset.train.labels
    if job.canaries.records is not None:
        inputs = np.concatenate([inputs, job.canaries.records.inputs])
        labels = np.concatenate([labels, job.canaries.records.labels])
    if job.dataset.classes:
        targets = torch.from_numpy(np.array(labels, dtype=np.int64))
    else:
        targets = torch.from_numpy(np.array(labels, dtype=np.float64)).to(dtype)
    return torch.from_numpy(np.array(inputs)).to(device, dtype), targets.to(device)


@dataclass(slots=True, kw_only=True, eq=False)
class _Measured:
    """What really happened, gathered while it happens."""

    batch_sizes: np.ndarray
    noise_squares: Tensor
    largest: Tensor
    skipped: Tensor


class _Chunk:
    """Some models of a job, trained from the first to the last step."""

    def __init__(self, job: TrainingJob, part: slice, settings: Settings) -> None:
        self.job = job
        self.device = find_device(job.device)
        self.settings = settings
        self.seeds = job.seeds[part]
        self.included = np.asarray(job.included[part], dtype=bool)
        self.private = job.mechanism if isinstance(job.mechanism, DpSgd) else None
        self.law = Law(population=len(job.dataset.train) + len(job.canaries), rate=job.mechanism.sample_rate)
        self.inputs, self.labels = training_tensors(job, settings.dtype, self.device)
        self.models = self._initial()
        self.optimizer = parse(job.optimizer).start()
        self.planted: PlantedGradients | None = None
        if job.canaries.are_gradients:
            scale = 1.0 if self.private is None else self.private.clip_norm
            self.planted = PlantedGradients(job.canaries, self.models.layout, self.models.flat, scale)
        self.noise: NoiseStreams | None = None
        if self.private is not None:
            noise_seeds = tuple(seed.child("noise") for seed in self.seeds)
            self.noise = NoiseStreams(self.models.layout, noise_seeds, self.models.flat)

    def _initial(self) -> Gradients:
        shape, classes = self.job.dataset.train.inputs.shape[1:], self.job.dataset.classes
        modules = [initialised(self.job.model, shape, classes, seed.child("init")) for seed in self.seeds]
        state = stacked_state(modules, self.settings.dtype, self.device)
        probe = self.inputs[:2]
        if self.private is not None:
            refuse_mixing_layers(modules[0])
            refuse_mixing_outputs(modules[0], probe.float().cpu())
        return gradients_of(modules[0], state, probe, force_loop=self.settings.one_by_one)

    def run(self, progress: Progress) -> TrainedModels:
        """All steps of all models of this chunk."""
        job, count, steps = self.job, len(self.seeds), self.job.mechanism.steps
        initial = None
        if job.access in (Access.FINAL_WEIGHTS, Access.ALL_STEPS):
            trainable = {slot.name for slot in self.models.layout.slots}
            initial = {name: value for name, value in _exported(self.models).items() if name in trainable}
        zeros = torch.zeros(count, dtype=torch.float64, device=self.device)
        measured = _Measured(
            batch_sizes=np.zeros((count, steps), dtype=np.int64),
            noise_squares=zeros.clone(),
            largest=zeros.clone(),
            skipped=torch.zeros(count, dtype=torch.int64, device=self.device),
        )
        products = None
        if self.planted is not None and job.access is Access.ALL_STEPS:
            products = torch.zeros(steps, count, self.planted.count, dtype=torch.float32)
        sampler = EnsembleSampler(
            self.law,
            tuple(seed.child("batches") for seed in self.seeds),
            self.included,
            as_gradients=self.planted is not None,
        )
        report = _Throttled(progress, count)
        block, within = sampler.block(), 0
        for step in range(steps):
            if within == self.law.block_steps:
                block, within = sampler.block(), 0
            seen = self._step(block, within, measured, step)
            if products is not None and seen is not None:
                products[step] = seen
            within += 1
            report.step()
        report.flush()
        return self._result(initial, products, measured)

    def _step(self, block: Block, within: int, measured: _Measured, step: int) -> Tensor | None:
        """One step of every model; the products of the gradient canaries where there are any."""
        clip_norm = None if self.private is None else self.private.clip_norm
        total = torch.zeros_like(self.models.flat)
        self._add_records(block, within, clip_norm, total, measured)
        counts = block.counts[within]
        ordinary = total
        if self.planted is not None and block.extra is not None:
            taken = torch.from_numpy(block.extra[within]).to(self.device)
            ordinary = total.clone()
            norms = self.planted.add_sum(taken, clip_norm, total)
            counts = counts + block.extra[within].sum(1)
            if clip_norm is not None:
                torch.maximum(measured.largest, norms.amax(1).double() / clip_norm, out=measured.largest)
        measured.batch_sizes[:, step] = counts
        noisy = self._noisy(total, measured)
        seen = None
        if self.planted is not None and self.job.access is Access.ALL_STEPS:
            seen = self.planted.products(noisy - ordinary)
        self.optimizer.step(self.models.flat, noisy / max(self.law.mean, 1e-300))
        return seen

    def _noisy(self, total: Tensor, measured: _Measured) -> Tensor:
        if self.private is None or self.noise is None:
            return total
        noisy = torch.add(total, self.noise.step(), alpha=self.private.noise_multiplier * self.private.clip_norm)
        added = torch.linalg.vector_norm(noisy - total, dim=1)
        measured.noise_squares += added.double().square()
        return noisy

    def _add_records(self, block: Block, within: int, clip_norm: float | None, total: Tensor, measured: _Measured) -> None:
        """Adds the (clipped) gradients of the sampled records, in as many passes as the largest batch needs."""
        width = self.law.rows
        largest = int(block.counts[within].max(initial=0))
        for start in range(0, largest, width):
            stop = min(start + width, block.index.shape[2])
            index = np.zeros((len(self.seeds), width), dtype=np.int64)
            index[:, : stop - start] = block.index[within, :, start:stop]
            mask = torch.from_numpy(np.arange(start, start + width) < block.counts[within][:, None]).to(self.device)
            chosen = torch.from_numpy(index.reshape(-1)).to(self.device)
            rows = Rows(inputs=self.inputs.index_select(0, chosen), labels=self.labels.index_select(0, chosen), mask=mask)
            clipped = self.models.add_sum(rows, clip_norm, total)
            if clipped is not None and clip_norm is not None:
                left = torch.where(clipped.factors > 0, clipped.norms * clipped.factors, 0.0).amax(1).double() / clip_norm
                torch.maximum(measured.largest, left, out=measured.largest)
                measured.skipped += (mask & ~clipped.norms.isfinite()).sum(1)

    def _result(self, initial: Mapping[str, Any] | None, products: Tensor | None, measured: _Measured) -> TrainedModels:
        draws = self.models.layout.parameters * self.job.mechanism.steps if self.private is not None else 0
        multiplier = np.zeros(len(self.seeds))
        if self.private is not None and draws:
            multiplier = np.sqrt(measured.noise_squares.cpu().numpy() / draws) / self.private.clip_norm
        executed = Executed(
            steps=self.job.mechanism.steps,
            batch_sizes=measured.batch_sizes,
            population=len(self.job.dataset.train) + self.included.sum(axis=1),
            noise_multiplier=multiplier,
            noise_draws=draws,
            largest_norm=measured.largest.cpu().numpy(),
            skipped=measured.skipped.cpu().numpy(),
        )
        return TrainedModels(
            weights=_exported(self.models),
            executed=executed,
            initial=initial,
            products=None if products is None else products.permute(1, 2, 0).contiguous().numpy(),
            extra={"diverged": (~self.models.flat.isfinite().all(dim=1)).cpu().numpy()},
        )


class _Throttled:
    """Passes progress on at most ten times a second."""

    def __init__(self, progress: Progress, models: int) -> None:
        self._progress, self._models = progress, models
        self._waiting, self._last = 0, time.monotonic()

    def step(self) -> None:
        self._waiting += self._models
        if time.monotonic() - self._last > _PROGRESS_SECONDS:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._progress(self._waiting)
        self._waiting, self._last = 0, time.monotonic()


def _exported(models: Gradients) -> dict[str, Any]:
    return {name: value.detach().cpu().numpy().copy() for name, value in models.state().items()}


def joined(parts: Sequence[TrainedModels]) -> TrainedModels:
    """The models of several trainings of one kind as one value, in order."""
    if len(parts) == 1:
        return parts[0]

    def merged(pick: Callable[[TrainedModels], Mapping[str, Any]]) -> dict[str, Any]:
        return {name: np.concatenate([pick(part)[name] for part in parts]) for name in pick(parts[0])}

    done = [part.executed for part in parts]
    executed = Executed(
        steps=done[0].steps,
        batch_sizes=np.concatenate([one.batch_sizes for one in done]),
        population=np.concatenate([one.population for one in done]),
        noise_multiplier=np.concatenate([one.noise_multiplier for one in done]),
        noise_draws=done[0].noise_draws,
        largest_norm=np.concatenate([one.largest_norm for one in done]),
        skipped=np.concatenate([one.skipped for one in done]),
    )
    first = parts[0]
    return TrainedModels(
        weights=merged(lambda part: part.weights),
        executed=executed,
        initial=None if first.initial is None else merged(lambda part: part.initial or {}),
        products=None
        if first.products is None
        else np.concatenate([part.products for part in parts if part.products is not None]),
        extra=merged(lambda part: part.extra),
    )

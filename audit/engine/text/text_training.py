"""Training of language models: Poisson batches of records, micro-batches, clipping before summing, noise on the sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from audit.core.data import Array
from audit.core.record_arrays import Concatenation
from audit.core.seeds import Seed
from audit.core.training import Executed, Progress, TrainingJob
from audit.engine.gradients.clipping import Clip
from audit.engine.optimizing import start_optimizer
from audit.engine.random.noise import make_noise
from audit.engine.random.sampling import EnsembleSampler, Law
from audit.engine.record_rows import RecordRows
from audit.engine.text.adapters import AdapterModels
from audit.engine.text.text_model import TESTED, TextModel

MOVED = 0.02  # standard deviation of what is added to parameters before gradients are tested again


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Texts:
    """All that a model of a job may sample: shared records, then canaries; `(n, T)` each, read in place on a CPU."""

    tokens: Tensor | RecordRows
    labels: Tensor | RecordRows

    @classmethod
    def of(cls, job: TrainingJob, device: torch.device) -> Texts:
        parts = [job.dataset.train] + ([] if job.canaries.records is None else [job.canaries.records])
        tokens, labels = (
            RecordRows(Concatenation([getattr(part, name) for part in parts]), torch.int64, device)
            for name in ("inputs", "labels")
        )
        return cls(tokens=tokens, labels=labels) if device.type == "cpu" else cls(tokens=tokens[:], labels=labels[:])

    def take(self, rows: Array) -> tuple[Tensor, Tensor]:
        index = torch.from_numpy(np.ascontiguousarray(rows)).to(self.tokens.device)
        return self.tokens[index], self.labels[index]


# models of one architecture; the rows of `flat` `(N, width)` are their trainable parameters
Learners = AdapterModels | TextModel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextTraining:
    """Some trainings, step by step beside each other."""

    job: TrainingJob  # what to execute
    models: tuple[int, ...]  # numbers of the models in the job
    texts: Texts  # of the job
    micro_batch: int  # records in one pass, of any of the models; every record's gradient is clipped before passes are summed

    @property
    def law(self) -> Law:
        """The law of a batch: over all canaries, whatever the coins, so that the rate is one of public numbers."""
        return Law(population=len(self.texts.tokens), rate=self.job.sample_rate)

    def run(self, learners: Learners, progress: Progress) -> Executed:
        """Train the models in place and return what was really done; raises as their self-test and `refuse_inert`."""
        job, steps, law = self.job, self.job.steps, self.law
        recomputed = self._test(learners)
        initial, digest = learners.flat.clone(), learners.text_model.frozen_digest()
        included, numbers = np.asarray(job.included[list(self.models)], dtype=bool), np.arange(len(self.models))
        seeds = tuple(job.seeds[model] for model in self.models)
        sampler = EnsembleSampler(law, tuple(seed.child("batches") for seed in seeds), included, as_gradients=False)
        step = _Step(learners, job, seeds)
        sizes, within = np.zeros((len(numbers), steps), dtype=np.int64), law.block_steps
        for number in range(steps):
            if within == law.block_steps:
                block, within = sampler.block(), 0
            counts = sizes[:, number] = block.counts[within]
            rows = np.concatenate([block.index[within, model, : counts[model]] for model in numbers])
            owners = np.repeat(numbers, counts)
            for start in range(0, len(rows), self.micro_batch):
                part = slice(start, start + self.micro_batch)
                step.add(*self.texts.take(rows[part]), torch.from_numpy(owners[part]).to(learners.flat.device))
            step.finish(law.mean)
            within += 1
            progress(len(numbers))
        if bool(learners.flat.isfinite().all()):
            learners.text_model.refuse_inert(learners.flat, initial, digest)
        return step.executed(sizes, len(job.dataset.train) + included.sum(1), recomputed)

    def _test(self, learners: Learners) -> float:
        """Return the difference that the self-test of per-record gradients finds; -1 if nothing is clipped.

        The test is repeated at moved parameters: an adapter's second matrix begins as 0, so that gradients of the first are 0.
        """
        if self.job.noisy is None:
            return -1.0
        records = self.texts.take(np.arange(min(TESTED, len(self.texts.tokens))))
        initial = learners.flat.clone()
        at_start = learners.test_gradients(*records)
        draws = Seed(0).child("moved parameters").numpy().standard_normal(learners.flat.shape[1])
        learners.flat.copy_(initial).add_(torch.from_numpy(draws).to(initial), alpha=MOVED)
        try:
            return max(at_start, learners.test_gradients(*records))
        finally:
            learners.flat.copy_(initial)


class _Step:
    """Sums, noise and updates of N models, with what is measured of each on the way."""

    def __init__(self, learners: Learners, job: TrainingJob, seeds: Sequence[Seed]) -> None:
        self._learners = learners
        self._private = job.noisy
        self._optimizer = start_optimizer(job, learners.layout)
        self._total = torch.zeros_like(learners.flat)
        self._clip = None if self._private is None else Clip(norm=self._private.clip_norm)
        self._noise = None
        if self._private is not None:
            noise_seeds = tuple(seed.child("noise") for seed in seeds)
            counters = learners.flat.device.type != "cpu"
            self._noise = make_noise(learners.layout, noise_seeds, learners.flat, counters=counters)
        # where the models are, and read at the end: no pass waits for a device's answer
        self._squares, self._largest = torch.zeros(2, len(seeds), dtype=torch.float64, device=learners.flat.device)
        self._skips, self._steps = torch.zeros(len(seeds), dtype=torch.int64, device=learners.flat.device), 0

    def add(self, tokens: Tensor, labels: Tensor, owner: Tensor) -> None:
        clipping = self._learners.add(tokens, labels, owner, self._clip, self._total)
        if clipping is not None and self._private is not None:
            self._largest.scatter_reduce_(0, owner, (clipping.left[0] / self._private.clip_norm).double(), "amax")
            self._skips.index_add_(0, owner, (~clipping.norms[0].isfinite()).long())

    def finish(self, expected: float) -> None:
        """Add noise to the sum, divide by the expected batch size and move the parameters."""
        noisy = self._total
        if self._private is not None and self._noise is not None:
            scale = self._private.noise_multiplier * self._private.clip_norm
            noisy = torch.add(self._total, self._noise.step(), alpha=scale)
            self._squares += (noisy - self._total).double().square().sum(1)
        # the realised batch size is no function of the noisy sum: dividing by it would release what is not accounted for
        self._optimizer.step(self._learners.flat, noisy / max(expected, 1e-300))
        self._total.zero_()
        self._steps += 1

    def executed(self, sizes: Array, population: Array, recomputed: float) -> Executed:
        draws = 0 if self._private is None else self._learners.layout.parameters * self._steps
        noise = np.zeros(len(sizes))
        if self._private is not None and draws:
            noise = np.sqrt(self._squares.cpu().numpy() / draws) / self._private.clip_norm
        return Executed(
            steps=self._steps,
            batch_sizes=sizes,
            population=population,
            noise_multiplier=noise,
            noise_draws=draws,
            largest_norm=self._largest.cpu().numpy(),
            skipped=self._skips.cpu().numpy(),
            recomputed=np.full(len(sizes), recomputed),
        )

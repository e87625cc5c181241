"""Training of one language model: Poisson batches of records, micro-batches, clipping before summing, noise on the sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from audit.core.data import Array
from audit.core.seeds import Seed
from audit.core.training import Executed, Progress, TrainingJob
from audit.engine.clipping import Clip
from audit.engine.noise import NoiseStreams
from audit.engine.optimizing import optimizer_of
from audit.engine.sampling import EnsembleSampler, Law
from audit.engine.text_model import TESTED, TextModel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Texts:
    """All that a model of a job may sample: shared records, then canaries; `(n, T)` each."""

    tokens: Tensor
    labels: Tensor

    @classmethod
    def of(cls, job: TrainingJob, device: torch.device) -> Texts:
        """Return the records of a job on a device."""
        parts = [job.dataset.train] + ([] if job.canaries.records is None else [job.canaries.records])
        tokens, labels = (np.concatenate([getattr(part, name) for part in parts]) for name in ("inputs", "labels"))
        return cls(tokens=_whole(tokens, device), labels=_whole(labels, device))

    def take(self, rows: Array) -> tuple[Tensor, Tensor]:
        """Return tokens and labels of some records."""
        index = torch.from_numpy(np.ascontiguousarray(rows)).to(self.tokens.device)
        return self.tokens[index], self.labels[index]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextTraining:
    """One training.

    Attributes:
        job: what to execute.
        model: number of the model in the job.
        texts: of the job.
        micro_batch: records in one pass; every record's gradient is clipped before passes are summed.
    """

    job: TrainingJob
    model: int
    texts: Texts
    micro_batch: int

    @property
    def law(self) -> Law:
        """The law of a batch: over all canaries, whatever the coins, so that the rate is one of public numbers."""
        return Law(population=len(self.texts.tokens), rate=self.job.sample_rate)

    def run(self, text_model: TextModel, progress: Progress) -> Executed:
        """Train the model in place and return what was really done.

        Raises:
            UnsupportedMechanism: the self-test of per-record gradients fails.
            ExecutionMismatch: nothing moved, or frozen parameters did.
        """
        job, steps, law = self.job, self.job.steps, self.law
        recomputed = self._test(text_model)
        initial, digest = text_model.flat[0].clone(), text_model.frozen_digest()
        included = np.asarray(job.included[self.model : self.model + 1], dtype=bool)
        seeds = (job.seeds[self.model].child("batches"),)
        sampler = EnsembleSampler(law, seeds, included, as_gradients=False)
        step = _Step(text_model, job, job.seeds[self.model])
        sizes, within = np.zeros((1, steps), dtype=np.int64), law.block_steps
        for number in range(steps):
            if within == law.block_steps:
                block, within = sampler.block(), 0
            rows = block.index[within, 0, : block.counts[within, 0]]
            sizes[0, number] = len(rows)
            for start in range(0, len(rows), self.micro_batch):
                step.add(*self.texts.take(rows[start : start + self.micro_batch]))
            step.finish(law.mean)
            within += 1
            progress(1)
        if bool(text_model.flat.isfinite().all()):
            text_model.refuse_inert(initial, digest)
        return step.executed(sizes, len(job.dataset.train) + int(included.sum()), recomputed)

    def _test(self, text_model: TextModel) -> float:
        """Return the difference that the self-test of per-record gradients finds; -1 where nothing is clipped."""
        if self.job.noisy is None:
            return -1.0
        return text_model.test_gradients(*self.texts.take(np.arange(min(TESTED, len(self.texts.tokens)))))


class _Step:
    """Sums, noise and updates of one model, with what is measured on the way."""

    def __init__(self, text_model: TextModel, job: TrainingJob, seed: Seed) -> None:
        self._model, self._job = text_model, job
        self._private = job.noisy
        self._optimizer = optimizer_of(job).start(job.steps)
        self._total = torch.zeros_like(text_model.flat)
        self._clip = None if self._private is None else Clip(norm=self._private.clip_norm)
        self._noise = None
        if self._private is not None:
            self._noise = NoiseStreams(text_model.layout, (seed.child("noise"),), text_model.flat)
        self._squares, self._largest, self._skips, self._steps = 0.0, 0.0, 0, 0

    def add(self, tokens: Tensor, labels: Tensor) -> None:
        """Add the (clipped) gradients of some records to the step's sum."""
        if self._clip is None or self._private is None:
            self._model.add_plain(tokens, labels, self._total)
            return
        clipping = self._model.add_clipped(tokens, labels, self._clip, self._total)
        self._largest = max(self._largest, float(clipping.left.max()) / self._private.clip_norm)
        self._skips += int((~clipping.norms.isfinite()).sum())

    def finish(self, expected: float) -> None:
        """Add noise to the sum, divide by the expected batch size and move the parameters."""
        noisy = self._total
        if self._private is not None and self._noise is not None:
            scale = self._private.noise_multiplier * self._private.clip_norm
            noisy = torch.add(self._total, self._noise.step(), alpha=scale)
            self._squares += float((noisy - self._total).double().square().sum())
        # the realised batch size is no function of the noisy sum: dividing by it would release what is not accounted for
        self._optimizer.step(self._model.flat, noisy / max(expected, 1e-300))
        self._total.zero_()
        self._steps += 1

    def executed(self, sizes: Array, population: int, recomputed: float) -> Executed:
        """Return the measurements."""
        draws = 0 if self._private is None else self._model.layout.parameters * self._steps
        noise = 0.0 if self._private is None or not draws else (self._squares / draws) ** 0.5 / self._private.clip_norm
        return Executed(
            steps=self._steps,
            batch_sizes=sizes,
            population=np.array([population]),
            noise_multiplier=np.array([noise]),
            noise_draws=draws,
            largest_norm=np.array([self._largest]),
            skipped=np.array([self._skips]),
            recomputed=np.array([recomputed]),
        )


def _whole(values: Array, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64)).to(device)

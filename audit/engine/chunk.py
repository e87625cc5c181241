"""One chunk of models on its way through all steps."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from audit import plugins
from audit.core.seeds import Seed
from audit.core.training import Executed, Progress, TrainedModels, TrainingJob, text_rows
from audit.engine.compiled.compiled_gradients import CompiledGradients, compiled_gradients
from audit.engine.compiled.compiled_noise import compiled_noise
from audit.engine.compiled.graphed_sums import GraphedSums, refuse_capture
from audit.engine.dp_options import Augmentation, AveragedWeights, Technique
from audit.engine.federated.gradient_canaries import PlantedGradients
from audit.engine.gradients.adaptive_clipping import AdaptiveNorms, refuse_planted_gradients, together
from audit.engine.gradients.clipping import Clip, Clipping, Gradients, Rows, stacked_state
from audit.engine.gradients.dispatch import model_gradients
from audit.engine.gradients.dropout_draws import can_repeat
from audit.engine.gradients.ghost_clipping import TapeGradients, full_precision
from audit.engine.gradients.step_noise import StepNoise
from audit.engine.losses import find_loss
from audit.engine.measurements import Measurements, ThrottledProgress, export
from audit.engine.microbatches import Passes
from audit.engine.optimizing import start_optimizer
from audit.engine.random.counter_batches import CounterSampler, DeviceBlock
from audit.engine.random.counter_streams import CounterStreams
from audit.engine.random.cyclic_batches import BatchDigests, CyclicSampler
from audit.engine.random.noise import NoiseSource, Place, make_noise
from audit.engine.random.sampling import Block, EnsembleSampler, Law
from audit.engine.schedule import Arrangement
from audit.engine.trial.clip_check import Recomputation
from audit.engine.trial.frozen_features import TrainingData
from audit.engine.trial.model_source import OtherModelError


class BrokenSumError(Exception):
    """A sum with a row that should have been taken out: its norm is infinite or no number."""


class Chunk:
    """Some models of a job, trained from the first to the last step."""

    def __init__(
        self,
        job: TrainingJob,
        part: slice,
        data: TrainingData,
        arrangement: Arrangement,
        technique: Technique,
    ) -> None:
        self.job = job
        self.inputs, self.labels, self.records = data.inputs, data.labels, data.records
        self.device = self.labels.device
        self.loss = find_loss(job.loss)
        self.passes = Passes(arrangement.rows, arrangement.planned, self.device)
        self.part, self.seeds, self.apart = part, job.seeds[part], arrangement.source.apart
        self.included = np.asarray(job.included[part], dtype=bool)
        self.private = job.noisy
        self.law = Law(population=len(job.dataset.train) + len(job.canaries), rate=job.sample_rate)
        self.recomputation: Recomputation | None = None
        self.models = self._initial(arrangement)
        self.total = torch.zeros_like(self.models.flat)  # one step's sum
        self.optimizer = start_optimizer(job, self.models.layout)
        self.copies = technique.copies
        self.counters = arrangement.counters
        augmentation_device = self.device if self.counters else None
        self.augmentation = Augmentation(technique, self.seeds, self.inputs.shape[1:], augmentation_device)
        self.dropout: CounterStreams | None = None
        if self.counters and self.models.random and isinstance(self.models, TapeGradients):
            self.dropout = CounterStreams([seed.child("dropout") for seed in self.seeds], self.device)
        self.average = AveragedWeights(technique.averaging, self.models.flat) if technique.averaging else None
        self.spoiled_sum: Tensor | None = None
        if isinstance(self.models, TapeGradients) and not arrangement.takes_out:
            self.models.takes_out, self.spoiled_sum = False, torch.zeros((), dtype=torch.bool, device=self.device)
        self.clip, self.adaptive = self._clipping(technique)
        self.graphs = self._graphs(technique, arrangement)
        self.canaries = self._planted_gradients()
        self.cycles = bool(technique.encoder)
        self.digests = BatchDigests(self.included, self.law.population, job.steps) if self.cycles else None
        self.noise: StepNoise | None = None
        if self.private is not None:
            source = self._noise_source(tuple(seed.child("noise") for seed in self.seeds))
            self.noise = StepNoise(source, self.private, self.adaptive, technique.encoder, self.models.flat)

    def _noise_source(self, seeds: tuple[Seed, ...]) -> NoiseSource:
        if isinstance(self.models, CompiledGradients) and not self.counters:
            return compiled_noise(self.models.layout, seeds, self.models.flat)
        return make_noise(self.models.layout, seeds, self.models.flat, counters=self.counters)

    def _initial(self, arrangement: Arrangement) -> Gradients:
        source = arrangement.source
        modules = [source.make(model) for model in range(*self.part.indices(len(self.job.seeds)))]
        if self.apart is None and (reason := source.compare(modules)) is not None:
            raise OtherModelError(reason)
        own = modules if self.apart else []
        state = stacked_state(modules, arrangement.dtype, self.device)
        architecture = arrangement.architecture
        models: Gradients | None = None if architecture is None else compiled_gradients(architecture, modules[0], state)
        if models is None:
            module, slow = modules[0], arrangement.sequential
            if self.records is not None and arrangement.split is not None:
                if arrangement.split.holds(state):
                    module = arrangement.split.head
                else:  # a factory that freezes other values in some models: each is trained on the records, as it is
                    self.inputs, self.records, slow = self.records, None, True
            products, draws = arrangement.products, arrangement.draws
            models = model_gradients(module, state, force_loop=slow, products=products, draws=draws, own=own)
        if can_repeat(models):
            self.recomputation = Recomputation(own or modules[:1], self.seeds, len(self.job.seeds), self.job.steps)
        return models

    def run(self, progress: Progress) -> TrainedModels:
        job, count, steps = self.job, len(self.seeds), self.job.steps
        initial = None
        if "weights" in job.access.released:
            trainable = {slot.name for slot in self.models.layout.slots}
            initial = {name: value for name, value in export(self.models.state()).items() if name in trainable}
        flat = self.models.flat
        measurements = Measurements.empty(flat, steps)
        products = None
        if self.canaries is not None and "steps" in job.access.released:
            products = torch.zeros(steps, count, self.canaries.count, dtype=torch.float32, device=self.device)
        sampler = self._sampler()
        report = ThrottledProgress(progress, count)
        checkpoints = []
        within = self.law.block_steps
        for step in range(steps):
            if within == self.law.block_steps:
                self._check_sums()
                block, within = sampler.block(), 0
                self.passes.load(block)
            with plugins.foreign_code(f"step {step + 1} of a training", whole=False):
                step_products = self._step(block, within, measurements, step)
            if products is not None and step_products is not None:
                products[step] = step_products
            if step + 1 in job.checkpoints:
                checkpoints.append(export(self.models.state()))
            within += 1
            report.step()
        self._check_sums()
        report.flush()
        return replace(self._result(initial, products, measurements), checkpoints=tuple(checkpoints))

    def _check_sums(self) -> None:
        """Raise `BrokenSumError` if a sum was spoiled; no gradient has moved weights since."""
        if self.spoiled_sum is not None and bool(self.spoiled_sum.cpu()):
            raise BrokenSumError

    def _sampler(self) -> EnsembleSampler | CyclicSampler | CounterSampler:
        seeds, as_gradients = tuple(seed.child("batches") for seed in self.seeds), self.canaries is not None
        if not self.cycles and self.counters:
            return CounterSampler(self.law, seeds, self.included, as_gradients=as_gradients, device=self.device)
        if not self.cycles:
            return EnsembleSampler(self.law, seeds, self.included, as_gradients=as_gradients)
        return CyclicSampler(self.law, seeds, self.included, cycle=round(1 / self.law.rate), as_gradients=as_gradients)

    def _step(self, block: Block | DeviceBlock, within: int, measurements: Measurements, step: int) -> Tensor | None:
        """One step of every model; the products of the gradient canaries if there are any."""
        clip_norm = None if self.private is None else self.private.clip_norm
        total = self.total.zero_()
        if self.adaptive is not None:
            self.clip = self.adaptive.clip
        self.augmentation.start_step(step)
        self._add_records((step, within), total, measurements)
        ordinary = total
        if self.canaries is not None and block.extra is not None:
            canary_mask = self.passes.extra_canaries(within)
            # an observer who knows all records but the canaries can take these away from what is released
            ordinary = total.clone()
            norms = self.canaries.add_sum(canary_mask, clip_norm, total)
            if clip_norm is not None:
                torch.maximum(measurements.largest, norms.amax(1) / clip_norm, out=measurements.largest)
        measurements.batch_sizes[:, step] = block.sizes(within)
        if self.digests is not None and isinstance(block, Block):
            self.digests.add(block, within, step)
        noisy = total if self.noise is None else self.noise.add(total, measurements.noise_norms[step])
        if self.spoiled_sum is not None:
            noisy.masked_fill_(self.spoiled_sum, 0.0)
        if self.adaptive is not None:
            self.adaptive.step()
        products = None
        if self.canaries is not None and "steps" in self.job.access.released:
            products = self.canaries.products(noisy - ordinary)
        # by the expected size: dividing by the drawn one would release it without noise
        self.optimizer.step(self.models.flat, noisy.div_(max(self.law.mean, 1e-300)))
        if self.average is not None:
            self.average.step(self.models.flat)
        return products

    def _begin(self, place: Place) -> None:
        """Starts the models' streams for what they draw in a pass: generators continue from one pass of a step to the next."""
        if self.dropout is not None and isinstance(self.models, TapeGradients):
            self.models.begin_counted(self.dropout, place)
        elif self.models.random and place.first == 0:
            self.models.begin([seed.child("dropout", place.step) for seed in self.seeds])

    def _add_records(self, at: tuple[int, int], total: Tensor, measurements: Measurements) -> None:
        """Adds the (clipped) gradients of the sampled records of a step, given by its number in the run and in the block."""
        first = 0
        for rows_at, mask in self.passes.iterate_step(at[1]):
            place = Place(step=at[0], first=first, rows=mask.shape[1])
            due = first == 0 and self.recomputation is not None and self.recomputation.due(at[0])
            first += place.rows
            self._begin(place)
            elsewhere = isinstance(self.models, CompiledGradients) or self.graphs is not None  # gathers its batch
            rows = None if elsewhere and not due else self._rows(rows_at, mask)
            if due and rows is not None and self.recomputation is not None:
                records = None if self.records is None else self.augmentation.views(self.records.index_select(0, rows_at))
                with full_precision(self.models):  # before the step; the models are left as they are
                    self.recomputation.compare(at[0], self.models, replace(rows, records=records), self.clip)
                self._begin(place)
            if isinstance(self.models, CompiledGradients):
                clipping = self._add_compiled(self.models, rows_at, mask, total)
            elif self.graphs is not None:
                clipping = self.graphs.run(self._add_rows, rows_at, mask)
            elif rows is not None:
                clipping = self.models.add_sum(rows, self.clip, total)
            if clipping is not None and self.clip is not None:
                torch.maximum(measurements.largest, (clipping.left / self.clip.norm).amax(1), out=measurements.largest)
                if self.adaptive is not None:
                    self.adaptive.see(clipping, mask)
                if not clipping.finite:
                    if self.spoiled_sum is not None:
                        self.spoiled_sum |= ~clipping.norms.isfinite().all()
                    measurements.non_finite_counts += (mask & ~clipping.norms.isfinite()).sum(1)

    def _add_rows(self, rows_at: Tensor, mask: Tensor) -> Clipping | None:
        """Adds the gradients of one pass to the step's sum, which stays in its place in memory."""
        return self.models.add_sum(self._rows(rows_at, mask), self.clip, self.total)

    def _clipping(self, technique: Technique) -> tuple[Clip | None, AdaptiveNorms | None]:
        """Return how gradients are clipped, and what moves the clip norm, if anything does."""
        if self.private is None:
            return None, None
        clip = Clip(norm=self.private.clip_norm, per_layer=technique.clipping == "per_layer")
        if technique.clipping != "adaptive":
            return clip, None
        refuse_planted_gradients(self.job)
        return clip, AdaptiveNorms(technique.quantile, self.private, self.law.mean, self.seeds, self.models.flat)

    def _planted_gradients(self) -> PlantedGradients | None:
        if not self.job.canaries.are_gradients:
            return None
        scale = 1.0 if self.private is None else self.private.clip_norm
        return PlantedGradients(self.job.canaries, self.models.layout, self.models.flat, scale)

    def _graphs(self, technique: Technique, arrangement: Arrangement) -> GraphedSums | None:
        """Return what captures passes, if they are to be captured and can be."""
        if arrangement.graphs is False:
            return None
        reasons = {
            "models are not trained together by torch": type(self.models) is not TapeGradients,
            "the forward pass draws": self.models.random,
            "views are drawn in each step": technique.augments,
            "clip norms move": self.adaptive is not None,
            "records are read where they lie": not isinstance(self.inputs, Tensor),
        }
        if arrangement.graphs is None and any(reasons.values()):
            return None
        refuse_capture(reasons)
        return GraphedSums(self.total, short=arrangement.products is not None)

    def _add_compiled(self, models: CompiledGradients, rows_at: Tensor, mask: Tensor, total: Tensor) -> Clipping | None:
        """Adds what compiled code makes of the records in place, or of a copy of the batch if they are in another form."""
        if isinstance(self.inputs, Tensor):
            return models.add_rows((self.inputs, self.labels), rows_at, mask, (self.clip, total))
        batch = self.inputs.index_select(0, rows_at), self.labels.index_select(0, rows_at)
        return models.add_rows(batch, torch.arange(len(rows_at)), mask, (self.clip, total))

    def _rows(self, rows_at: Tensor, mask: Tensor) -> Rows:
        labels = self.labels.index_select(0, rows_at)
        return Rows(
            inputs=self.augmentation.views(self.inputs.index_select(0, rows_at)),
            labels=labels.repeat_interleave(self.copies, dim=0) if self.copies > 1 else labels,
            mask=mask,
            copies=self.copies,
            loss=self.loss,
        )

    def _result(self, initial: Mapping[str, Any] | None, products: Tensor | None, measurements: Measurements) -> TrainedModels:
        draws = self.models.layout.parameters * self.job.steps if self.private is not None else 0
        multiplier = np.zeros(len(self.seeds))
        if self.private is not None and draws:
            # as measured from the noise itself, not as the job asks: a generator that fails shows here
            squares = measurements.noise_norms.double().square().sum(0)
            multiplier = np.sqrt(squares.cpu().numpy() / draws) / self.private.clip_norm
            if self.adaptive is not None:
                multiplier = np.array([together(noise, self.adaptive.count_noise) for noise in multiplier])
        execution = Executed(
            steps=self.job.steps,
            batch_sizes=measurements.batch_sizes,
            population=len(self.job.dataset.train) + self.included.sum(axis=1),
            noise_multiplier=multiplier,
            noise_draws=draws,
            largest_norm=measurements.largest.double().cpu().numpy(),
            skipped=measurements.non_finite_counts.cpu().numpy(),
            recomputed=np.full(len(self.seeds), -1.0) if self.recomputation is None else self.recomputation.errors,
            count_noise=np.empty(0) if self.adaptive is None else self.adaptive.realised_count_noise(),
            batch_digests=np.empty(0, dtype=np.uint64) if self.digests is None else self.digests.batches,
            population_digest=np.empty(0, dtype=np.uint64) if self.digests is None else self.digests.population,
            features=np.full(len(self.seeds), self.records is not None),
            compiled=np.full(len(self.seeds), isinstance(self.models, CompiledGradients)),
            own_modules=text_rows(self.apart or "", len(self.seeds)),
        )
        if self.average is not None:
            # the average is what is released; all above measures the path
            self.models.flat.copy_(self.average.average)
        extra = {"diverged": (~self.models.flat.isfinite().all(dim=1)).cpu().numpy()}
        if self.adaptive is not None:
            extra["clip_norm"] = self.adaptive.norms[:, 0].double().cpu().numpy()
        return TrainedModels(
            weights=export(self.models.state()),
            executed=execution,
            initial=initial,
            products=None if products is None else products.permute(1, 2, 0).contiguous().cpu().numpy(),
            extra=extra,
        )

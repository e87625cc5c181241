"""DP-SGD by the Opacus library, one model after another: for auditing Opacus itself, and as a check on our engine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from audit import plugins
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_reading import NoisySteps
from audit.core.training import Executed, Progress, TrainedModels, TrainingJob, text_rows
from audit.engine.device import find_device
from audit.engine.ensemble import join
from audit.engine.federated.gradient_canaries import PlantedGradients
from audit.engine.losses import USUAL
from audit.engine.measurements import export
from audit.engine.optimizing import PlainOptimizer, build_optimizer
from audit.engine.parameter_layout import Layout
from audit.engine.random.sampling import EnsembleSampler, Law
from audit.engine.read.subject import Ensemble
from audit.engine.record_rows import training_tensors
from audit.engine.trial.model_source import ModelSource
from audit.models.build import refuse_mixing_layers, tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class OpacusTrainer:
    """Trains with Opacus' per-sample gradients, clipping, noise and scaling, on the same Poisson batches as `dpsgd`.

    Sampling is this project's; a gradient canary enters as one more row of Opacus' per-sample gradients.

    Attributes:
        per_sample: how Opacus obtains per-sample gradients, "hooks" or "functorch".
    """

    per_sample: str = "hooks"

    def __post_init__(self) -> None:
        if self.per_sample not in ("hooks", "functorch"):
            raise ConfigError(f"opacus.per_sample is '{self.per_sample}'; expected 'hooks' or 'functorch'")

    def fit(self, job: TrainingJob, progress: Progress) -> Ensemble:
        """The trained models of `job`; `ConfigError` if Opacus is not installed.

        `UnsupportedMechanism` if it is not DP-SGD, or a layer of the model mixes examples.
        """
        if job.noisy is None:
            raise UnsupportedMechanism(f"trainer 'opacus' does DP-SGD but the job demands {job.mechanism}; use trainer 'sgd'")
        try:
            from opacus import GradSampleModule
            from opacus.optimizers import DPOptimizer
        except ImportError as error:
            raise ConfigError(
                f"trainer 'opacus' needs the library ({error}); install epsilon-audit[opacus], or use trainer 'dpsgd'"
            ) from error

        def wrap(module: nn.Module) -> nn.Module:
            sample_module: nn.Module = GradSampleModule(
                module, loss_reduction="sum", force_functorch=self.per_sample == "functorch"
            )
            return sample_module

        parts, source = [], ModelSource.of(job)
        for model in range(len(job.seeds)):
            parts.append(_SingleModel(job, source, model, wrap, DPOptimizer).run())
            progress(job.steps)
        return Ensemble(job, join(parts))


class _SingleModel:
    """One model of a job in the hands of Opacus."""

    def __init__(
        self,
        job: TrainingJob,
        source: ModelSource,
        model: int,
        wrap: Callable[[nn.Module], nn.Module],
        optimizer: Callable[..., Any],
    ) -> None:
        mechanism: NoisySteps = job.noisy  # type: ignore[assignment]
        self.job, self.mechanism, self.seed = job, mechanism, job.seeds[model]
        self.included = np.asarray(job.included[model : model + 1], dtype=bool)
        self.device = find_device(job.device)
        self.inputs, self.labels = training_tensors(job, torch.float32, self.device)
        self.module = source.make(model)
        self.apart = source.compare([self.module])
        self.module.to(self.device)
        refuse_mixing_layers(self.module)
        self.layout = Layout.of(self.module)
        self.initial = self._export()
        self.law = Law(population=len(job.dataset.train) + len(job.canaries), rate=mechanism.sample_rate)
        self.wrapped_module = wrap(self.module)
        self.trained_parameters = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        self.optimizer = optimizer(
            _plain_optimizer(job, self.trained_parameters),
            noise_multiplier=mechanism.noise_multiplier,
            max_grad_norm=mechanism.clip_norm,
            expected_batch_size=self.law.mean,
            generator=torch.Generator(device=self.device).manual_seed(self.seed.child("noise").integer()),
        )
        flat = torch.zeros(1, self.layout.width, device=self.device)
        self.planted = (
            PlantedGradients(job.canaries, self.layout, flat, mechanism.clip_norm) if job.canaries.are_gradients else None
        )

    def run(self) -> TrainedModels:
        steps, job = self.mechanism.steps, self.job
        sizes = np.zeros((1, steps), dtype=np.int64)
        release_steps = self.planted is not None and "steps" in job.access.released
        products = np.zeros((1, len(job.canaries), steps), dtype=np.float32) if release_steps else None
        squares, largest, non_finite = 0.0, 0.0, 0
        sampler = EnsembleSampler(self.law, (self.seed.child("batches"),), self.included, as_gradients=self.planted is not None)
        for step in range(steps):
            within = step % self.law.block_steps
            if within == 0:
                block = sampler.block()
            batch = block.index[within, 0, : block.counts[within, 0]]
            canary_mask = np.zeros(len(job.canaries), dtype=bool) if block.extra is None else block.extra[within, 0]
            sizes[0, step] = len(batch) + int(canary_mask.sum())
            with plugins.foreign_code(f"step {step + 1} of a training", whole=False):
                norms = self._example_gradients(torch.from_numpy(batch).to(self.device), canary_mask)
            if len(norms):
                largest = max(largest, float((norms / self.mechanism.clip_norm).clamp(max=1.0).nan_to_num().amax()))
            non_finite += int((~norms.isfinite()).sum())
            noise = self._update()
            squares += float(noise.double().square().sum())
            if products is not None and self.planted is not None:
                residual = noise.clone()
                self.planted.add_sum(torch.from_numpy(canary_mask[None]).to(self.device), self.mechanism.clip_norm, residual)
                products[:, :, step] = self.planted.products(residual).cpu().numpy()
        draws = self.layout.parameters * steps
        execution = Executed(
            steps=steps,
            batch_sizes=sizes,
            population=len(job.dataset.train) + self.included.sum(axis=1),
            noise_multiplier=np.array([np.sqrt(squares / max(draws, 1)) / self.mechanism.clip_norm]),
            noise_draws=draws,
            largest_norm=np.array([largest]),
            skipped=np.array([non_finite]),
            own_modules=text_rows(self.apart or "", 1),
        )
        weights = self._export()
        trainable = {slot.name for slot in self.layout.slots}
        initial = {name: value for name, value in self.initial.items() if name in trainable}
        finite = all(np.isfinite(value).all() for value in weights.values())
        return TrainedModels(
            weights=weights,
            executed=execution,
            initial=initial if "weights" in job.access.released else None,
            products=products,
            extra={"diverged": np.array([not finite])},
        )

    def _example_gradients(self, batch: Tensor, canary_mask: np.ndarray) -> Tensor:
        """Leave per-sample gradients of the batch, then of the canaries in `canary_mask`, for Opacus; return their norms."""
        self.optimizer.zero_grad(set_to_none=True)
        if len(batch):
            USUAL.values(self.wrapped_module(self.inputs[batch]), self.labels[batch]).sum().backward()
        rows = torch.zeros(int(canary_mask.sum()), self.layout.width, device=self.device)
        if self.planted is not None:
            one_hot = torch.from_numpy(np.eye(len(canary_mask), dtype=bool)[canary_mask]).to(self.device)
            self.planted.add_sum(one_hot, self.mechanism.clip_norm, rows)
        squares = torch.zeros(len(batch) + len(rows), device=self.device)
        for parameter, slot in zip(self.trained_parameters, self.layout.slots, strict=True):
            own: Tensor | None = getattr(parameter, "grad_sample", None)
            gradients = parameter.new_zeros(len(batch), *slot.shape) if own is None else own
            parameter.grad_sample = torch.cat([gradients, slot.view(rows)]) if len(rows) else gradients  # type: ignore[attr-defined]
            squares += parameter.grad_sample.flatten(1).square().sum(1) if len(squares) else 0.0  # type: ignore[attr-defined]
        return squares.sqrt()

    def _update(self) -> Tensor:
        """One Opacus step; the noise that it added to the sum, `(1, width)`."""
        noise = torch.zeros(1, self.layout.width, device=self.device)

        def look(optimizer: Any) -> None:
            for parameter, slot in zip(self.trained_parameters, self.layout.slots, strict=True):
                slot.view(noise)[0] = parameter.grad * self.law.mean - parameter.summed_grad  # type: ignore[attr-defined,operator]

        self.optimizer.attach_step_hook(look)
        self.optimizer.step()
        return noise

    def _export(self) -> dict[str, np.ndarray]:
        return {name: value[None] for name, value in export(tensors(self.module)).items()}


def _plain_optimizer(job: TrainingJob, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    options = build_optimizer(job)
    if job.optimizer.get("schedule", "constant") != "constant" or job.optimizer.get("warmup", 0):
        raise ConfigError("trainer 'opacus' keeps the learning rate constant; drop optimizer.schedule and optimizer.warmup")
    if not isinstance(options, PlainOptimizer):
        raise ConfigError(f"trainer 'opacus' needs an optimizer with a method 'plain', which {type(options).__name__} lacks")
    return options.plain(parameters)


PLUGIN = OpacusTrainer

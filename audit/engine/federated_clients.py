"""The clients of federated trainings: who takes part, on which records, and the updates that they come to, many at once."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from audit.core import checks
from audit.core.data import Array, Dataset
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.seeds import Seed
from audit.data import clients
from audit.engine.clipping import Clip, Gradients, Rows
from audit.engine.compiled_clients import ClientSteps
from audit.engine.compiled_mlp import COMPILE
from audit.engine.dispatch import gradients_of
from audit.engine.layer_map import has_random_layers
from audit.engine.losses import USUAL
from audit.engine.parameter_layout import Layout
from audit.engine.per_model_loop import LoopGradients

SPLITS = ("uniform", "dirichlet", "column")
_CREW = 4  # sizes of crews are multiples of this
CACHE_CLIENTS = 16  # updates at once in what takes one pass over each after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordNoise:
    """DP-SGD on a client's own records: every local step is a noisy sum over a Poisson batch of clipped gradients.

    Attributes:
        rate: chance of each record to be in a step's batch.
        clip_norm: l2 bound on one record's gradient.
        noise_multiplier: noise standard deviation over that.
        batch: public number by which the noisy sum is divided.
    """

    rate: float
    clip_norm: float
    noise_multiplier: float
    batch: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTraining:
    """What a client does with its records in a round.

    Attributes:
        steps: gradient steps on the client's own loss.
        batch: records of a step, drawn afresh without replacement; None for all that the client has.
        learning_rate: of these steps.
        private: where these steps are DP-SGD; `batch` says nothing then.
        compile: "on", "auto" or "off": whether steps without noise are those of compiled code where the model is a chain.
    """

    steps: int = 5
    batch: int | None = None
    learning_rate: float = 0.1
    private: RecordNoise | None = None
    compile: str = "off"

    def __post_init__(self) -> None:
        if self.steps < 1 or (self.batch is not None and self.batch < 1) or not self.learning_rate > 0:
            raise ConfigError(
                f"local_steps {self.steps}, local_batch {self.batch}, local_learning_rate {self.learning_rate}; expected at "
                "least 1, at least 1 or null, and more than 0"
            )
        checks.choice(self.compile, "compile", COMPILE)


def split(dataset: Dataset, count: int, kind: str, concentration: float, seed: Seed) -> tuple[Array, ...]:
    """Return the rows of the train split that each client holds: the same for all federations of an audit.

    Raises:
        ConfigError: no split of that name.
        DataError: too few records.
    """
    generator = seed.child("clients").numpy()
    if kind == "uniform":
        return clients.uniform(len(dataset.train), count, generator)
    if kind == "dirichlet":
        return clients.dirichlet(dataset.train.labels, count, concentration, generator)
    if kind == "column":
        return clients.by_owner(dataset.owners, len(dataset.train), count)
    raise ConfigError(f"split is '{kind}'; expected one of {', '.join(SPLITS)}")


def batches(sizes: Array, local: LocalTraining, generator: np.random.Generator) -> tuple[Array, Array]:
    """Return positions among each client's records `(k, steps, rows)` and which of them are real, bool.

    Args:
        sizes: `(k,)` records of each client.
        local: steps and batch.
        generator: of the draws; unused where a step takes all records.
    """
    longest = int(sizes.max())
    real = np.arange(longest) < sizes[:, None]
    shape = (len(sizes), local.steps, longest)
    if local.private is not None:
        drawn = real[:, None] & (generator.random(shape) < local.private.rate)
        counts = drawn.sum(axis=2)
        width = max(1, int(counts.max()))
        return np.argsort(~drawn, axis=2, kind="stable")[:, :, :width], np.arange(width) < counts[:, :, None]
    if local.batch is None:
        return np.broadcast_to(np.arange(longest), shape), np.broadcast_to(real[:, None], shape)
    width = min(local.batch, longest)
    order = np.where(real[:, None], generator.random(shape), np.inf)
    columns = np.argsort(order, axis=2)[:, :, :width]
    return columns, np.broadcast_to((np.arange(width) < sizes[:, None])[:, None], columns.shape)


class Workers:
    """A fixed number of slots in which clients of any federation train, all at once.

    A federation's model is one row: the trainable parameters as the engine lays them out, then the buffers that training moves
    (statistics of BatchNorm). Both are what a client sends.

    Args:
        module: one model, in its modes of training.
        state: of all federations, name to `(N, ...)`.
        records: inputs and labels of the train split.
        slots: clients at once.
        local: what they do.

    Attributes:
        fast_steps: takes the local steps instead of torch, where it is given.
        inside: of the updates computed last, where their steps are DP-SGD: the sum of squares of each client's noise, over the
            accounted variance, and its largest clipped gradient, over the clip norm, `(k,)` each.

    Raises:
        UnsupportedMechanism: dropout, or an untrained tensor that differs between federations.
    """

    def __init__(
        self,
        module: nn.Module,
        state: Mapping[str, Tensor],
        records: tuple[Tensor, Tensor],
        slots: int,
        local: LocalTraining,
    ) -> None:
        self.inputs, self.labels = records
        self.local, self.slots = local, slots
        self.fast_steps: ClientSteps | None = None
        self.inside: tuple[Tensor, Tensor] | None = None
        copies = {name: value[:1].expand(slots, *value.shape[1:]).clone() for name, value in state.items()}
        self.moved = _moved_buffers(module, self.inputs[:2])
        if self.moved and local.private is not None:
            raise UnsupportedMechanism(
                f"DP-SGD inside clients covers parameters alone, and the model keeps statistics of its batches "
                f"({', '.join(self.moved)}); use a model without"
            )
        _refuse_unfit(module, state, self.moved)
        models = gradients_of(module, copies, self.inputs[:8], force_loop=bool(self.moved))
        self.crews: dict[int, Gradients] = {slots: models}
        self._smaller = functools.partial(gradients_of, module, force_loop=isinstance(models, LoopGradients))
        self.layout: Layout = models.layout
        self.buffers = {name: state[name].shape[1:] for name in self.moved}
        self.width = self.layout.width + sum(shape.numel() for shape in self.buffers.values())
        self.columns = torch.cat([self.layout.columns(), torch.arange(self.layout.width, self.width)]).to(self.inputs.device)

    def parts(self, count: int) -> Iterator[slice]:
        """Return which of so many clients train at once: parts of about one size, few enough for the slots and the cache."""
        size = self.slots if self.fast_steps is None else min(self.slots, CACHE_CLIENTS)
        step = -(-count // -(-count // size)) if count else size
        return (slice(start, start + step) for start in range(0, count, step))

    def crew(self, count: int) -> Gradients:
        """Return models for so many clients at once: the fewest slots of a few sizes, so that slots do not lie idle."""
        size = min(self.slots, -(-count // _CREW) * _CREW)
        if size not in self.crews:
            whole = self.crews[self.slots].state()
            self.crews[size] = self._smaller({name: value[:size].clone() for name, value in whole.items()})
        return self.crews[size]

    def row_of(self, state: Mapping[str, Tensor]) -> Tensor:
        """Return models `(N, width)` as rows."""
        count = next(iter(state.values())).shape[0]
        row = self.crews[self.slots].flat.new_zeros(count, self.width)
        for slot in self.layout.slots:
            slot.view(row).copy_(state[slot.name])
        for name, part in self._parts(row).items():
            part.copy_(state[name].reshape(count, -1))
        return row

    def named(self, row: Tensor) -> dict[str, Tensor]:
        """Return what the rows `(N, width)` hold, name to `(N, ...)`."""
        parameters = {slot.name: slot.view(row) for slot in self.layout.slots}
        return parameters | {name: part.reshape(len(row), *self.buffers[name]) for name, part in self._parts(row).items()}

    def _parts(self, row: Tensor) -> dict[str, Tensor]:
        parts, start = {}, self.layout.width
        for name, shape in self.buffers.items():
            parts[name] = row[:, start : start + shape.numel()]
            start += shape.numel()
        return parts

    def updates(self, start: Tensor, rows: Tensor, real: Tensor, streams: Sequence[torch.Generator] = ()) -> Tensor:
        """Return how far each client's model moved, as a gradient: first minus last, `(k, width)`, for `k` up to `slots`.

        Args:
            start: `(k, width)` models that the clients were sent.
            rows: `(k, steps, rows)` records of each local step.
            real: which of those are not padding.
            streams: of each client's own noise, where its steps are DP-SGD.
        """
        if self.fast_steps is not None:
            last = start.clone()
            self.fast_steps.descend(last, rows, real, self.local.learning_rate)
            return torch.sub(start, last, out=last)
        count = len(start)
        models = self.crew(count)
        missing = len(models.flat) - count
        if missing:
            rows, real = (torch.cat([part, part.new_zeros(missing, *part.shape[1:])]) for part in (rows, real))
        if self.local.private is not None:
            self.inside = torch.zeros(count, dtype=torch.float64, device=start.device), start.new_zeros(count)
        buffers = models_state(models, self.moved)
        models.flat[:count] = start[:, : self.layout.width]
        for name, part in self._parts(start).items():
            buffers[name][:count] = part.reshape(count, *self.buffers[name])
        for step in range(self.local.steps):
            indices = rows[:, step].flatten()
            batch = Rows(
                inputs=self.inputs.index_select(0, indices), labels=self.labels.index_select(0, indices), mask=real[:, step]
            )
            if self.local.private is None:
                # a step in one pass over memory: rows weighed by the rate over their number add up to what parameters lose
                share = -self.local.learning_rate / batch.mask.sum(1, keepdim=True).clamp(min=1)
                models.add_sum(replace(batch, mask=batch.mask * share), None, models.flat)
            else:
                models.flat.sub_(self._private_gradient(models, batch, streams), alpha=self.local.learning_rate)
        parts = [models.flat[:count], *(buffers[name][:count].reshape(count, -1) for name in self.moved)]
        return start - (torch.cat(parts, dim=1) if self.moved else parts[0])

    def _private_gradient(self, models: Gradients, batch: Rows, streams: Sequence[torch.Generator]) -> Tensor:
        """Return the noisy mean of clipped gradients of each client that DP-SGD takes a step along."""
        private = self.local.private
        gradient = torch.zeros_like(models.flat)
        if private is not None and self.inside is not None:
            clipping = models.add_sum(batch, Clip(norm=private.clip_norm), gradient)
            noise = self.noise_of_step(streams, private).to(gradient.device)
            gradient[: len(noise)].add_(noise)
            gradient.div_(private.batch)
            squares, largest = self.inside
            deviation = max(private.noise_multiplier * private.clip_norm, 1e-300)
            squares += (noise.double() / deviation).square().sum(1)
            if clipping is not None:
                torch.maximum(largest, clipping.left[: len(noise)].amax(1) / private.clip_norm, out=largest)
        return gradient

    def noise_of_step(self, streams: Sequence[torch.Generator], private: RecordNoise) -> Tensor:
        """Return each client's noise in a step on all parameters `(k, width)`, on the host."""
        columns = self.layout.columns()
        noise = torch.zeros(len(streams), self.layout.width)
        for slot, stream in enumerate(streams):
            noise[slot, columns] = torch.randn(len(columns), generator=stream) * (private.noise_multiplier * private.clip_norm)
        return noise

    def gradients(self, start: Tensor, records: Tensor) -> Tensor:
        """Return the gradient of one record's loss at each model, as wide as an update `(k, width)`, for `k` up to `slots`.

        Args:
            start: `(k, width)` models.
            records: `(k,)` rows of the records.
        """
        count = len(start)
        models = self.crew(count)
        models.flat[:count] = start[:, : self.layout.width]
        gradient = torch.zeros_like(models.flat)
        models.add_sum(self._single(records, len(gradient)), None, gradient)
        return torch.cat([gradient[:count], gradient.new_zeros(count, self.width - self.layout.width)], dim=1)

    def losses(self, start: Tensor, records: Tensor) -> Tensor:
        """Return one record's loss under each model `(k,)`, in evaluation mode; arguments as for `gradients`."""
        models = self.crew(len(start))
        models.flat[: len(start)] = start[:, : self.layout.width]
        batch = self._single(records, len(models.flat))
        return USUAL.values(models.forward(batch.inputs), batch.labels)[: len(start)]

    def _single(self, records: Tensor, slots: int) -> Rows:
        """Return one record for each slot, those beyond the first ones masked."""
        real = torch.arange(slots, device=records.device) < len(records)
        numbers = torch.cat([records, records.new_zeros(slots - len(records))])
        return Rows(inputs=self.inputs[numbers], labels=self.labels[numbers], mask=real.unsqueeze(1))


def models_state(models: Gradients, names: Sequence[str]) -> dict[str, Tensor]:
    """Return those of the models' tensors, as they stand."""
    state = models.state()
    return {name: state[name] for name in names}


def _moved_buffers(module: nn.Module, inputs: Tensor) -> tuple[str, ...]:
    """Return the floating buffers that a pass in training mode changes, by trying one; the module is left as it was."""
    before = {name: value.clone() for name, value in module.named_buffers()}
    if not before:
        return ()
    try:
        with torch.no_grad():
            module(inputs.to(next(module.parameters()).dtype))
        after = dict(module.named_buffers())
        return tuple(name for name, old in before.items() if old.is_floating_point() and not torch.equal(old, after[name]))
    finally:
        for name, value in module.named_buffers():
            value.copy_(before[name])


def _refuse_unfit(module: nn.Module, state: Mapping[str, Tensor], buffer_names: Sequence[str]) -> None:
    """Raise `UnsupportedMechanism` where clients of several federations could not share kernel launches."""
    if has_random_layers(module):
        raise UnsupportedMechanism("federated training of a model with dropout is not supported; set dropout to 0")
    parameter_names = {slot.name for slot in Layout.of(module).slots}
    for name, value in state.items():
        if name not in parameter_names and name not in buffer_names and not torch.equal(value, value[:1].expand_as(value)):
            raise UnsupportedMechanism(
                f"'{name}' is not trained and differs between federations; give it fixed values in the model's factory"
            )

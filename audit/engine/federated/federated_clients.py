"""The clients of federated trainings: the updates that they come to in a round, many at once."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from audit.core.errors import UnsupportedMechanism
from audit.engine.compiled.compiled_gradients import ClientSteps, client_steps
from audit.engine.federated.federated_plan import LocalTraining, RecordNoise
from audit.engine.gradients.clipping import Clip, Gradients, Rows
from audit.engine.gradients.dispatch import model_gradients
from audit.engine.gradients.per_model_loop import LoopGradients
from audit.engine.layers.layer_map import has_random_layers
from audit.engine.losses import USUAL
from audit.engine.parameter_layout import Layout
from audit.engine.record_rows import RecordRows

_CREW = 4  # sizes of crews are multiples of this
CACHE_CLIENTS = 16  # updates at once in what takes one pass over each after the other


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrivateSteps:
    """DP-SGD in the steps of some clients, and its results; the tensors grow from step to step."""

    noise: RecordNoise  # of every step
    streams: Sequence[torch.Generator]  # of each client's draws
    squares: Tensor  # `(k,)` float64 sum of squares of each client's noise, over the accounted variance
    largest: Tensor  # `(k,)` each client's largest clipped gradient, over the clip norm


class Workers:
    """A fixed number of slots in which clients of any federation train, all at once.

    A federation's model is one row: the trainable parameters as the engine lays them out, then the buffers that training moves
    (statistics of BatchNorm). Both are what a client sends. `state` is that of all federations, name to `(N, ...)`, `records`
    are inputs and labels of the train split, `slots` are clients at once. Dropout, or an untrained tensor that differs between
    federations, is an `UnsupportedMechanism`.
    """

    def __init__(
        self,
        module: nn.Module,
        state: Mapping[str, Tensor],
        records: tuple[Tensor | RecordRows, Tensor],
        slots: int,
        local: LocalTraining,
    ) -> None:
        self.inputs, self.labels = records
        self.local, self.slots = local, slots
        self._compiled: ClientSteps | None = None
        copies = {name: value[:1].expand(slots, *value.shape[1:]).clone() for name, value in state.items()}
        self.moved = _moved_buffers(module, self.inputs[:2])
        if self.moved and local.private is not None:
            raise UnsupportedMechanism(
                f"DP-SGD inside clients covers parameters alone, and the model keeps statistics of its batches "
                f"({', '.join(self.moved)}); use a model without"
            )
        _refuse_unfit(module, state, self.moved)
        models = model_gradients(module, copies, self.inputs[:8], force_loop=bool(self.moved))
        self.crews: dict[int, Gradients] = {slots: models}
        self._smaller = functools.partial(model_gradients, module, force_loop=isinstance(models, LoopGradients))
        self.layout: Layout = models.layout
        self.buffers = {name: state[name].shape[1:] for name in self.moved}
        self.width = self.layout.width + sum(shape.numel() for shape in self.buffers.values())
        self.columns = torch.cat([self.layout.columns(), torch.arange(self.layout.width, self.width)]).to(self.inputs.device)

    def compile(self, module: nn.Module, examples: float) -> None:
        """Leave local steps without noise to compiled code, if the settings ask for it, as `client_steps` decides."""
        if self.local.private is None:
            self._compiled = client_steps(module, (self.inputs, self.labels), self.local.compile, examples)

    def parts(self, count: int) -> Iterator[slice]:
        """Return which of so many clients train at once: parts of about one size, few enough for the slots and the cache."""
        size = self.slots if self._compiled is None else min(self.slots, CACHE_CLIENTS)
        step = -(-count // -(-count // size)) if count else size
        return (slice(start, start + step) for start in range(0, count, step))

    def crew(self, count: int) -> Gradients:
        """Return models for so many clients at once: the fewest slots of a few sizes, so that slots do not be idle."""
        size = min(self.slots, -(-count // _CREW) * _CREW)
        if size not in self.crews:
            full = self.crews[self.slots].state()
            self.crews[size] = self._smaller({name: value[:size].clone() for name, value in full.items()})
        return self.crews[size]

    def make_row(self, state: Mapping[str, Tensor]) -> Tensor:
        """Return models `(N, width)` as rows."""
        count = next(iter(state.values())).shape[0]
        row = self.crews[self.slots].flat.new_zeros(count, self.width)
        for name, place in self.layout.views(row).items():
            place.copy_(state[name])
        for name, part in self._parts(row).items():
            part.copy_(state[name].reshape(count, -1))
        return row

    def named(self, row: Tensor) -> dict[str, Tensor]:
        """Return what the rows `(N, width)` hold, name to `(N, ...)`."""
        buffers = {name: part.reshape(len(row), *self.buffers[name]) for name, part in self._parts(row).items()}
        return self.layout.views(row) | buffers

    def _parts(self, row: Tensor) -> dict[str, Tensor]:
        parts, start = {}, self.layout.width
        for name, shape in self.buffers.items():
            parts[name] = row[:, start : start + shape.numel()]
            start += shape.numel()
        return parts

    def updates(
        self, start: Tensor, rows: Tensor, real: Tensor, streams: Sequence[torch.Generator] = ()
    ) -> tuple[Tensor, PrivateSteps | None]:
        """Return how far the models of `k` clients moved, as gradients `(k, width)`, for `k` up to `slots`; and their DP-SGD.

        They train on records `rows` `(k, steps, rows)`, of which `real` says which are no padding, from the models `start`
        `(k, width)` that they were sent. `streams` are of each client's own noise, if its steps are DP-SGD.
        """
        if self._compiled is not None:
            last = start.clone()
            self._compiled.descend(last, rows, real, self.local.learning_rate)
            return torch.sub(start, last, out=last), None
        count = len(start)
        models = self.crew(count)
        missing = len(models.flat) - count
        if missing:
            rows, real = (torch.cat([part, part.new_zeros(missing, *part.shape[1:])]) for part in (rows, real))
        private = self._private_steps(start, streams)
        buffers = models.state()
        models.flat[:count] = start[:, : self.layout.width]
        for name, part in self._parts(start).items():
            buffers[name][:count] = part.reshape(count, *self.buffers[name])
        for step in range(self.local.steps):
            indices = rows[:, step].flatten()
            batch = Rows(
                inputs=self.inputs.index_select(0, indices), labels=self.labels.index_select(0, indices), mask=real[:, step]
            )
            if private is None:
                # a step in one pass over memory: rows weighed by the rate over their number add up to what parameters lose
                share = -self.local.learning_rate / batch.mask.sum(1, keepdim=True).clamp(min=1)
                models.add_sum(replace(batch, mask=batch.mask * share), None, models.flat)
            else:
                models.flat.sub_(self._private_gradient(models, batch, private), alpha=self.local.learning_rate)
        parts = [models.flat[:count], *(buffers[name][:count].reshape(count, -1) for name in self.moved)]
        return start - (torch.cat(parts, dim=1) if self.moved else parts[0]), private

    def _private_steps(self, start: Tensor, streams: Sequence[torch.Generator]) -> PrivateSteps | None:
        """Return DP-SGD of clients that start from those models, before the first step; None if clients add no noise."""
        if self.local.private is None:
            return None
        squares = torch.zeros(len(start), dtype=torch.float64, device=start.device)
        return PrivateSteps(noise=self.local.private, streams=streams, squares=squares, largest=start.new_zeros(len(start)))

    def _private_gradient(self, models: Gradients, batch: Rows, steps: PrivateSteps) -> Tensor:
        """Return the noisy mean of clipped gradients of each client that DP-SGD takes a step along; adds it to `steps`."""
        private, gradient = steps.noise, torch.zeros_like(models.flat)
        clipping = models.add_sum(batch, Clip(norm=private.clip_norm), gradient)
        noise = self.step_noise(steps.streams, private).to(gradient.device)
        gradient[: len(noise)].add_(noise)
        gradient.div_(private.batch)
        deviation = max(private.noise_multiplier * private.clip_norm, 1e-300)
        steps.squares.add_((noise.double() / deviation).square().sum(1))
        if clipping is not None:
            torch.maximum(steps.largest, clipping.left[: len(noise)].amax(1) / private.clip_norm, out=steps.largest)
        return gradient

    def step_noise(self, streams: Sequence[torch.Generator], private: RecordNoise) -> Tensor:
        """Return each client's noise in a step on all parameters `(k, width)`, on the host."""
        columns = self.layout.columns()
        noise = torch.zeros(len(streams), self.layout.width)
        for slot, stream in enumerate(streams):
            noise[slot, columns] = torch.randn(len(columns), generator=stream) * (private.noise_multiplier * private.clip_norm)
        return noise

    def gradients(self, start: Tensor, records: Tensor) -> Tensor:
        """Return the gradient of one record's loss at each model, as wide as an update `(k, width)`, for `k` up to `slots`.

        `start` are models `(k, width)`, `records` the rows of their records `(k,)`.
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
    """Raise `UnsupportedMechanism` if clients of several federations could not share kernel launches."""
    if has_random_layers(module):
        raise UnsupportedMechanism("federated training of a model with dropout is not supported; set dropout to 0")
    parameter_names = {slot.name for slot in Layout.of(module).slots}
    for name, value in state.items():
        if name not in parameter_names and name not in buffer_names and not torch.equal(value, value[:1].expand_as(value)):
            raise UnsupportedMechanism(
                f"'{name}' is not trained and differs between federations; give it fixed values in the model's factory"
            )

"""Clipped sums for N models in one forward and one backward pass."""

import copy
import functools
import itertools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from audit.core.seeds import Seed
from audit.engine.device import switched
from audit.engine.gradients.clipping import Clip, Clipping, Gradients, Rows, accumulate, clip_layers, flat_storage, owner
from audit.engine.layers.bare_parameters import BareLayer, holds_bare_parameters, replace_parameters
from audit.engine.layers.batched_matmul import weighted_rows
from audit.engine.layers.layer_map import dropout_layer, ensemble_layer, has_random_layers
from audit.engine.layers.layers import EnsembleLayer, MatrixLayer, Tape, Use
from audit.engine.layers.layers_elementwise import LookupLayer
from audit.engine.layers.modes import Modes
from audit.engine.layers.short_products import round_to_eleven_bits
from audit.engine.parameter_layout import Layout
from audit.engine.random.counter_streams import CounterStreams
from audit.engine.random.noise import CounterDraws, GeneratorDraws, Place

# backward passes of this process, and after how many loading sympy costs less than an extra node in each
_PASSES, _EXTRA_NODES = itertools.count(), 10_000


class _OutputSlopes(torch.autograd.Function):
    """A scalar with the derivative `slopes` by a model's outputs, to the bit."""

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, slopes: Tensor) -> Tensor:
        ctx.slopes = slopes
        return outputs.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple[Tensor, None]:
        return ctx.slopes, None


def pull_back(outputs: Tensor, slopes: Tensor, edges: Sequence[Any]) -> tuple[Tensor | None, ...]:
    """Return the derivatives at `edges` of the sum of `outputs` times `slopes`; None if an edge has no part in them.

    `grad_outputs` is the usual way, but torch loads its symbolic shapes, and with them sympy, to compare the two shapes: half a
    second of CPU. An extra node gives the same bits without, some 0.05 ms later; long trainings end up with the usual way.
    """
    if next(_PASSES) < _EXTRA_NODES:
        return torch.autograd.grad(_OutputSlopes.apply(outputs, slopes), edges, allow_unused=True)  # type: ignore[no-untyped-call]
    return torch.autograd.grad(outputs, edges, grad_outputs=slopes, allow_unused=True)


class TapeGradients:
    """All models in one pass: ghost norms if they are cheaper, whole gradients if a parameter is used twice.

    With `products` shorter than the parameters (mixed precision) only the products of the forward and the backward pass
    are computed in it. An example's gradient is then, by definition, what its rounded activations and signals make, and
    norm, factor and clipped sum are computed from these same rounded values in the type of the parameters: one example
    moves the sum by no more than the clip norm, whatever the rounding did.
    """

    # what a row with a norm that is not finite is multiplied with is set to zero. On a device, where no one looks whether there
    # is one, that reads and writes all that layers keep; else the sum is not finite
    takes_out = True

    def __init__(self, module: nn.Module, state: Mapping[str, Tensor], products: torch.dtype | None = None) -> None:
        self.layout = Layout.of(module)
        any_value = next(iter(state.values()))
        self.models = any_value.shape[0]
        self.tape = Tape(models=self.models, products=products, on_gpu=any_value.device.type == "cuda")
        self.random = has_random_layers(module)
        self.layers = {owner(slot.name) for slot in self.layout.slots}
        self.flat = flat_storage(self.layout, state)
        self._state = {**state, **self.layout.views(self.flat)}
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        self.module = self._module_copies(module, names)
        self._modes = Modes(self.module)
        self._unseen_lookups = [layer for layer in self.module.modules() if isinstance(layer, LookupLayer)]

    def _module_copies(self, module: nn.Module, names: Mapping[int, str]) -> nn.Module:
        trainable = {slot.name: slot for slot in self.layout.slots}
        memo: dict[int, nn.Module] = {}
        bare: dict[int, dict[str, BareLayer]] = {}
        for layer in module.modules():
            dropout = dropout_layer(layer, self.tape)
            if dropout is not None:
                memo[id(layer)] = dropout
            full = type(layer) is nn.MultiheadAttention  # replaced together with the linear layer inside it
            own_names = {role: names[id(parameter)] for role, parameter in layer.named_parameters(recurse=full)}
            values = {role: self._state[name] for role, name in own_names.items()}
            slots = {role: trainable[name] for role, name in own_names.items() if name in trainable}
            if own_names and holds_bare_parameters(layer):
                bare[id(layer)] = {role: BareLayer(self.tape, values[role], slots.get(role)) for role in own_names}
            elif own_names:
                memo[id(layer)] = replacement = ensemble_layer(layer, self.tape, values, slots)
                replacement.outside = {
                    role: functools.cache(functools.partial(BareLayer, self.tape, value, slots.get(role)))
                    for role, value in values.items()
                }
        # deep copy with a memo: wherever the module refers to a replaced layer, the copy refers to its replacement
        copies: dict[int, Any] = dict(memo)
        model_copy = copy.deepcopy(module, copies)
        for original, layers in bare.items():
            replace_parameters(copies[original], layers)
        reference = next(iter(self._state.values()))
        for buffer in model_copy.buffers():
            if buffer.is_floating_point():
                buffer.data = buffer.data.to(reference.device, self.flat.dtype)
            else:
                buffer.data = buffer.data.to(reference.device)
        for layer in model_copy.modules():
            # the tape keeps what layers saw by reference (`Tape.record`): in place, an activation would overwrite it
            if not isinstance(layer, EnsembleLayer) and getattr(layer, "inplace", False) is True:
                setattr(layer, "inplace", False)  # noqa: B010
        return model_copy

    def begin(self, seeds: Sequence[Seed]) -> None:
        self.tape.draws = GeneratorDraws(seeds, self.flat.device)

    def begin_counted(self, streams: CounterStreams, place: Place) -> None:
        """Starts the same for one pass from counters with keys that all steps share."""
        self.tape.draws = CounterDraws(streams, place)

    def state(self) -> dict[str, Tensor]:
        return dict(self._state)

    def forward(self, inputs: Tensor, *, training: bool = False) -> Tensor:
        """`(N * rows, outputs)` for folded inputs, in evaluation mode unless `training`, and without gradients."""
        if training:
            self._modes.train()
        else:
            self._modes.evaluate()
        self._find_shared_lookups(inputs)
        self.tape.batch = len(inputs)
        with torch.no_grad():
            out: Tensor = self.module(inputs)
        return out

    def add_sum(self, rows: Rows, clip: Clip | None, total: Tensor) -> Clipping | None:
        # with clipping the factor of padding is 0; without, its signals have to be
        return self.add_sum_of(*self.signals(rows, use_mask=clip is None), rows.mask, clip, total)

    def add_sum_of(
        self, uses: list[Use], signals: list[Tensor], mask: Tensor, clip: Clip | None, total: Tensor
    ) -> Clipping | None:
        """Adds what `add_sum` does for the rows that made these `signals`, and writes what it keeps into the `uses`."""
        count = mask.shape[1]
        if clip is None:
            for use, signal in zip(uses, signals, strict=True):
                use.layer.add_weighted(use, signal, None, total)
            return None
        multiple_uses = self._shared_uses(uses)
        full: dict[str, Tensor] = {}
        squares: dict[str, Tensor] = {}
        for number, (use, signal) in enumerate(zip(uses, signals, strict=True)):
            if number in multiple_uses:
                for role, gradient in use.layer.example_gradients(use, signal, count).items():
                    name = use.layer.slots[role].name
                    full[name] = full[name] + gradient if name in full else gradient
            else:
                accumulate(squares, find_layer(use), use.layer.squared_norms(use, signal, count))
        for name, gradient in full.items():
            accumulate(squares, owner(name), gradient.flatten(2).square().sum(-1))
        clipping, factors = clip_layers(squares, clip, mask, layers=len(self.layers))
        if self.takes_out and not clipping.finite:
            # a factor of 0 does not take out what is infinite: their product is NaN, and would be the whole sum's
            signals = _without(uses, signals, full, clipping.norms.isfinite())
        for number, (use, signal) in enumerate(zip(uses, signals, strict=True)):
            if number not in multiple_uses:
                use.layer.add_weighted(use, signal, factors[find_layer(use)], total)
        for slot in self.layout.slots:
            if slot.name in full:
                place = slot.view(total)
                place.add_(weighted_rows(full[slot.name].flatten(2), factors[owner(slot.name)]).view_as(place))
        return clipping

    def signals(self, rows: Rows, *, use_mask: bool) -> tuple[list[Use], list[Tensor]]:
        """Uses of the layers and the derivatives of the rows' losses by their outputs; those of padding are 0 if `use_mask`."""
        self._find_shared_lookups(rows.inputs)
        self._modes.train()
        self.tape.active, self.tape.uses, self.tape.batch = True, [], len(rows.inputs)
        try:
            with self.tape.short_kernels():
                outputs = self.module(rows.inputs)
        finally:
            self.tape.active = False
        uses, self.tape.uses = self.tape.uses, []
        if not outputs.requires_grad:  # nothing that is trained takes part
            return [], []
        slopes = rows.loss.slopes(outputs.detach().to(self.flat.dtype), rows.labels)
        if use_mask:
            weight = rows.mask.flatten() if rows.copies == 1 else rows.mask.flatten().repeat_interleave(rows.copies)
            slopes *= weight.view(-1, *(1,) * (slopes.dim() - 1))
        if rows.copies > 1:
            slopes /= rows.copies
        slopes = slopes.to(outputs.dtype)
        with self.tape.short_kernels():
            gradients = pull_back(outputs, slopes, [use.edge for use in uses])
        used_signals = [(use, self._short(signal)) for use, signal in zip(uses, gradients, strict=True) if signal is not None]
        for use, _ in used_signals:
            if use.inputs.is_floating_point():
                use.inputs = self._short(use.inputs)
        used_signals = join_uses(used_signals, rows.mask.shape[1])
        return [use for use, _ in used_signals], [signal for _, signal in used_signals]

    def _short(self, values: Tensor) -> Tensor:
        """Return what the products saw, in the type of the parameters: norms and sums are of these numbers."""
        numbers = values.to(self.flat.dtype)
        return round_to_eleven_bits(numbers) if self.tape.products == torch.float32 else numbers

    def _find_shared_lookups(self, inputs: Tensor) -> None:
        """Find out, once, which embeddings are looked up in the same places however many records there are, as positions are.

        A pass may by chance have as many rows as there are positions, whose signals would then count for other records.
        """
        lookups, self._unseen_lookups = self._unseen_lookups, []
        if not lookups or not len(inputs):
            return
        parts, lengths = inputs.unflatten(0, (self.models, -1))[:, :1], []
        for count in (2, 3):
            for layer in lookups:
                layer.lengths = []
            self.forward(parts.repeat_interleave(count, dim=1).flatten(0, 1))
            lengths.append([layer.lengths for layer in lookups])
        for layer, two_rows, three_rows in zip(lookups, *lengths, strict=True):
            layer.shared, layer.lengths = two_rows == three_rows, None

    def _shared_uses(self, uses: list[Use]) -> set[int]:
        """Numbers of the uses with parameters that take part more than once: norms of parts are not those of their sum."""
        times: dict[str, int] = {}
        for use in uses:
            for slot in use.layer.slots.values():
                times[slot.name] = times.get(slot.name, 0) + 1
        return {number for number, use in enumerate(uses) if any(times[slot.name] > 1 for slot in use.layer.slots.values())}


def full_precision(models: Gradients) -> AbstractContextManager[None]:
    """A scope in which `models` multiply in the type of their parameters."""
    return switched([(models.tape, "products", None)]) if isinstance(models, TapeGradients) else nullcontext()


def _without(uses: list[Use], signals: list[Tensor], whole: dict[str, Tensor], finite: Tensor) -> list[Tensor]:
    """Signals with the rows that are not `finite` `(N, rows)` set to zero, as is all that is multiplied with them."""

    def zero(values: Tensor) -> Tensor:
        shape = values.shape
        split = values.reshape(*finite.shape, -1)
        # a number, not a tensor of the host: torch would copy that to the device and wait for it, for every use of a layer
        return torch.where(finite.unsqueeze(-1), split, 0.0).reshape(shape)

    for use in uses:
        if use.inputs.is_floating_point():
            use.inputs = zero(use.inputs)
        use.gradients = {role: zero(gradient) for role, gradient in use.gradients.items()}
    for name, gradient in whole.items():
        whole[name] = zero(gradient)
    return [zero(signal) for signal in signals]


def find_layer(use: Use) -> str:
    return owner(next(iter(use.layer.slots.values())).name)


def join_uses(used_signals: list[tuple[Use, Tensor]], rows: int) -> list[tuple[Use, Tensor]]:
    """Return `used_signals` with the uses of a linear layer that is used several times as one, at as many more positions.

    A layer that a module applies at each time of a sequence does what one product over all times does, and norms of its
    gradients need no gradient of each record.
    """
    by_layer: dict[int, list[tuple[Use, Tensor]]] = {}
    for use, signal in used_signals:
        joins = isinstance(use.layer, MatrixLayer) and use.layer.joins_uses
        by_layer.setdefault(id(use.layer) if joins else id(use), []).append((use, signal))
    return [group[0] if len(group) == 1 else _one_use(group, rows) for group in by_layer.values()]


def _one_use(group: list[tuple[Use, Tensor]], rows: int) -> tuple[Use, Tensor]:
    def join(parts: list[Tensor]) -> Tensor:
        split = [part.reshape(len(part), rows, -1, part.shape[-1]) for part in parts]
        return torch.cat(split, 2).flatten(1, 2)

    first = group[0][0]
    inputs, signal = join([use.inputs for use, _ in group]), join([signal for _, signal in group])
    return Use(layer=first.layer, inputs=inputs, edge=first.edge), signal

"""Layers that hold N models at once, and what each knows about its per-example gradients.

Activations stay folded as `(N * rows, ...)`, model-major, so a model's own `forward` runs unchanged on all N
models; only layers with parameters are replaced. Each use of such a layer is recorded on a tape with its input
and the autograd edge of its output, which is all that per-example norms and clipped sums need.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from audit.engine.layers.batched_matmul import add_outer, rowwise, weighted_rows
from audit.engine.layers.gram_norms import ghost_squares
from audit.engine.layers.parameter_facts import ParameterOwner, UncoveredUse
from audit.engine.layers.short_products import short_kernels, thirds
from audit.engine.parameter_layout import Slot
from audit.engine.random.noise import CounterDraws, GeneratorDraws

# what Gram matrices may cost, in multiplications a number of an example's gradient, up to which they are cheaper than gradients
# of all rows of a model: for gradients that stay in the cache, and for those that do not (measured: docs/evidence/speed.md)
_CACHED_SHARE, _MEMORY_SHARE, _CACHED_NUMBERS = 8, 32, 1 << 20


@dataclass(slots=True, kw_only=True, eq=False)
class Use:
    """One application of a layer in one forward pass."""

    layer: EnsembleLayer
    inputs: Tensor
    edge: Any
    gradients: dict[str, Tensor] = field(default_factory=dict)
    cancellation: Cancellation | None = None
    replacement: Tensor | None = None  # a signal that makes the same gradient without cancelling

    def keep(self, examples: Tensor, gradients: dict[str, Tensor], signal: Tensor, squares: Tensor) -> Tensor:
        """`squares` `(N, rows)` with the norms of `gradients` at `examples`, which are kept out of `signal` from now on."""
        exact = torch.stack([gradient.flatten(1).double().square().sum(1) for gradient in gradients.values()]).sum(0)
        remainder = signal.reshape(squares.numel(), -1).index_fill(0, examples, 0.0).view(signal.shape)
        self.cancellation = Cancellation(examples=examples, gradients=gradients, signal=remainder)
        return squares.flatten().index_copy(0, examples, exact.to(squares.dtype)).view(squares.shape)

    def add_cancellation(self, signal: Tensor, factors: Tensor | None, total: Tensor) -> Tensor:
        """Adds the gradients that were kept, times their factors `(N, rows)`, to `total`; what is left of `signal`."""
        cancellation = self.cancellation
        if cancellation is None or factors is None:
            return signal
        weights = factors.flatten()[cancellation.examples]
        for role, gradient in cancellation.gradients.items():
            place = self.layer.slots[role].view(total)
            scaled_gradient = gradient * weights.view(-1, *(1,) * (gradient.dim() - 1))
            for model, gradient_part in zip((cancellation.examples // factors.shape[1]).tolist(), scaled_gradient, strict=True):
                place[model].add_(gradient_part)
        return cancellation.signal


@dataclass(slots=True, kw_only=True, eq=False)
class Cancellation:
    """Examples of one use with a gradient far smaller than its terms: made one by one, and what is left of the signal."""

    examples: Tensor  # `(k,)` their numbers among `(models * rows)`
    gradients: dict[str, Tensor]  # role to `(k, *shape)`
    signal: Tensor  # that of the use with zeros in their place


@dataclass(slots=True, kw_only=True, eq=False)
class Tape:
    """The uses of the layers in one forward pass, in order; nothing is recorded while `active` is false.

    `products` is the type in which layers multiply, None if it is that of the parameters; float32 means that a GPU may read
    eleven bits of each number.
    """

    models: int
    batch: int = 0  # rows of all models in the pass
    uses: list[Use] = field(default_factory=list)
    active: bool = False
    numbers: int = 0  # that the recorded uses hold: inputs, outputs and kept gradients
    draws: GeneratorDraws | CounterDraws | None = None  # of layers that draw random numbers, set before each step
    factors: list[Tensor] | None = None  # what dropout multiplies with, kept if it is needed again
    products: torch.dtype | None = None
    on_gpu: bool = False  # products are made there
    outside: bool = False  # a parameter may be used outside of layers

    def factor(self, values: Tensor) -> Tensor:
        """`values`, about to be multiplied, in the type of the products."""
        return values if self.products is None else values.to(self.products)

    def short_kernels(self) -> AbstractContextManager[None]:
        """A scope for products of matrices whose numbers have at most eleven significant bits, which a GPU reads whole."""
        return short_kernels(active=self._is_short)

    def parts(self, signal: Tensor, *, by_factors: bool) -> tuple[Tensor, ...]:
        """Tensors that add up to `signal`, for products in `short_kernels`: three if factors scaled it after it was rounded."""
        return thirds(signal) if by_factors and self._is_short else (signal,)

    @property
    def _is_short(self) -> bool:
        return self.on_gpu and self.products is not None

    def record(self, layer: EnsembleLayer, inputs: Tensor, output: Tensor) -> Tensor:
        """`output`, after noting that `layer` made it from `inputs`; nothing is noted if no gradient is wanted."""
        if self.active and torch.is_grad_enabled():
            if not output.requires_grad:
                output.requires_grad_()
            self.numbers += inputs.numel() + output.numel()
            self.uses.append(Use(layer=layer, inputs=inputs.detach(), edge=torch.autograd.graph.get_gradient_edge(output)))
        return output


class EnsembleLayer(ParameterOwner):
    """A layer of N models. `values` maps a role ("weight", "bias") to `(N, ...)`, `slots` the trainable roles to slots."""

    def __init__(self, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(values, slots)
        self.tape = tape

    def bias_factor(self) -> Tensor | None:
        """The bias `(N, outputs)` in the type of the products, if there is one."""
        parameter = self.values.get("bias")
        return None if parameter is None else self.tape.factor(parameter)

    def squared_norms(self, use: Use, signal: Tensor, rows: int) -> Tensor:
        """`(N, rows)` squared l2 norm of each example's gradient of this use, over all trainable roles."""
        use.gradients = self.example_gradients(use, signal, rows)
        self.tape.numbers += sum(gradient.numel() for gradient in use.gradients.values())
        parts = [gradient.flatten(2).square().sum(-1) for gradient in use.gradients.values()]
        return functools.reduce(torch.add, parts)

    def example_gradients(self, use: Use, signal: Tensor, rows: int) -> dict[str, Tensor]:
        """Role to `(N, rows, *shape)` gradient of each example."""
        raise NotImplementedError

    def add_weighted(self, use: Use, signal: Tensor, factors: Tensor | None, total: Tensor) -> None:
        """Adds the sum over examples of `factors` `(N, rows)` times gradient to `total`, the flat `(N, width)`.

        With `factors` None every example counts once.
        """
        rows = signal.shape[0] // self.tape.models if factors is None else factors.shape[1]
        gradients = use.gradients or self.example_gradients(use, signal, rows)
        for role, gradient in gradients.items():
            order = memory_order(gradient, 2)
            lines = gradient.permute(0, 1, *order)
            flat = lines.flatten(2)
            total_gradient = flat.sum(1) if factors is None else weighted_rows(flat, factors)
            place = self.slots[role].view(total).permute(0, *(axis - 1 for axis in order))
            place.add_(total_gradient.view(place.shape))


def memory_order(values: Tensor, first: int) -> list[int]:
    """Return the axes of `values` from `first` on in the order in which their numbers lie in memory."""
    return sorted(range(first, values.dim()), key=values.stride, reverse=True)


class MatrixLayer(EnsembleLayer):
    """A layer `columns @ weight.T + bias`, applied at one or several positions of each example.

    Per-example norms without per-example gradients ("ghost" norms): for one position the norm of an outer product is
    the product of norms; for P positions it follows from the P x P Gram matrices of inputs and signals.

    References:
        Goodfellow 2015, arXiv 1510.01799; Li et al. 2022, arXiv 2110.05679; Bu et al. 2022, arXiv 2205.10683.
    """

    outputs: int
    ghost: bool | None = None
    joins_uses = False  # several uses count as one at as many more positions

    def weight_rows(self) -> Tensor:
        """The weight as `(N, outputs, columns)`."""
        return self.values["weight"]

    def to_weight(self, gradient: Tensor) -> Tensor:
        """A gradient `(..., outputs, columns)` in the shape of the parameter."""
        return gradient

    def product(self, columns: Tensor) -> Tensor:
        """`(N, rows, outputs)` from `(N, rows, columns)`; recorded on the tape."""
        columns, weight, bias = self.tape.factor(columns), self.tape.factor(self.weight_rows()), self.bias_factor()
        if weight.shape[1] == 1:  # a matrix with one row goes through kernels whose sums depend on N
            output = (columns * weight).sum(-1, keepdim=True)
            output = output if bias is None else output + bias.unsqueeze(1)
        else:
            output = rowwise(columns, weight, bias)
        return self.tape.record(self, columns, output) if self.slots else output

    def takes_ghost(self, positions: int, columns: int, rows: int) -> bool:
        """True if norms from Gram matrices are cheaper than per-example gradients (see docs/evidence/speed.md)."""
        if positions == 1:
            return True
        if self.ghost is not None:
            return self.ghost
        numbers = columns * self.outputs
        share = _CACHED_SHARE if rows * numbers <= _CACHED_NUMBERS else _MEMORY_SHARE
        return positions * positions * (columns + self.outputs) <= share * numbers

    def squared_norms(self, use: Use, signal: Tensor, rows: int) -> Tensor:
        models, total_rows, columns = use.inputs.shape
        positions = total_rows // rows
        bias = 1.0 if "bias" in self.slots else 0.0
        if positions == 1 and "weight" in self.slots:
            norms = torch.linalg.vector_norm(use.inputs, dim=-1).square_().add_(bias)
            example_squares: Tensor = torch.linalg.vector_norm(signal, dim=-1).square_().mul_(norms)
            return example_squares
        if "weight" not in self.slots or not self.takes_ghost(positions, columns, rows):
            return self._whole_norms(use, signal, rows)
        inputs = use.inputs.view(models * rows, positions, columns)
        signals = signal.view(models * rows, positions, self.outputs)
        squares, cancellation = ghost_squares(inputs, signals, bias)
        squares = squares.view(models, rows)
        return squares if cancellation is None else self._without_cancellation(use, signal, squares, cancellation)

    def _without_cancellation(self, use: Use, signal: Tensor, squares: Tensor, cancellation: Tensor) -> Tensor:
        """`squares` `(N, rows)` with those of the examples `cancellation` `(N * rows,)` made from gradients, which are kept."""
        examples = cancellation.nonzero().flatten()
        inputs, signals = self._positions(use, signal, examples, squares.shape[1])
        gradients = {}
        if "weight" in self.slots:
            weight_gradient = torch.bmm(signals.double().transpose(1, 2), inputs.double()).to(signal.dtype)
            gradients["weight"] = self.to_weight(weight_gradient)
        if "bias" in self.slots:
            gradients["bias"] = signals.double().sum(1).to(signal.dtype)
        return use.keep(examples, gradients, signal, squares)

    def _positions(self, use: Use, signal: Tensor, examples: Tensor, rows: int) -> tuple[Tensor, Tensor]:
        """Inputs `(k, positions, columns)` and signals `(k, positions, outputs)` of some `examples`."""
        items = use.inputs.shape[0] * rows
        inputs, signals = use.inputs.reshape(items, -1, use.inputs.shape[-1]), signal.reshape(items, -1, self.outputs)
        return inputs[examples], signals[examples]

    def _whole_norms(self, use: Use, signal: Tensor, rows: int) -> Tensor:
        """`squared_norms` by way of the gradients, which are kept."""
        use.gradients = self._raw_gradients(use, signal, rows)
        self.tape.numbers += sum(gradient.numel() for gradient in use.gradients.values())
        parts = [torch.linalg.vector_norm(_in_order(grad).flatten(2), dim=-1).square_() for grad in use.gradients.values()]
        squares: Tensor = functools.reduce(torch.add, parts)
        return squares

    def _raw_gradients(self, use: Use, signal: Tensor, rows: int) -> dict[str, Tensor]:
        """Role to `(N, rows, ...)`; the weight's as `(N, rows, outputs, columns)`."""
        models, total_rows, columns = use.inputs.shape
        positions = total_rows // rows
        signals = signal.reshape(models * rows, positions, self.outputs)
        gradients = {}
        if "weight" in self.slots:
            inputs = use.inputs.reshape(models * rows, positions, columns)
            with self.tape.short_kernels():
                if self.outputs > columns:  # four times as fast with the longer axis contiguous (docs/evidence/speed.md)
                    product = torch.bmm(inputs.transpose(1, 2), signals).transpose(1, 2)
                else:
                    product = torch.bmm(signals.transpose(1, 2), inputs)
            gradients["weight"] = product.unflatten(0, (models, rows))
        if "bias" in self.slots:
            gradients["bias"] = signals.sum(1).view(models, rows, self.outputs)
        return gradients

    def example_gradients(self, use: Use, signal: Tensor, rows: int) -> dict[str, Tensor]:
        gradients = self._raw_gradients(use, signal, rows)
        if "weight" in gradients:
            gradients["weight"] = self.to_weight(gradients["weight"])
        return gradients

    def add_weighted(self, use: Use, signal: Tensor, factors: Tensor | None, total: Tensor) -> None:
        if use.gradients and factors is not None:
            for role, gradient in use.gradients.items():
                lines = _in_order(gradient)
                total_gradient = weighted_rows(lines.flatten(2), factors).view(-1, *lines.shape[2:])
                if lines is not gradient:
                    total_gradient = total_gradient.transpose(1, 2)
                self.slots[role].view(total).add_(self.to_weight(total_gradient) if role == "weight" else total_gradient)
            return
        if factors is not None:
            signal = use.add_cancellation(signal, factors, total)
            positions = use.inputs.shape[1] // factors.shape[1]
            position_factors = factors if positions == 1 else factors.repeat_interleave(positions, dim=1)
            signal = signal * position_factors.unsqueeze(-1)
        if "bias" in self.slots:
            self.slots["bias"].view(total).add_(signal.sum(1))
        if "weight" in self.slots:
            self._add_weight(signal, use.inputs, total, by_factors=factors is not None)

    def _add_weight(self, signal: Tensor, columns: Tensor, total: Tensor, *, by_factors: bool) -> None:
        """Adds `signal.T @ columns` to the weight's place in `total`."""
        slot = self.slots["weight"]
        if self.outputs == 1:
            slot.view(total).add_((signal * columns).sum(1).view(-1, *slot.shape))
        else:
            with self.tape.short_kernels():
                for part in self.tape.parts(signal, by_factors=by_factors):
                    add_outer(slot.view(total).flatten(2), part, columns)


def _in_order(gradient: Tensor) -> Tensor:
    """`gradient` `(N, rows, outputs, columns)`, its last axes swapped if that is how its numbers are in memory."""
    return gradient.transpose(2, 3) if gradient.dim() == 4 and not gradient.is_contiguous() else gradient


class LinearLayer(MatrixLayer):
    """`nn.Linear` of N models."""

    joins_uses = True

    def __init__(self, outputs: int, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(tape, values, slots)
        self.outputs = outputs

    @classmethod
    def inside(cls, pattern: str, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> LinearLayer:
        """Return a linear layer inside another one; `pattern` names its parameters, as in "in_proj_{}" for `in_proj_weight`."""
        names = {role: pattern.format(role) for role in ("weight", "bias")}
        parameters = {role: values[name] for role, name in names.items() if name in values}
        places = {role: slots[name] for role, name in names.items() if name in slots}
        return cls(parameters["weight"].shape[1], tape, parameters, places)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.tape.batch and inputs.shape[:-1].numel() % self.tape.batch:
            raise UncoveredUse(
                f"a layer takes {inputs.shape[:-1].numel()} rows where a batch of all models has {self.tape.batch}"
            )
        columns = inputs.reshape(self.tape.models, -1, inputs.shape[-1])
        product: Tensor = self.product(columns).view(*inputs.shape[:-1], self.outputs)
        return product

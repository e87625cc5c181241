"""Parameters that a module of a user's own uses outside of any layer: class tokens, positions, scales, gates, matrices.

While such a module runs on N models, it sees instead of the parameter a tensor with a row per record, which holds the
values of the record's model. So the derivative by it is each record's gradient, whatever the module does with it. Products of
records with a matrix are those of a linear layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.engine.layers.batched_matmul import add_outer
from audit.engine.layers.layers import EnsembleLayer, LinearLayer, MatrixLayer, Tape, Use
from audit.engine.layers.parameter_facts import UncoveredUse
from audit.engine.parameter_layout import Slot


class BareLayer(EnsembleLayer):
    """One parameter of N models, spread over the records of a batch."""

    def __init__(self, tape: Tape, values: Tensor, slot: Slot | None) -> None:
        shape = values.shape[1:]
        if values.dim() == 1:  # a single number
            values, slot = values.unsqueeze(1), None if slot is None else replace(slot, shape=torch.Size([1]))
        super().__init__(tape, {"value": values}, {} if slot is None else {"value": slot})
        self.shape = shape
        self.products: dict[bool, MatrixLayer] = {}
        if values.dim() == 3 and values.shape[1] > 1:
            parameters, slots = {"weight": values}, {} if slot is None else {"weight": slot}
            self.products = {
                False: BareProduct(tape, parameters, slots),
                True: LinearLayer(values.shape[1], tape, parameters, slots),
            }

    def spread(self, axes: int) -> Tensor:
        """Return the values for every record, `(N * rows, ...)`, to be used beside activations with so many axes.

        A first axis of 1 before others becomes that of the records; else that is put first, and axes of 1 behind it.
        """
        values = self.values["value"]
        models, shape = values.shape[0], values.shape[1:]
        has_place = len(shape) > 1 and shape[0] == 1
        shape = shape[1:] if has_place else shape
        wide = shape if has_place else (*(1,) * (axes - 1 - len(shape)), *shape)
        rows = self.tape.batch // models
        spread = self.tape.factor(values).reshape(models, 1, *wide).expand(models, rows, *wide).flatten(0, 1)
        spread = self.tape.record(self, spread.new_zeros(models, rows, 1), spread) if self.slots else spread
        return BareValue.of(spread, shape, self)

    def example_gradients(self, use: Use, signal: Tensor, rows: int) -> dict[str, Tensor]:
        views = signal.reshape(self.tape.models, rows, -1, *self.slots["value"].shape)  # of each record
        return {"value": views.sum(2)}


class BareProduct(MatrixLayer):
    """Products of records with a matrix `(columns, outputs)` of N models."""

    joins_uses = True

    def __init__(self, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(tape, values, slots)
        self.outputs = values["weight"].shape[2]

    def weight_rows(self) -> Tensor:
        return self.values["weight"].transpose(1, 2)

    def to_weight(self, gradient: Tensor) -> Tensor:
        return gradient.transpose(-1, -2)

    def _add_weight(self, signal: Tensor, columns: Tensor, total: Tensor, *, by_factors: bool) -> None:
        with self.tape.short_kernels():
            for part in self.tape.parts(signal, by_factors=by_factors):
                add_outer(self.slots["weight"].view(total), columns, part)

    def forward(self, records: Tensor) -> Tensor:
        """`records` `(N * rows, ..., columns)` times the matrix."""
        folded = records.reshape(self.tape.models, -1, records.shape[-1])
        return self.product(folded).view(*records.shape[:-1], self.outputs)


class BareValue(Tensor):
    """A parameter spread over the records, in a shape that each operation's other operand asks for."""

    record_shape: torch.Size
    layer: BareLayer

    @classmethod
    def of(cls, spread: Tensor, shape: torch.Size, layer: BareLayer) -> BareValue:
        """Return `spread`, which holds a value of `shape` for each record, as one of these."""
        value = spread.as_subclass(cls)
        value.record_shape, value.layer = shape, layer
        return value

    def broadcast_for(self, operand: object) -> Tensor:
        """Return the values for an operation with `operand`: of as many axes as activations have, else as they are.

        `UncoveredUse` if it has as many axes, but neither a row per record nor one for all; in a batch of as many records as it
        has rows, it would be taken for activations.
        """
        plain = self.as_subclass(Tensor)
        if type(operand) is not Tensor or operand.dim() <= len(self.record_shape):
            return plain
        self.require_records(operand)
        return plain.reshape(len(plain), *(1,) * (operand.dim() - 1 - len(self.record_shape)), *self.record_shape)

    def require_records(self, operand: Tensor) -> None:
        if len(operand) not in (1, len(self)):
            raise UncoveredUse("a parameter outside of layers meets numbers that are not of records")

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        # code that asks for a shape means the parameter of one model, without an axis of records
        if function in _SIZES:
            return function(torch.empty(args[0].layer.shape, device="meta"), *args[1:], **options)
        if function is Tensor.__getitem__ and not _keeps_first_axis(args[1]):
            raise UncoveredUse("the first axis of a parameter outside of layers is indexed")
        with torch._C.DisableTorchFunctionSubclass():
            if function in _PRODUCTS and len(args) > 1 and _has_product(args[0], args[1]):
                args[1].require_records(args[0])
                product = args[1].layer.products[function is F.linear](args[0])
                bias = args[2] if len(args) > 2 else options.get("bias")
                return product if bias is None else product + (bias.broadcast_for(product) if isinstance(bias, cls) else bias)
            if len(args) == 2:
                args = tuple(
                    arg.broadcast_for(args[1 - place]) if isinstance(arg, cls) else arg for place, arg in enumerate(args)
                )
            return function(*args, **options)


# what is answered for the parameter itself, not for its copies
_SIZES = (Tensor.shape.__get__, Tensor.ndim.__get__, Tensor.size, Tensor.dim, Tensor.numel, Tensor.__len__)  # type: ignore[attr-defined]
_PRODUCTS = (torch.matmul, torch.mm, Tensor.matmul, Tensor.mm, Tensor.__matmul__, F.linear)


def _has_product(rows: object, matrix: object) -> bool:
    """True if a product of `rows` with `matrix` is that of a linear layer, where the rows are records."""
    if type(rows) is not Tensor or rows.dim() < 2 or not isinstance(matrix, BareValue):
        return False
    return bool(matrix.layer.products) and (len(rows) > 1 or len(matrix) == 1)  # one row for all is broadcast


def _keeps_first_axis(key: Any) -> bool:
    first = key[0] if isinstance(key, tuple) and key else key
    return first is Ellipsis or (isinstance(first, slice) and first == slice(None))


def holds_bare_parameters(layer: nn.Module) -> bool:
    """True if `layer` is of a user's own class and holds parameters itself."""
    return not type(layer).__module__.startswith("torch.") and any(True for _ in layer.parameters(recurse=False))


def replace_parameters(owner: nn.Module, layers: Mapping[str, BareLayer]) -> None:
    """Let `owner` find what `layers` spread under the names of its parameters, whenever it is called."""
    for name in layers:
        del owner._parameters[name]

    def forget(module: nn.Module, *_: Any) -> None:  # a later pass must not meet the values of this one
        for name in layers:
            module.__dict__.pop(name, None)

    def spread(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        activations = next((value for value in inputs if isinstance(value, Tensor)), None)
        for name, layer in layers.items():
            if activations is None:
                raise UncoveredUse(f"'{name}' is used in a module that is given no tensor")
            module.__dict__[name] = layer.spread(activations.dim())

    owner.register_forward_pre_hook(spread)
    owner.register_forward_hook(forget, always_call=True)

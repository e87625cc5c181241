"""Parameters that a module of a user's own uses outside of any layer: class tokens, positions, scales, gates, matrices.

Products of records with a matrix, or its transpose, are those of a linear layer. For anything else the module does with the
parameter, it gets a tensor with a row per record, which holds the values of the record's model. So the derivative by it is each
record's gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from audit.engine.layers.batched_matmul import add_outer
from audit.engine.layers.layers import EnsembleLayer, LinearLayer, MatrixLayer, Tape, Use
from audit.engine.layers.parameter_facts import PRODUCTS, ParameterFacts, UncoveredUse
from audit.engine.parameter_layout import Slot


class BareLayer(EnsembleLayer):
    """One parameter of N models, spread over the records of a batch."""

    def __init__(self, tape: Tape, values: Tensor, slot: Slot | None) -> None:
        shape = values.shape[1:]
        if values.dim() == 1:  # a single number
            values, slot = values.unsqueeze(1), None if slot is None else replace(slot, shape=torch.Size([1]))
        super().__init__(tape, {"value": values}, {} if slot is None else {"value": slot})
        self.shape, tape.outside = shape, True
        self.products: Mapping[bool, Callable[[Tensor], Tensor]] = {}
        if values.dim() == 3 and values.shape[1] > 1:
            parameters, slots = {"weight": values}, {} if slot is None else {"weight": slot}
            self.products = {
                False: BareProduct(tape, parameters, slots),
                True: LinearLayer(values.shape[1], tape, parameters, slots),
            }

    def facts(self, axes: int) -> ParameterFacts:
        """Return what a module sees of the parameter beside activations with so many axes."""
        value = self.values["value"][0].reshape(self.shape)
        return ParameterFacts.of(value, trains=bool(self.slots), outside=lambda: self, axes=axes)

    def takes(self, operand: Tensor) -> bool:
        return of_records(operand, self.tape.batch)

    def spread(self, axes: int) -> Tensor:
        """Return the values for every record, `(N * rows, ...)`, with axes of 1 behind the first if activations have more."""
        values = self.values["value"]
        models, shape = values.shape[0], record_shape(self.shape)
        rows = self.tape.batch // models
        wide = (*(1,) * max(0, axes - 1 - len(self.shape)), *shape) if len(shape) == len(self.shape) else shape
        spread = self.tape.factor(values).reshape(models, 1, *wide).expand(models, rows, *wide).flatten(0, 1)
        spread = self.tape.record(self, spread.new_zeros(models, rows, 1), spread) if self.slots else spread
        return BareValue.of(spread, self.shape)

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
    """What a parameter, or what a module made of parameters alone, is for each record: `(N * rows, ...)`.

    `size` is that of one model's. A first axis of 1 before others becomes that of the records.
    """

    one_size: torch.Size
    is_derived: bool  # what a module made, not a parameter itself

    @classmethod
    def of(cls, values: Tensor, size: torch.Size, *, is_derived: bool = False) -> BareValue:
        value = values.as_subclass(cls)
        value.one_size, value.is_derived = size, is_derived
        return value

    def with_shape(self, *shape: int) -> Tensor:
        """Return the plain values as `(N * rows, *shape)`."""
        return self.as_subclass(Tensor).reshape(len(self), *shape)

    def broadcast_for(self, operand: Tensor) -> Tensor:
        """Return the values for an operation with `operand`: of as many axes as activations have, else as they are."""
        shape = record_shape(self.one_size)
        if operand.dim() <= len(shape):
            return self.as_subclass(Tensor)
        of_records(operand, len(self))
        return self.with_shape(*(1,) * (operand.dim() - 1 - len(shape)), *shape)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if ParameterFacts in types:  # which become such values first
            return NotImplemented
        # code that asks for a shape means the parameter of one model, without an axis of records
        if function in _SIZES:
            return function(torch.empty(args[0].one_size, device="meta"), *args[1:], **options)
        with torch._C.DisableTorchFunctionSubclass():
            is_pair = len(args) == 2 and Tensor in map(type, args) and function is not Tensor.__getitem__
            if is_pair and function not in _OF_RECORDS:
                return function(*_beside(*args))
            weights = args[1] if len(args) > 1 else options.get("weight")
            if function in _WEIGHTS and isinstance(weights, cls) and weights.is_derived and len(weights.one_size) > 1:
                raise UncoveredUse("weights that a module computes from parameters, which would be computed for each record")
            leaves = tree_leaves((args, options))
            tensors = [value for value in leaves if isinstance(value, Tensor)]
            if function is Tensor.__getitem__ or all(isinstance(value, cls) for value in tensors):
                spread = args[0]._over_records(function, args[1:]) if isinstance(args[0], cls) else None
                return _of_parameters(_for_each_record(function, args, options, cls)) if spread is None else spread
            if function in _OF_RECORDS and len({len(value) if value.dim() else 0 for value in tensors}) == 1:
                return _for_each_record(function, args, options, Tensor)
            if function is torch.einsum:
                args = _with_letters(*args)
            if function is F.scaled_dot_product_attention and isinstance(options.get("attn_mask"), cls):
                options["attn_mask"] = options["attn_mask"].broadcast_for(args[0])
            return function(*(_beside(*args) if is_pair else args), **options)

    def _over_records(self, function: Any, sizes: Any) -> Tensor | None:
        """Return the values repeated for all records, if that is what `function` does with `sizes`."""
        sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple) else sizes
        shape = record_shape(self.one_size)
        if function not in (Tensor.expand, Tensor.repeat) or len(sizes) != 1 + len(shape) or sizes[0] != len(self):
            return None
        return function(self.with_shape(*shape), 1 if function is Tensor.repeat else -1, *sizes[1:])  # type: ignore[no-any-return]


def _beside(first: Any, second: Any) -> tuple[Any, Any]:
    """Return both with the axes that an operation of them asks for."""
    if isinstance(first, BareValue):
        return first.broadcast_for(second), second
    return first, second.broadcast_for(first)


def _for_each_record(function: Any, args: Any, options: Mapping[str, Any], kind: type[Tensor]) -> Any:
    """Return what `function` makes of each record's part of the arguments of this `kind`."""
    leaves, form = tree_flatten((args, options))
    places = [place for place, value in enumerate(leaves) if isinstance(value, kind)]

    def compute(*values: Tensor) -> Any:
        own = dict(zip(places, values, strict=True))
        own_args, own_options = tree_unflatten([own.get(place, value) for place, value in enumerate(leaves)], form)
        return function(*own_args, **own_options)

    return torch.vmap(compute)(*(_by_record(leaves[place]) for place in places))


def _by_record(value: Any) -> Any:
    return value.with_shape(*value.one_size) if isinstance(value, BareValue) else value


def _with_letters(equation: str, *operands: Any) -> tuple[Any, ...]:
    """Return the arguments with the letter of the records, the first of activations, in front of a parameter's, too."""
    letters, _, result = equation.replace(" ", "").partition("->")
    parts = letters.split(",")
    records = next((part[0] for part, operand in zip(parts, operands, strict=True) if not isinstance(operand, BareValue)), "")
    own = [records + part if isinstance(operand, BareValue) else part for part, operand in zip(parts, operands, strict=True)]
    return (f"{','.join(own)}->{result}", *map(_by_record, operands))


def _of_parameters(results: Any) -> Any:
    """Return `results`, a value for each record or several, as what it is: made of parameters alone."""
    if isinstance(results, tuple):
        return tuple(map(_of_parameters, results))
    return BareValue.of(results, results.shape[1:], is_derived=True)


def of_records(operand: Tensor, rows: int) -> bool:
    """True if `operand` has a row per record, False if it has one for all; `UncoveredUse` else.

    In a batch of as many records as it has rows, it would be taken for activations.
    """
    length = operand.shape[0]
    if length not in (1, rows):
        raise UncoveredUse("a parameter outside of layers meets numbers that are not of records")
    return length == rows


def record_shape(size: torch.Size) -> torch.Size:
    """Return the shape of what a record has of a parameter of this `size`: without a first axis of 1 before others."""
    return size[1:] if len(size) > 1 and size[0] == 1 else size


# what makes of a record's activations and parameters what it makes of a batch's
_OF_RECORDS = {
    *PRODUCTS, F.layer_norm, F.rms_norm, F.embedding, F.conv1d, F.conv2d, torch.where, torch.lerp, torch.addcmul, Tensor.lerp,
}  # fmt: skip
_WEIGHTS = {*PRODUCTS, F.conv1d, F.conv2d}  # which take far longer with weights of each record's own
# what is answered for the parameter itself, not for its copies
_SIZES = (Tensor.shape.__get__, Tensor.ndim.__get__, Tensor.size, Tensor.dim, Tensor.numel, Tensor.__len__)  # type: ignore[attr-defined]


def holds_bare_parameters(layer: nn.Module) -> bool:
    """True if `layer` is of a user's own class and holds parameters itself."""
    return not type(layer).__module__.startswith("torch.") and any(True for _ in layer.parameters(recurse=False))


def replace_parameters(owner: nn.Module, layers: Mapping[str, BareLayer]) -> None:
    """Let `owner` find what it may know of `layers` under the names of its parameters, whenever it is called."""
    for name in layers:
        del owner._parameters[name]

    def forget(module: nn.Module, *_: Any) -> None:  # a later pass must not meet the values of this one
        for name in layers:
            module.__dict__.pop(name, None)

    def show(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        activations = next((value for value in inputs if isinstance(value, Tensor)), None)
        for name, layer in layers.items():
            if activations is None:
                raise UncoveredUse(f"'{name}' is used in a module that is given no tensor")
            module.__dict__[name] = layer.facts(activations.dim())

    owner.register_forward_pre_hook(show)
    owner.register_forward_hook(forget, always_call=True)

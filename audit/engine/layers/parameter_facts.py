"""What a module gets that asks for a parameter while N models run at once: type, place and sizes of one model's.

Products with it are made for all models together; of anything else it takes part in, there is a value for each record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_map

from audit.engine.parameter_layout import Slot


class UncoveredUse(AttributeError):
    """A module reached into a layer for something that only exists once per model, such as its weight."""


class Outside(Protocol):
    """One parameter of N models, where a module uses it outside of any layer."""

    products: Mapping[bool, Callable[[Tensor], Tensor]]  # of records with a matrix, by True with its transpose

    def takes(self, operand: Tensor) -> bool:
        """True if `operand` has a row per record of a pass, False if it has one for all; `UncoveredUse` else."""

    def spread(self, axes: int) -> Tensor:
        """Return the values for every record, beside activations with so many axes."""


class ParameterFacts(Tensor):
    """A parameter of one of the models, of which no number can be read: the other models have others."""

    outside: Callable[[], Outside] | None
    axes: int  # of the activations that it is used beside
    original: ParameterFacts | None  # what this is the transpose of
    spread: Tensor | None  # the values for every record, once they were asked for

    @classmethod
    def of(
        cls,
        value: Tensor,
        *,
        trains: bool,
        outside: Callable[[], Outside] | None,
        axes: int = 0,
        original: ParameterFacts | None = None,
    ) -> ParameterFacts:
        """Return the facts of `value`, one model's; what is not among them is asked of `outside`."""
        facts = value.detach().as_subclass(cls)
        facts.requires_grad_(trains)
        facts.outside, facts.axes, facts.original, facts.spread = outside, axes, original, None
        return facts

    def numbers(self) -> Tensor:
        """Return the values for every record; `UncoveredUse` if there is no way to."""
        if self.original is not None:
            return self.original.numbers().t()
        if self.outside is None:
            raise UncoveredUse("the numbers of a layer's parameter are used outside the layer")
        if self.spread is None:
            self.spread = self.outside().spread(self.axes)
        return self.spread

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        with torch._C.DisableTorchFunctionSubclass():
            if function in _FACTS or (function in _LIKE and not isinstance(args[0], cls)):
                return function(*args, **options)
            if _transposes(function, args):
                whole = args[0]
                return whole.original or cls.of(
                    Tensor.t(whole), trains=whole.requires_grad, outside=whole.outside, original=whole
                )
            if function is torch.einsum and len(args) == 3:
                function, args = _as_product(*args)
            product = _product(function, args)
        if product is not None:
            bias = args[2] if len(args) > 2 else options.get("bias")
            return product if bias is None else product + bias
        if options or any(isinstance(value, list | tuple) for value in args):
            args, options = tree_map(_numbers, (args, options))
        else:
            args = map(_numbers, args)
        return function(*args, **options)


def _numbers(value: Any) -> Any:
    return value.numbers() if isinstance(value, ParameterFacts) else value


def _transposes(function: Any, args: Any) -> bool:
    if not args or not isinstance(args[0], ParameterFacts) or args[0].dim() != 2:
        return False
    return function in _TRANSPOSES or (function in _SWAPS and {axis % 2 for axis in args[1:]} == {0, 1})


def _as_product(equation: str, first: Any, second: Any) -> tuple[Any, Any]:
    """Return the function and arguments of the product with a matrix that `torch.einsum` stands for, if it is one."""
    terms, _, result = equation.replace(" ", "").partition("->")
    (rows, records), (letters, matrix) = zip(terms.split(","), (first, second), strict=True)
    if isinstance(first, ParameterFacts):
        rows, records, letters, matrix = letters, matrix, rows, records
    output = letters.replace(rows[-1:], "")
    if len(letters) != 2 or len(output) != 1 or output in rows or "." in rows or result != rows[:-1] + output:
        return torch.einsum, (equation, first, second)
    return F.linear if letters[0] == output else torch.matmul, (records, matrix)


def _product(function: Any, args: Any) -> Tensor | None:
    """Return the product of records with a matrix, as a linear layer makes it; None if it is none."""
    if function not in PRODUCTS or len(args) < 2 or type(args[0]) is not Tensor or args[0].dim() < 2:
        return None
    if not isinstance(args[1], ParameterFacts) or args[1].outside is None:
        return None
    outside = args[1].outside()
    if not outside.products or not outside.takes(args[0]):
        return None
    return outside.products[(function is F.linear) == (args[1].original is None)](args[0])


class ParameterOwner(nn.Module):
    """A layer of N models. Asked for a parameter by its name in one model, it gives the parameter's facts.

    `values` is name within the layer to `(N, ...)`, `slots` the same of the trainable ones.
    """

    def __init__(self, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__()
        self.values, self.slots = dict(values), dict(slots)
        self.outside: Mapping[str, Callable[[], Outside]] = {}  # what to do where one is used outside of the layer

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            value = self.__dict__.get("values", {}).get(name)
            if value is not None:
                outside = self.__dict__["outside"].get(name)
                return ParameterFacts.of(value[0], trains=name in self.slots, outside=outside)
            if name in _OPTIONAL:
                return None
            raise UncoveredUse(f"'{name}' of a {type(self).__name__} is used outside the layer") from error


_OPTIONAL = ("weight", "bias")
_FACTS = {
    *(getattr(Tensor, name).__get__ for name in ("dtype", "device", "shape", "ndim", "requires_grad", "is_cuda")),
    *(getattr(Tensor, name) for name in ("size", "dim", "numel", "__len__", "is_floating_point", "requires_grad_")),
    *(getattr(Tensor, name) for name in ("new_zeros", "new_ones", "new_full")),
    torch.zeros_like,
    torch.ones_like,
}
_LIKE = {Tensor.to, Tensor.type_as}  # of other numbers, brought to a parameter's type and place
_TRANSPOSES = (Tensor.t, torch.t, Tensor.T.__get__, Tensor.mT.__get__)  # type: ignore[attr-defined]
_SWAPS = (Tensor.transpose, torch.transpose)
PRODUCTS = (torch.matmul, torch.mm, Tensor.matmul, Tensor.mm, Tensor.__matmul__, F.linear)

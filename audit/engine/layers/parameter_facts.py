"""What a module may ask of a layer's parameter while N models run at once: its type, its place and its sizes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class UncoveredUse(AttributeError):
    """A module reached into a layer for something that only exists once per model, such as its weight."""


class ParameterFacts(Tensor):
    """A parameter of one of the models, of which no number can be read: the other models have others."""

    @classmethod
    def of(cls, values: Tensor, requires_grad: bool) -> Tensor:
        """Return the facts of one model's part of `values` `(N, ...)`."""
        return values[0].detach().as_subclass(cls).requires_grad_(requires_grad)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function not in _FACTS and (function not in _LIKE or isinstance(args[0], cls)):
            raise UncoveredUse("the numbers of a layer's parameter are used outside the layer")
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


_FACTS = {
    *(getattr(Tensor, name).__get__ for name in ("dtype", "device", "shape", "ndim", "requires_grad", "is_cuda")),
    *(getattr(Tensor, name) for name in ("size", "dim", "numel", "__len__", "is_floating_point", "requires_grad_")),
    *(getattr(Tensor, name) for name in ("new_zeros", "new_ones", "new_full")),
    torch.zeros_like,
    torch.ones_like,
}
_LIKE = {Tensor.to, Tensor.type_as}  # of other numbers, brought to a parameter's type and place

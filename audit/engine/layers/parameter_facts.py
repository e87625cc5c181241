"""What a module may ask of a layer's parameter while N models run at once: its type, its place and its sizes."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from audit.engine.parameter_layout import Slot


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


class ParameterOwner(nn.Module):
    """A layer of N models. Asked for a parameter by its name in one model, it gives the parameter's facts.

    `values` is name within the layer to `(N, ...)`, `slots` the same of the trainable ones.
    """

    def __init__(self, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__()
        self.values, self.slots = dict(values), dict(slots)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            value = self.__dict__.get("values", {}).get(name)
            if value is not None:
                return ParameterFacts.of(value, name in self.slots)
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

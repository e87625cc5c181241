"""A module computing with other values than its own, on the way forward and back."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

Result = TypeVar("Result")


class _Around(nn.Module):
    """Hands its module to a function while it is called."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, work: Callable[[nn.Module], Result]) -> Result:
        return work(self.module)


def with_values(module: nn.Module, values: Mapping[str, Tensor], work: Callable[[nn.Module], Result]) -> Result:
    """Return what `work` gives for `module` with the parameters and buffers of `values`, name to value.

    Gradients are to be taken inside of `work`: a module that computes a part again on the way back (gradient checkpointing)
    would otherwise do so with its own values.
    """
    result: Result = torch.func.functional_call(
        _Around(module), {f"module.{name}": value for name, value in values.items()}, (work,)
    )
    return result

"""A module in another state than its own: the two modes of a model, and other values on the way forward and back."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn


class Modes:
    """Switches `module` from its layers' modes of training to evaluation and back."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._training = [(layer, layer.training) for layer in module.modules()]
        self._evaluates = False

    def train(self) -> None:
        if self._evaluates:
            self._module.train()
            for layer, mode in self._training:
                layer.training = mode
            self._evaluates = False

    def evaluate(self) -> None:
        self._module.eval()
        self._evaluates = True


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

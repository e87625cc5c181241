"""Parameters that a module of a user's own uses outside of any layer: class tokens, positions, scales, gates.

While such a module runs on N models, it sees in the place of the parameter a tensor with a row per record, which holds the
values of the record's model. So the derivative by it is each record's gradient, whatever the module does with it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from audit.engine.layers.layers import EnsembleLayer, Tape, UncoveredUse, Use
from audit.engine.parameter_layout import Slot


class BareLayer(EnsembleLayer):
    """One parameter of N models, spread over the records of a batch."""

    def __init__(self, tape: Tape, values: Tensor, slot: Slot | None) -> None:
        if values.dim() == 1:  # a single number
            values, slot = values.unsqueeze(1), None if slot is None else replace(slot, shape=torch.Size([1]))
        super().__init__(tape, {"value": values}, {} if slot is None else {"value": slot})

    def spread(self, axes: int) -> Tensor:
        """Return the values for every record, `(N * rows, ...)`, to be used beside activations with so many axes.

        A first axis of 1 before others becomes that of the records; else that is put first, and axes of 1 behind it.
        """
        values = self.values["value"]
        models, shape = values.shape[0], values.shape[1:]
        has_place = len(shape) > 1 and shape[0] == 1
        shape = shape[1:] if has_place else torch.Size((*(1,) * (axes - 1 - len(shape)), *shape))
        rows = self.tape.batch // models
        spread = self.tape.factor(values).reshape(models, 1, *shape).expand(models, rows, *shape).flatten(0, 1)
        return self.tape.record(self, spread.new_zeros(models, rows, 1), spread) if self.slots else spread

    def example_gradients(self, use: Use, signal: Tensor, rows: int) -> dict[str, Tensor]:
        views = signal.reshape(self.tape.models, rows, -1, *self.slots["value"].shape)  # of each record
        return {"value": views.sum(2)}


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

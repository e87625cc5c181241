"""Where the trainable parameters of N models are in one flat storage."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

ALIGNMENT = 16  # of rows and parameters; `Layout` says why


def align_up(count: int) -> int:
    """Return `count` rounded up to a multiple of 16, at least 16."""
    return max(ALIGNMENT, -(-count // ALIGNMENT) * ALIGNMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where one parameter is in the flat storage of `(N, width)`."""

    name: str
    shape: torch.Size
    start: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def view(self, flat: Tensor) -> Tensor:
        """The parameter of all models, `(N, *shape)`, as a view of `flat`."""
        return flat[:, self.start : self.start + self.size].view(flat.shape[0], *self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Trainable parameters in the order of `named_parameters`, each starting at a multiple of 16 numbers.

    The alignment makes every model see the same memory alignment, without which matrix kernels may order
    their sums differently for different models and results would depend on the neighbours.
    """

    slots: tuple[Slot, ...]

    @staticmethod
    def of(module: nn.Module) -> Layout:
        """The layout of the trainable parameters of `module`; a shared parameter appears once, under its first name."""
        slots, start = [], 0
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                slots.append(Slot(name=name, shape=parameter.shape, start=start))
                start += align_up(parameter.numel())
        return Layout(slots=tuple(slots))

    @property
    def parameters(self) -> int:
        return sum(slot.size for slot in self.slots)

    @property
    def width(self) -> int:
        """Numbers stored for one model, padding included."""
        return sum(align_up(slot.size) for slot in self.slots)

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The parameters `(N, *shape)` in a flat storage `(N, width)` by name, without a copy."""
        return {slot.name: slot.view(flat) for slot in self.slots}

    def columns(self) -> Tensor:
        """`(parameters,)` column of each flattened coordinate in the storage."""
        return torch.cat([torch.arange(slot.start, slot.start + slot.size) for slot in self.slots])

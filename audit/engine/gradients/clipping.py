"""Rows and clipping: the words that both ways to a clipped sum share."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn

from audit.core.seeds import Seed
from audit.engine.device import on_device
from audit.engine.losses import USUAL, RecordLoss
from audit.engine.parameter_layout import Layout
from audit.models.build import tensors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """The same number of rows for each of N models, model-major; `mask` `(N, rows)` says which rows are real.

    If nothing is clipped the mask may hold numbers, by which the rows' gradients are multiplied.
    """

    inputs: Tensor  # `(N * rows * copies, ...)`; the copies (augmentations) of one example are neighbours
    labels: Tensor  # `(N * rows * copies, ...)`
    mask: Tensor
    copies: int = 1  # the gradient of an example is the mean over its copies, clipped once
    loss: RecordLoss = USUAL  # the function to differentiate
    records: Tensor | None = None  # what the whole module takes, if `inputs` are features that its frozen part makes of them

    def whole(self, places: slice | Tensor) -> Rows:
        """Return some rows as the whole module takes them, in the order of `places`."""
        inputs = self.inputs if self.records is None else self.records
        return replace(self, inputs=inputs[places], labels=self.labels[places], records=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """One example's gradient is scaled to l2 norm `norm` at most: as a whole, or each of L layers to `norm / sqrt(L)`.

    `norm` is one number for all models, or `(N, 1)`.
    """

    norm: float | Tensor
    per_layer: bool = False

    def of_model(self, model: int) -> Clip:
        return Clip(norm=self.norm[model], per_layer=self.per_layer) if isinstance(self.norm, Tensor) else self


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clipping:
    """What happened to each row, `(N, rows)`: its gradient's norm before clipping and after.

    `finite` says that all norms are known to be; those of padding count too.
    """

    norms: Tensor
    left: Tensor
    finite: bool


class Gradients(Protocol):
    """N models of one architecture; their flat parameters `(N, width)` are updated in place from outside.

    `random` says that the forward pass draws numbers (dropout); `begin` then sets the streams of one step. `module` is what
    `forward` runs: once for all models, or once for each.
    """

    layout: Layout
    flat: Tensor
    random: bool
    module: nn.Module

    def begin(self, seeds: Sequence[Seed]) -> None: ...

    def forward(self, inputs: Tensor) -> Tensor:
        """`(N * rows, outputs)` for folded inputs, in evaluation mode and without gradients."""

    def add_sum(self, rows: Rows, clip: Clip | None, total: Tensor) -> Clipping | None:
        """Adds each model's sum of (clipped) example gradients to `total`; None if nothing was clipped."""

    def state(self) -> dict[str, Tensor]:
        """Name to `(N, ...)`, as it is."""


def clip_factors(norms: Tensor, clip_norm: float | Tensor, mask: Tensor) -> Tensor:
    """`min(1, clip_norm / norm)`, and exactly 0 for rows that are padding or have a norm that is not finite."""
    return (clip_norm / norms).clamp_(max=1.0).nan_to_num_(nan=0.0).mul_(mask)  # over 0: infinite, so 1


def clip_layers(squares: Mapping[str, Tensor], clip: Clip, mask: Tensor, *, layers: int) -> tuple[Clipping, dict[str, Tensor]]:
    """Return what clipping does to rows with these squared norms of their layers `(N, rows)`, and the factor of each layer.

    `layers` is the number of layers with parameters, taking part or not: a constant of the model.
    """
    norms = functools.reduce(torch.add, squares.values()).sqrt()
    if not clip.per_layer:
        shared_factors = clip_factors(norms, clip.norm, mask)
        clipped_norms = (norms * shared_factors).nan_to_num_(nan=0.0)
        return Clipping(norms=norms, left=clipped_norms, finite=all_finite(norms)), dict.fromkeys(squares, shared_factors)
    real = mask & norms.isfinite()
    factors = {layer: clip_factors(square.sqrt(), clip.norm / layers**0.5, real) for layer, square in squares.items()}
    # a factor is 0 where a norm may be infinite: their product would be NaN
    parts = [torch.where(factors[layer] > 0, square * factors[layer] ** 2, 0.0) for layer, square in squares.items()]
    return Clipping(norms=norms, left=torch.stack(parts).sum(0).sqrt(), finite=all_finite(norms)), factors


def all_finite(values: Tensor) -> bool:
    """True if all numbers are finite. On a device no one looks, which would make the host wait, and the answer is no."""
    if on_device(values):
        return False
    return math.isfinite(float(values.sum()))  # an overflowing sum says no too, which only costs time


def accumulate(squares: dict[str, Tensor], layer: str, addition: Tensor) -> None:
    squares[layer] = squares[layer] + addition if layer in squares else addition


def owner(parameter: str) -> str:
    """Path of the layer that a parameter belongs to."""
    return parameter.rpartition(".")[0]


def stacked_state(modules: list[nn.Module], dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
    """Parameters and buffers of `modules`, name to `(N, ...)`; floating ones as `dtype`. A shared one appears once.

    Each model's values start at a multiple of 64 bytes: products order their sums by the alignment of their operands.
    """
    tables = [tensors(module) for module in modules]
    columns = {}
    for name, value in tables[0].items():
        kind = dtype if value.is_floating_point() else value.dtype
        step = -(-value.numel() * kind.itemsize // 64) * 64 // kind.itemsize
        column = torch.zeros(len(tables), step, dtype=kind, device=device)[:, : value.numel()].view(len(tables), *value.shape)
        for place, table in zip(column, tables, strict=True):
            place.copy_(table[name].detach())
        columns[name] = column
    return columns


def flat_storage(layout: Layout, state: Mapping[str, Tensor]) -> Tensor:
    """`(N, width)` storage filled with the trainable parameters of `state`."""
    reference = state[layout.slots[0].name]
    flat = torch.zeros(reference.shape[0], layout.width, dtype=reference.dtype, device=reference.device)
    for name, place in layout.views(flat).items():
        place.copy_(state[name])
    return flat

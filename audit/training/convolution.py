"""Convolutions of N models: as matrix products over patches, or directly where there are many channels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.training.layers import EnsembleLayer, MatrixLayer, Slot, Tape, Use
from audit.training.products import add_outer

_MANY_CHANNELS = 16
_PATCH_NUMBERS = 1 << 21


class _Unfold(torch.autograd.Function):
    """Patches of an image in channels-last order: `(n, h, w, c)` to `(n, out_h, out_w, kernel_h, kernel_w, c)`."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, geometry: Geometry) -> Tensor:  # type: ignore[override]
        ctx.geometry, ctx.shape = geometry, inputs.shape
        (top, left) = geometry.padding
        padded = F.pad(inputs, (0, 0, left, left, top, top)) if top or left else inputs.contiguous()
        count, height, width, planes = padded.shape
        out_h, out_w = geometry.out(height, width)
        (sn, sh, sw, sc) = padded.stride()
        (stride_h, stride_w), (dil_h, dil_w) = geometry.stride, geometry.dilation
        return padded.as_strided(
            (count, out_h, out_w, *geometry.kernel, planes),
            (sn, sh * stride_h, sw * stride_w, sh * dil_h, sw * dil_w, sc),
        ).contiguous()

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        geometry: Geometry = ctx.geometry
        count, height, width, planes = ctx.shape
        (top, left), (stride_h, stride_w), (dil_h, dil_w) = geometry.padding, geometry.stride, geometry.dilation
        out_h, out_w = signal.shape[1:3]
        padded = signal.new_zeros(count, height + 2 * top, width + 2 * left, planes)
        for i in range(geometry.kernel[0]):
            for j in range(geometry.kernel[1]):
                rows = slice(i * dil_h, i * dil_h + stride_h * (out_h - 1) + 1, stride_h)
                cols = slice(j * dil_w, j * dil_w + stride_w * (out_w - 1) + 1, stride_w)
                padded[:, rows, cols].add_(signal[:, :, :, i, j])
        return padded[:, top : top + height, left : left + width], None


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """What a convolution does besides its weights."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    def out(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the result, for a padded image."""
        sizes = zip((height, width), self.kernel, self.stride, self.dilation, strict=True)
        rows, cols = ((size - dilation * (kernel - 1) - 1) // stride + 1 for size, kernel, stride, dilation in sizes)
        return rows, cols

    def backward(self, signal: Tensor, inputs: Tensor, weight: Tensor, wanted: tuple[bool, bool]) -> tuple[Tensor, Tensor]:
        """Derivatives by inputs and weight of one model, those that are `wanted`."""
        found: list[Tensor] = torch.ops.aten.convolution_backward(
            signal, inputs, weight, None, self.stride, self.padding, self.dilation, False, (0, 0), 1, (*wanted, False)
        )
        return found[0], found[1]


class ConvLayer(MatrixLayer):
    """`nn.Conv2d` of N models: patches in channels-last order, then one matrix product a model.

    The result has channels-last strides, so a chain of convolutions copies nothing but its patches.
    """

    def __init__(self, plain: nn.Conv2d, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(tape, values, slots)
        self.outputs = plain.out_channels
        self.inner = (*plain.kernel_size, plain.in_channels)
        self.geometry = geometry_of(plain)

    def weight_rows(self) -> Tensor:
        weight = self.values["weight"]
        return weight.permute(0, 1, 3, 4, 2).reshape(weight.shape[0], self.outputs, -1)

    def to_weight(self, gradient: Tensor) -> Tensor:
        shaped: Tensor = gradient.unflatten(-1, self.inner).movedim(-1, -3)
        return shaped

    def add_weight(self, signal: Tensor, columns: Tensor, total: Tensor) -> None:
        summed = signal.new_zeros(signal.shape[0], self.outputs, columns.shape[2])
        add_outer(summed, signal, columns)
        self.slots["weight"].view(total).add_(self.to_weight(summed))

    def forward(self, inputs: Tensor) -> Tensor:
        patches = _Unfold.apply(inputs.permute(0, 2, 3, 1), self.geometry)
        images, out_h, out_w = patches.shape[:3]
        made = self.product(patches.view(self.tape.models, -1, math.prod(self.inner)))
        return made.view(images, out_h, out_w, self.outputs).permute(0, 3, 1, 2)


class DirectConvLayer(EnsembleLayer):
    """`nn.Conv2d` of N models with many channels: one library convolution a model.

    Patches are made only for the per-example norms, for a few examples at a time, and not kept: the clipped sum
    is one more library convolution over the signals scaled by the factors.
    """

    def __init__(self, plain: nn.Conv2d, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(tape, values, slots)
        self.outputs = plain.out_channels
        self.inner = (*plain.kernel_size, plain.in_channels)
        self.geometry = geometry_of(plain)

    def forward(self, inputs: Tensor) -> Tensor:
        weight, bias = self.values["weight"], self.values.get("bias")
        made: Tensor = _Direct.apply(inputs, weight, bias, self.geometry)
        return self.tape.record(self, inputs, made) if self.slots else made

    def _few(self, rows: int, positions: int) -> int:
        return max(1, min(rows, _PATCH_NUMBERS // (positions * math.prod(self.inner))))

    def _gradients(self, saved: Tensor, signal: Tensor, rows: int) -> dict[str, Tensor]:
        """Role to `(rows, ...)`; the weight's as `(rows, outputs, patch)`."""
        made = {}
        signals = signal.flatten(2).unflatten(0, (rows, -1)).transpose(1, 2).flatten(2)
        if "weight" in self.slots:
            patches = _Unfold.apply(saved.permute(0, 2, 3, 1), self.geometry)
            made["weight"] = torch.bmm(signals, patches.reshape(rows, -1, math.prod(self.inner)))
        if "bias" in self.slots:
            made["bias"] = signals.sum(2)
        return made

    def squared_norms(self, use: Use, signal: Tensor, rows: int) -> Tensor:
        total = self.tape.models * rows
        copies = len(signal) // total
        few = self._few(total, copies * signal.shape[2] * signal.shape[3])
        parts = []
        for start in range(0, total, few):
            stop = min(start + few, total)
            piece = slice(start * copies, stop * copies)
            found = self._gradients(use.saved[piece], signal[piece], stop - start)
            parts.append(torch.stack([gradient.flatten(1).square().sum(1) for gradient in found.values()]).sum(0))
        return torch.cat(parts).view(self.tape.models, rows)

    def example_gradients(self, use: Use, signal: Tensor, rows: int) -> dict[str, Tensor]:
        found = self._gradients(use.saved, signal, self.tape.models * rows)
        if "weight" in found:
            found["weight"] = found["weight"].unflatten(-1, self.inner).movedim(-1, -3)
        return {role: gradient.unflatten(0, (self.tape.models, rows)) for role, gradient in found.items()}

    def add_weighted(self, use: Use, signal: Tensor, factors: Tensor | None, total: Tensor) -> None:
        if factors is not None:
            copies = len(signal) // factors.numel()
            signal = signal * factors.flatten().repeat_interleave(copies).view(-1, 1, 1, 1)
        if "bias" in self.slots:
            self.slots["bias"].view(total).add_(signal.sum((2, 3)).unflatten(0, (self.tape.models, -1)).sum(1))
        if "weight" in self.slots:
            place = self.slots["weight"].view(total)
            weights, kept = self.values["weight"], use.saved.unflatten(0, (self.tape.models, -1))
            for model, one in enumerate(signal.unflatten(0, (self.tape.models, -1))):
                place[model] += self.geometry.backward(one, kept[model], weights[model], (False, True))[1]


class _Direct(torch.autograd.Function):
    """One library convolution a model, differentiable in the inputs."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(inputs, weight)
        ctx.geometry = geometry
        biases = [None] * len(weight) if bias is None else list(bias)
        parts = inputs.unflatten(0, (len(weight), -1))
        options = (geometry.stride, geometry.padding, geometry.dilation)
        made = [F.conv2d(one, kernel, shift, *options) for one, kernel, shift in zip(parts, weight, biases, strict=True)]
        return torch.cat(made)

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        inputs, weight = ctx.saved_tensors
        parts = zip(*(x.unflatten(0, (len(weight), -1)) for x in (signal, inputs)), weight, strict=True)
        return torch.cat([ctx.geometry.backward(*one, (True, False))[0] for one in parts]), None, None, None


def convolution_layer(plain: nn.Conv2d, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> EnsembleLayer:
    """The faster of the two ways for the channels of `plain`."""
    many = min(plain.in_channels, plain.out_channels) >= _MANY_CHANNELS
    return (DirectConvLayer if many else ConvLayer)(plain, tape, values, slots)


def geometry_of(plain: nn.Conv2d) -> Geometry:
    """Kernel, stride, padding and dilation of `plain`."""
    return Geometry(
        kernel=(plain.kernel_size[0], plain.kernel_size[1]),
        stride=(plain.stride[0], plain.stride[1]),
        padding=_padding(plain),
        dilation=(plain.dilation[0], plain.dilation[1]),
    )


def _padding(plain: nn.Conv2d) -> tuple[int, int]:
    if plain.padding == "valid":
        return 0, 0
    if isinstance(plain.padding, str):
        sizes = zip(plain.kernel_size, plain.dilation, strict=True)
        top, left = (dilation * (kernel - 1) // 2 for kernel, dilation in sizes)
        return top, left
    return plain.padding[0], plain.padding[1]

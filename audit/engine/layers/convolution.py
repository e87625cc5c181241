"""Convolutions of N models: as matrix products over patches, or on a CPU directly if there are many channels."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.engine.device import on_device
from audit.engine.layers.batched_matmul import rowwise
from audit.engine.layers.convolution_direct import DirectConvLayer
from audit.engine.layers.convolution_library import LibraryConvLayer
from audit.engine.layers.convolution_patches import ImageProducts, PatchRows, read_geometry
from audit.engine.layers.layers import MatrixLayer, Tape, Use
from audit.engine.layers.parameter_facts import ParameterOwner
from audit.engine.parameter_layout import Slot

_MANY_CHANNELS = 16, 8  # in and out, from which the library is faster: 15.5 ms a step for 21.8 with 32 in and 8 out
_FEW_POSITIONS = 16


class _Product(torch.autograd.Function):
    """What `product` makes of the patches of images, differentiable by `back` in the images before their padding."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, product: Callable[[], Tensor], back: Callable[[Tensor], Tensor]) -> Tensor:  # type: ignore[override]
        ctx.back = back
        return product()

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        return ctx.back(signal), None, None


class ConvLayer(MatrixLayer):
    """`nn.Conv2d` of N models, as matrix products over patches.

    If an image has many positions there is one product an image, with the channels first as the module has them;
    the use keeps the padded images, `(N, n, c, h, w)`, and makes their patches anew for the norms. If it has few,
    there is one product a model, with all positions of all images as rows; weights would be read too often otherwise.
    """

    def __init__(self, plain: nn.Conv2d, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(tape, values, slots)
        self.outputs = plain.out_channels
        self.groups = plain.groups
        self.inner = (plain.in_channels // plain.groups, *plain.kernel_size)
        self.geometry = read_geometry(plain)

    def weight_rows(self) -> Tensor:
        return self.values["weight"].flatten(2)

    def to_weight(self, gradient: Tensor) -> Tensor:
        weight_gradient: Tensor = gradient.unflatten(-1, self.inner)
        return weight_gradient

    def forward(self, inputs: Tensor) -> Tensor:
        inputs = self.tape.factor(inputs)
        padded_images = self.geometry.pad(inputs.detach())
        out_h, out_w = self.geometry.out(*padded_images.shape[2:])
        # on a device weights are copied to all images of a block, which is cheap beside patches of many positions
        few_positions = self.groups == 1 and out_h * out_w < (self.outputs if on_device(inputs) else _FEW_POSITIONS)
        if few_positions and not on_device(inputs):
            patches = PatchRows.apply(inputs, self.geometry)
            rows = self.product(patches.view(self.tape.models, -1, patches.shape[2]))
            return rows.view(-1, out_h, out_w, self.outputs).permute(0, 3, 1, 2)
        arithmetic = self._arithmetic(inputs.shape[1:], out_h * out_w, inputs.dtype)
        if few_positions:
            patches = (
                self.geometry.patches(padded_images, positions_first=True).unflatten(0, (self.tape.models, -1)).flatten(1, 2)
            )
            weight, bias = arithmetic.weight.squeeze(1), self.bias_factor()
            rows = _Product.apply(inputs, lambda: rowwise(patches, weight, bias), arithmetic.pull_rows_back)
            rows = self.tape.record(self, patches, rows) if self.slots else rows
            return rows.view(-1, out_h, out_w, self.outputs).permute(0, 3, 1, 2)
        images = _Product.apply(inputs, lambda: arithmetic.product(padded_images, self.bias_factor()), arithmetic.back)
        product: Tensor = images.unflatten(0, (self.tape.models, -1))
        if self.slots:
            product = self.tape.record(self, padded_images.unflatten(0, (self.tape.models, -1)), product)
        return product.view(-1, self.outputs, out_h, out_w)

    def _arithmetic(self, shape: torch.Size, positions: int, dtype: torch.dtype) -> ImageProducts:
        weight = self.weight_rows().to(dtype).unflatten(1, (self.groups, -1))
        return ImageProducts(geometry=self.geometry, weight=weight, shape=shape, positions=positions)

    def squared_norms(self, use: Use, signal: Tensor, rows: int) -> Tensor:
        if use.inputs.dim() == 3:
            return super().squared_norms(use, signal, rows)
        single_image = use.inputs.shape[1] == rows and self.groups == 1 and "weight" in self.slots
        # clipped sums of images come from their gradients anyhow, which a device need not make a second time
        if not single_image or on_device(signal) or not self.takes_ghost(signal.shape[3], math.prod(self.inner), rows):
            return self._whole_norms(use, signal, rows)
        arithmetic = self._arithmetic(use.inputs.shape[2:], signal.shape[3], signal.dtype)
        bias = 1.0 if "bias" in self.slots else 0.0
        squares, cancellation = arithmetic.ghost_norms(use.inputs.flatten(0, 1), signal.flatten(0, 1), bias)
        squares = squares.view(-1, rows)
        return squares if cancellation is None else self._without_cancellation(use, signal, squares, cancellation)

    def _positions(self, use: Use, signal: Tensor, examples: Tensor, rows: int) -> tuple[Tensor, Tensor]:
        if use.inputs.dim() == 3:
            return super()._positions(use, signal, examples, rows)
        patches = self.geometry.patches(use.inputs.flatten(0, 1)[examples], positions_first=True)
        return patches, signal.flatten(0, 1)[examples].transpose(1, 2)

    def _raw_gradients(self, use: Use, signal: Tensor, rows: int) -> dict[str, Tensor]:
        if use.inputs.dim() == 3:
            return super()._raw_gradients(use, signal, rows)
        models, gradients = self.tape.models, {}
        if "weight" in self.slots:
            arithmetic = self._arithmetic(use.inputs.shape[2:], signal.shape[3], signal.dtype)
            with self.tape.short_kernels():
                products = arithmetic.gradients(use.inputs.flatten(0, 1), signal.flatten(0, 1))
            copies = products.view(models, rows, -1, *products.shape[1:])
            gradients["weight"] = copies[:, :, 0] if copies.shape[2] == 1 else copies.sum(2)
        if "bias" in self.slots:
            gradients["bias"] = signal.reshape(models, rows, -1, self.outputs, signal.shape[3]).sum((2, 4))
        return gradients

    def add_weighted(self, use: Use, signal: Tensor, factors: Tensor | None, total: Tensor) -> None:
        if use.inputs.dim() == 5 and use.cancellation is not None:
            signal, use.cancellation = use.add_cancellation(signal, factors, total), None
        if use.inputs.dim() == 5 and not use.gradients:
            use.gradients = self._raw_gradients(use, signal, signal.shape[1] if factors is None else factors.shape[1])
        if factors is None and use.gradients:
            for role, gradient in use.gradients.items():
                total_gradient = gradient.sum(1)
                self.slots[role].view(total).add_(self.to_weight(total_gradient) if role == "weight" else total_gradient)
            return
        super().add_weighted(use, signal, factors, total)


class SequenceConvolution(ParameterOwner):
    """`nn.Conv1d` of N models: a convolution of images that are one number high."""

    def __init__(self, plain: nn.Conv1d, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(values, slots)
        (size,), (stride,), (dilation,) = plain.kernel_size, plain.stride, plain.dilation
        image = nn.Conv2d(
            plain.in_channels,
            plain.out_channels,
            (1, size),
            stride=(1, stride),
            padding=plain.padding if isinstance(plain.padding, str) else (0, plain.padding[0]),
            dilation=(1, dilation),
            groups=plain.groups,
            bias=plain.bias is not None,
            device="meta",
        )
        slots = {role: replace(slot, shape=_as_image(slot.shape)) for role, slot in slots.items()}
        values = {role: value.view(len(value), *_as_image(value.shape[1:])) for role, value in values.items()}
        self.layer = convolution_layer(image, tape, values, slots)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layer(inputs.unsqueeze(-2)).squeeze(-2)
        return outputs


def _as_image(shape: torch.Size) -> torch.Size:
    """Return the shape of a weight or bias of a convolution of sequences as that of one of images."""
    return torch.Size((*shape[:2], 1, *shape[2:])) if len(shape) == 3 else shape


class PaddedConvolution(ParameterOwner):
    """A convolution of N models with margins that are not zeros, or differ from one end to the other: made before it."""

    def __init__(self, plain: Any, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(values, slots)
        self.margins = plain._reversed_padding_repeated_twice
        self.mode = "constant" if plain.padding_mode == "zeros" else plain.padding_mode
        inner = copy.copy(plain)
        inner.padding, inner.padding_mode = (0,) * len(plain.kernel_size), "zeros"
        self.layer = convolution_layer(inner, tape, values, slots)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layer(F.pad(inputs, self.margins, mode=self.mode))
        return outputs


def convolution_layer(plain: Any, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> ParameterOwner:
    """The fastest way for the axes, groups and channels of `plain`."""
    make: Callable[..., ParameterOwner]
    device = on_device(values["weight"])
    if not has_even_margins(plain):
        make = PaddedConvolution
    elif isinstance(plain, nn.Conv1d):
        make = SequenceConvolution
    elif not isinstance(plain, nn.Conv2d) or (plain.groups > 1 and not device):
        make = LibraryConvLayer
    else:
        is_wide = plain.in_channels >= _MANY_CHANNELS[0] and plain.out_channels >= _MANY_CHANNELS[1]
        make = DirectConvLayer if is_wide and not device else ConvLayer
    return make(plain, tape, values, slots)


def has_even_margins(plain: Any) -> bool:
    """True if `plain` has zeros of the same number on both sides; "same" of an even kernel has not."""
    return plain.padding_mode == "zeros" and (plain.padding != "same" or all(size % 2 for size in plain.kernel_size))

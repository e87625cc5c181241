"""Convolutions of N models: as matrix products over patches, or directly where there are many channels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.engine.convolution_patches import Geometry, ImageProducts, PatchRows, numbers_in_cache
from audit.engine.layers import EnsembleLayer, MatrixLayer, Tape, Use
from audit.engine.parameter_layout import Slot

_MANY_CHANNELS = 16  # in and out, from which the library is faster (measured: docs/performance.md)
_FEW_POSITIONS = 16
_PATCH_NUMBERS = 1 << 21
_ROUNDING = 2.0**-20  # share of its terms below which rounding moves a library's sum by more than 1e-4 of it


class _PatchProduct(torch.autograd.Function):
    """`ImageProducts.product`, differentiable in the images before their padding."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, padded_images: Tensor, bias: Tensor | None, layer: ImageProducts) -> Tensor:  # type: ignore[override]
        ctx.layer = layer
        return layer.product(padded_images, bias)

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        return ctx.layer.back(signal), None, None, None


class ConvLayer(MatrixLayer):
    """`nn.Conv2d` of N models, as matrix products over patches.

    Where an image has many positions there is one product an image, with the channels first as the module has them;
    the use keeps the padded images, `(N, n, c, h, w)`, and makes their patches anew for the norms. Where it has few,
    there is one product a model, with all positions of all images as rows; weights would be read too often otherwise.
    """

    def __init__(self, plain: nn.Conv2d, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(tape, values, slots)
        self.outputs = plain.out_channels
        self.groups = plain.groups
        self.inner = (plain.in_channels // plain.groups, *plain.kernel_size)
        self.geometry = geometry_of(plain)

    def weight_rows(self) -> Tensor:
        return self.values["weight"].flatten(2)

    def to_weight(self, gradient: Tensor) -> Tensor:
        weight_gradient: Tensor = gradient.unflatten(-1, self.inner)
        return weight_gradient

    def forward(self, inputs: Tensor) -> Tensor:
        inputs = self.tape.factor(inputs)
        padded_images = self.geometry.pad(inputs.detach())
        out_h, out_w = self.geometry.out(*padded_images.shape[2:])
        if self.groups == 1 and out_h * out_w < _FEW_POSITIONS:
            patches = PatchRows.apply(inputs, self.geometry)
            rows = self.product(patches.view(self.tape.models, -1, patches.shape[2]))
            return rows.view(-1, out_h, out_w, self.outputs).permute(0, 3, 1, 2)
        arithmetic = self._arithmetic(inputs.shape[1:], out_h * out_w, inputs.dtype)
        product: Tensor = _PatchProduct.apply(inputs, padded_images, self.bias(), arithmetic).unflatten(
            0, (self.tape.models, -1)
        )
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
        if not single_image or not self.takes_ghost(signal.shape[3], math.prod(self.inner)):
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


class DirectConvLayer(EnsembleLayer):
    """`nn.Conv2d` of N models with many channels: one library convolution a model.

    Patches are made only for the per-example norms, for a few examples at a time, and not kept: the clipped sum
    is one more library convolution over the signals scaled by the factors.
    """

    def __init__(self, plain: nn.Conv2d, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(tape, values, slots)
        self.outputs = plain.out_channels
        self.inner = (plain.in_channels, *plain.kernel_size)
        self.geometry = geometry_of(plain)

    def forward(self, inputs: Tensor) -> Tensor:
        inputs, weight = self.tape.factor(inputs), self.tape.factor(self.values["weight"])
        product: Tensor = _Direct.apply(inputs, weight, self.bias(), self.geometry)
        return self.tape.record(self, inputs, product) if self.slots else product

    def _batch(self, rows: int, positions: int) -> int:
        fitting = numbers_in_cache(self.values["weight"].device, _PATCH_NUMBERS)
        return max(1, min(rows, fitting // (positions * math.prod(self.inner))))

    def _gradients(self, inputs: Tensor, signal: Tensor, rows: int) -> dict[str, Tensor]:
        """Role to `(rows, ...)`; the weight's as `(rows, outputs, patch)`."""
        gradients = {}
        signals = signal.flatten(2).unflatten(0, (rows, -1)).transpose(1, 2).flatten(2)
        if "weight" in self.slots:
            patches = self.geometry.patches(self.geometry.pad(inputs), positions_first=True)
            gradients["weight"] = torch.bmm(signals, patches.reshape(rows, -1, patches.shape[2]))
        if "bias" in self.slots:
            gradients["bias"] = signals.sum(2)
        return gradients

    def squared_norms(self, use: Use, signal: Tensor, rows: int) -> Tensor:
        total = self.tape.models * rows
        copies = len(signal) // total
        batch = self._batch(total, copies * signal.shape[2] * signal.shape[3])
        parts = []
        for start in range(0, total, batch):
            stop = min(start + batch, total)
            piece = slice(start * copies, stop * copies)
            gradients_by_role = self._gradients(use.inputs[piece], signal[piece], stop - start)
            parts.append(torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients_by_role.values()]).sum(0))
        squares = torch.cat(parts).view(self.tape.models, rows)
        if squares.dtype == torch.float64 or squares.device.type != "cpu":
            return squares
        sizes = use.inputs.view(total, -1).square().sum(1) * signal.reshape(total, -1).square().sum(1)
        cancellation = squares.flatten() < _ROUNDING * math.prod(self.geometry.kernel) * sizes
        if not bool(cancellation.any()):
            return squares
        examples = cancellation.nonzero().flatten()
        views = use.inputs.view(total, copies, *use.inputs.shape[1:])[examples].flatten(0, 1)
        own = signal.reshape(total, copies, *signal.shape[1:])[examples].flatten(0, 1)
        gradients = self._gradients(views.double(), own.double(), len(examples))
        if "weight" in gradients:
            gradients["weight"] = gradients["weight"].unflatten(-1, self.inner)
        return use.keep(examples, {role: gradient.to(signal.dtype) for role, gradient in gradients.items()}, signal, squares)

    def example_gradients(self, use: Use, signal: Tensor, rows: int) -> dict[str, Tensor]:
        gradients_by_role = self._gradients(use.inputs, signal, self.tape.models * rows)
        if "weight" in gradients_by_role:
            gradients_by_role["weight"] = gradients_by_role["weight"].unflatten(-1, self.inner)
        return {role: gradient.unflatten(0, (self.tape.models, rows)) for role, gradient in gradients_by_role.items()}

    def add_weighted(self, use: Use, signal: Tensor, factors: Tensor | None, total: Tensor) -> None:
        if factors is not None:
            signal = use.add_cancellation(signal, factors, total)
            copies = len(signal) // factors.numel()
            signal = signal * factors.flatten().repeat_interleave(copies).view(-1, 1, 1, 1)
        if "bias" in self.slots:
            self.slots["bias"].view(total).add_(signal.sum((2, 3)).unflatten(0, (self.tape.models, -1)).sum(1))
        if "weight" in self.slots:
            place, models = self.slots["weight"].view(total), self.tape.models
            if in_one_call(signal):
                operands = (in_groups(signal, models), in_groups(use.inputs, models))
                kernels = self.values["weight"].flatten(0, 1)
                place.add_(self.geometry.backward(*operands, kernels, (False, True), models)[1].view(place.shape))
                return
            weights, patches = self.values["weight"], use.inputs.unflatten(0, (self.tape.models, -1))
            for model, model_signal in enumerate(signal.unflatten(0, (self.tape.models, -1))):
                place[model] += self.geometry.backward(model_signal, patches[model], weights[model], (False, True))[1]


def in_one_call(like: Tensor) -> bool:
    """True where the models' convolutions are one call with a group for each: on a device, whose calls cost more than work."""
    return like.device.type != "cpu"


def in_groups(images: Tensor, models: int) -> Tensor:
    """`(rows, models * channels, h, w)` from `(models * rows, channels, h, w)`."""
    group_images: Tensor = images.unflatten(0, (models, -1)).transpose(0, 1).flatten(1, 2)
    return group_images


def out_of_groups(images: Tensor, models: int) -> Tensor:
    """Undoes `in_groups`."""
    apart: Tensor = images.unflatten(1, (models, -1)).transpose(0, 1).flatten(0, 1)
    return apart


class _Direct(torch.autograd.Function):
    """One library convolution a model, or one for all of them, differentiable in the inputs."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(inputs, weight)
        ctx.geometry = geometry
        if in_one_call(inputs):
            shifts = None if bias is None else bias.flatten()
            group_images, kernels = in_groups(inputs, len(weight)), weight.flatten(0, 1)
            shape = (geometry.stride, geometry.padding, geometry.dilation, len(weight))
            return out_of_groups(F.conv2d(group_images, kernels, shifts, *shape), len(weight))
        biases = [None] * len(weight) if bias is None else list(bias)
        parts = inputs.unflatten(0, (len(weight), -1))
        options = (geometry.stride, geometry.padding, geometry.dilation)
        products = [F.conv2d(part, kernel, shift, *options) for part, kernel, shift in zip(parts, weight, biases, strict=True)]
        return torch.cat(products)

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        inputs, weight = ctx.saved_tensors
        if in_one_call(signal):
            models = len(weight)
            operands = (in_groups(signal, models), in_groups(inputs, models))
            back = ctx.geometry.backward(*operands, weight.flatten(0, 1), (True, False), models)[0]
            return out_of_groups(back, models), None, None, None
        parts = zip(*(x.unflatten(0, (len(weight), -1)) for x in (signal, inputs)), weight, strict=True)
        return torch.cat([ctx.geometry.backward(*part, (True, False))[0] for part in parts]), None, None, None


def convolution_layer(plain: nn.Conv2d, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> EnsembleLayer:
    """The faster of the two ways for the channels of `plain`."""
    wide = min(plain.in_channels, plain.out_channels) >= _MANY_CHANNELS and plain.groups == 1
    return (DirectConvLayer if wide else ConvLayer)(plain, tape, values, slots)


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
        # "same" with an even kernel, whose margins differ, is refused by `audit.engine.layer_map`
        top, left = (dilation * (kernel - 1) // 2 for kernel, dilation in sizes)
        return top, left
    return plain.padding[0], plain.padding[1]

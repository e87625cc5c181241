"""Convolutions of N models in groups, of volumes and transposed ones: one call of the library a model."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from audit.engine.layers.convolution_direct import merge_models
from audit.engine.layers.convolution_examples import examples_as_channels
from audit.engine.layers.convolution_patches import margins
from audit.engine.layers.layers import EnsembleLayer, Tape, Use
from audit.engine.parameter_layout import ALIGNMENT, Slot

# of a kernel with one channel in and out, from which signals are taken along images as kernels are: 2 to 13 times as fast as
# the library's own derivative, which is level at nine (measured: docs/evidence/speed.md)
_LARGE_KERNEL = 25


class LibraryConvLayer(EnsembleLayer):
    """A convolution with any number of axes and groups, also a transposed one, of N models.

    Gradients of examples come from calls in which every example is a group of channels, and are kept for the clipped sum.
    """

    def __init__(self, plain: Any, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(tape, values, slots)
        self.groups = plain.groups
        self.options = (plain.stride, margins(plain), plain.dilation, plain.transposed, plain.output_padding)

    def forward(self, inputs: Tensor) -> Tensor:
        inputs, weight = self.tape.factor(inputs), self.tape.factor(self.values["weight"])
        product: Tensor = _ByLibrary.apply(inputs, weight, self.bias_factor(), (*self.options, self.groups))
        return self.tape.record(self, inputs, product) if self.slots else product

    def example_gradients(self, use: Use, signal: Tensor, rows: int) -> dict[str, Tensor]:
        models, gradients = self.tape.models, {}
        if "weight" in self.slots:
            with self.tape.short_kernels():
                parts = [
                    self._weight_gradients(use.inputs, signal, rows, start) for start in range(0, models * rows, ALIGNMENT)
                ]
            gradients["weight"] = torch.cat(parts).view(models, rows, *self.slots["weight"].shape)
        if "bias" in self.slots:
            gradients["bias"] = signal.reshape(models, rows, -1, *signal.shape[1:]).flatten(4).sum((2, 4))
        return gradients

    def _weight_gradients(self, inputs: Tensor, signal: Tensor, rows: int, start: int) -> Tensor:
        """Return the gradients of 16 examples of all, so that one's bits do not depend on how many there are."""
        total, shape = self.tape.models * rows, self.slots["weight"].shape
        count, copies = min(ALIGNMENT, total - start), len(inputs) // total
        piece = slice(start * copies, (start + count) * copies)
        stride, padding, dilation, is_transposed, output_padding = self.options
        if math.prod(shape[1:]) >= _LARGE_KERNEL and shape[:2] == (self.groups, 1) and not is_transposed:
            images = examples_as_channels(inputs[piece], count * copies)
            kernels = signal[piece].flatten(0, 1).unsqueeze(1).contiguous()
            sizes = (dilation, padding, stride, False, output_padding, len(kernels))
            gradient: Tensor = torch.ops.aten.convolution(images, kernels, None, *sizes)
            for axis, size in enumerate(shape[2:], 2):
                gradient = gradient.narrow(axis, 0, size)
            return gradient.reshape(count, copies, *shape).sum(1)
        images, signals = (examples_as_channels(values[piece], count) for values in (inputs, signal))
        kernels = signal.new_empty(count * shape[0], *shape[1:])  # of which only the shape is read
        options = (*self.options, count * self.groups, (False, True, False))
        gradients: list[Tensor] = torch.ops.aten.convolution_backward(signals, images, kernels, None, *options)
        return gradients[1]


class _ByLibrary(torch.autograd.Function):
    """One library convolution per model, differentiable in the inputs."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, options: tuple[Any, ...]) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(inputs, weight)
        ctx.options = options
        biases = [None] * len(weight) if bias is None else list(bias)
        parts = zip(inputs.unflatten(0, (len(weight), -1)), weight, biases, strict=True)
        return merge_models([torch.ops.aten.convolution(*part, *options) for part in parts])

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        inputs, weight = ctx.saved_tensors
        parts = zip(*(values.unflatten(0, (len(weight), -1)) for values in (signal, inputs)), weight, strict=True)
        options = (None, *ctx.options, (True, False, False))
        slopes = merge_models([torch.ops.aten.convolution_backward(*part, *options)[0] for part in parts])
        return slopes, None, None, None

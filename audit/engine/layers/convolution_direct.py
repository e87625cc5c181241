"""Convolutions of N models with many channels on a CPU, by the library's own."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.engine.layers.convolution_examples import batch_size, example_gradients, gram, takes_gram
from audit.engine.layers.convolution_patches import Geometry, read_geometry
from audit.engine.layers.gram_norms import gram_squares, join_squares
from audit.engine.layers.layers import EnsembleLayer, Tape, Use, memory_order
from audit.engine.parameter_layout import Slot

_ROUNDING = 2.0**-20  # share of its terms below which rounding moves a library's sum by more than 1e-4 of it
_KEPT_NUMBERS = 1 << 22  # of a model's example gradients, up to which it is cheaper to keep them than to sum anew


class DirectConvLayer(EnsembleLayer):
    """`nn.Conv2d` of N models with many channels: one library convolution a model, channels last.

    Norms come from Gram matrices if there are few positions, else from the gradients of the examples. Those are kept for the
    clipped sum if they are few numbers; elsewhere it is one more library convolution over signals scaled by the factors.
    """

    def __init__(self, plain: nn.Conv2d, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(tape, values, slots)
        self.geometry = read_geometry(plain)

    def forward(self, inputs: Tensor) -> Tensor:
        images, weight = self.tape.factor(inputs), self.tape.factor(self.values["weight"])
        inputs = _library_layout(images)
        # what comes back lies as the inputs did: others' derivatives take three times as long where two layouts meet
        place = self.geometry, images.is_contiguous()
        product: Tensor = _Direct.apply(inputs, weight, self.bias_factor(), place)
        return self.tape.record(self, inputs, product) if self.slots else product

    def _gradients(self, inputs: Tensor, signal: Tensor, rows: int) -> dict[str, Tensor]:
        """Role to `(rows, *shape)`."""
        gradients = {}
        if "weight" in self.slots:
            gradients["weight"] = example_gradients(self.geometry, inputs, signal, rows)
        if "bias" in self.slots:
            gradients["bias"] = signal.sum((2, 3)).unflatten(0, (rows, -1)).sum(1)
        return gradients

    def squared_norms(self, use: Use, signal: Tensor, rows: int) -> Tensor:
        total = self.tape.models * rows
        if "weight" in self.slots and len(signal) == total and takes_gram(self.geometry, use.inputs, signal.shape[1]):
            squares, cancellation = self._squares_by_grams(use, signal)
        else:
            squares, cancellation = self._squares_by_gradients(use, signal, rows)
        squares = squares.view(self.tape.models, rows)
        if cancellation is None:
            return squares
        examples = cancellation.nonzero().flatten()
        views, own = (values.unflatten(0, (total, -1))[examples].flatten(0, 1).double() for values in (use.inputs, signal))
        gradients = {role: value.to(signal.dtype) for role, value in self._gradients(views, own, len(examples)).items()}
        for role, gradient in use.gradients.items():
            use.gradients[role] = gradient.flatten(0, 1).index_copy(0, examples, gradients[role]).view(gradient.shape)
        return use.keep(examples, gradients, signal, squares)

    def _squares_by_grams(self, use: Use, signal: Tensor) -> tuple[Tensor, Tensor | None]:
        """`(N * rows,)` squared norms, and where they are lost in rounding."""
        bias, batch = 1.0 if "bias" in self.slots else 0.0, batch_size(self.geometry, use.inputs, signal[0, 0].numel(), 1)
        parts = []
        for start in range(0, len(signal), batch):
            slopes = signal[start : start + batch].flatten(2)
            of_inputs = gram(self.geometry, use.inputs[start : start + batch])
            parts.append(gram_squares(of_inputs + bias, torch.bmm(slopes.transpose(1, 2), slopes)))
        return join_squares(parts)

    def _squares_by_gradients(self, use: Use, signal: Tensor, rows: int) -> tuple[Tensor, Tensor | None]:
        """`(N * rows,)` squared norms, and where they are lost in rounding; gradients are kept if they are few numbers."""
        total = self.tape.models * rows
        copies, weight = len(signal) // total, self.values["weight"]
        if rows * weight[0].numel() <= _KEPT_NUMBERS:
            use.gradients = self.example_gradients(use, signal, rows)
            self.tape.numbers += sum(gradient.numel() for gradient in use.gradients.values())
            squares = _squares(use.gradients, 2)
        else:
            batch = batch_size(self.geometry, use.inputs, signal[0, 0].numel(), copies)
            parts = []
            for start in range(0, total, batch):
                stop = min(start + batch, total)
                piece = slice(start * copies, stop * copies)
                parts.append(_squares(self._gradients(use.inputs[piece], signal[piece], stop - start), 1))
            squares = torch.cat(parts)
        squares = squares.flatten()
        if squares.dtype == torch.float64:
            return squares, None
        of_inputs, of_signals = (values.unflatten(0, (total, -1)) for values in (use.inputs, signal))
        lengths = torch.linalg.vector_norm(of_inputs, dim=(1, 2, 3, 4)) * torch.linalg.vector_norm(of_signals, dim=(1, 2, 3, 4))
        cancellation = squares < _ROUNDING * math.prod(self.geometry.kernel) * lengths.square_()
        return squares, cancellation if bool(cancellation.any()) else None

    def example_gradients(self, use: Use, signal: Tensor, rows: int) -> dict[str, Tensor]:
        gradients_by_role = self._gradients(use.inputs, signal, self.tape.models * rows)
        return {role: gradient.unflatten(0, (self.tape.models, rows)) for role, gradient in gradients_by_role.items()}

    def add_weighted(self, use: Use, signal: Tensor, factors: Tensor | None, total: Tensor) -> None:
        if use.gradients and factors is not None:
            super().add_weighted(use, signal, factors, total)
            return
        if factors is not None:
            signal = use.add_cancellation(signal, factors, total)
            copies = len(signal) // factors.numel()
            signal = signal * factors.flatten().repeat_interleave(copies).view(-1, 1, 1, 1)
        if "bias" in self.slots:
            self.slots["bias"].view(total).add_(signal.sum((2, 3)).unflatten(0, (self.tape.models, -1)).sum(1))
        if "weight" in self.slots:
            self._add_weight(use.inputs, signal, self.slots["weight"].view(total))

    def _add_weight(self, inputs: Tensor, signal: Tensor, place: Tensor) -> None:
        """Adds the sum of all gradients of the weight to `place` `(N, *shape)`."""
        models = self.tape.models
        parts = zip(signal.unflatten(0, (models, -1)), inputs.unflatten(0, (models, -1)), self.values["weight"], strict=True)
        for model, part in enumerate(parts):
            place[model] += self.geometry.backward(*part, (False, True))[1]


def _squares(gradients: Mapping[str, Tensor], axis: int) -> Tensor:
    """Squared norms over all roles and axes from `axis` on."""
    lines = [gradient.permute(*range(axis), *memory_order(gradient, axis)) for gradient in gradients.values()]
    return torch.stack([torch.linalg.vector_norm(line.flatten(axis), dim=-1).square_() for line in lines]).sum(0)


def _library_layout(images: Tensor) -> Tensor:
    """`images` with channels last in memory if the library then needs no copies in its own order."""
    return images if images.dtype == torch.float64 else images.contiguous(memory_format=torch.channels_last)


class _Direct(torch.autograd.Function):
    """One library convolution per model, differentiable in the inputs."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, place: tuple[Geometry, bool]) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(inputs, weight)
        ctx.geometry, ctx.channels_first = geometry, _ = place
        biases = [None] * len(weight) if bias is None else list(bias)
        parts = inputs.unflatten(0, (len(weight), -1))
        options = (geometry.stride, geometry.padding, geometry.dilation)
        products = [F.conv2d(part, kernel, shift, *options) for part, kernel, shift in zip(parts, weight, biases, strict=True)]
        return merge_models(products)

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        inputs, weight = ctx.saved_tensors
        signal = _library_layout(signal)
        parts = zip(*(x.unflatten(0, (len(weight), -1)) for x in (signal, inputs)), weight, strict=True)
        slopes = merge_models([ctx.geometry.backward(*part, (True, False))[0] for part in parts])
        return slopes.contiguous() if ctx.channels_first else slopes, None, None, None


def merge_models(parts: list[Tensor]) -> Tensor:
    """Return what the models' calls gave, one after another; of one model without a copy."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)

"""Layers of N models that multiply no matrices: scales of normalisation layers, embeddings, dropout."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.core.errors import DataError
from audit.engine.device import on_device
from audit.engine.layers.gram_norms import CANCELLATION
from audit.engine.layers.layers import EnsembleLayer, Tape, Use
from audit.engine.layers.parameter_facts import ParameterOwner, UncoveredUse
from audit.engine.parameter_layout import Slot


class ScaleLayer(EnsembleLayer):
    """The elementwise scale and shift of `nn.GroupNorm` or `nn.LayerNorm` of N models, after the normalisation."""

    def __init__(
        self,
        normalise: Callable[[Tensor], Tensor],
        channels_first: bool,
        tape: Tape,
        values: Mapping[str, Tensor],
        slots: Mapping[str, Slot],
    ) -> None:
        super().__init__(tape, values, slots)
        self.normalise = normalise
        self.channels_first = channels_first

    def spread(self, values: Tensor, dimensions: int) -> Tensor:
        """`(N, *shape)` made to multiply activations `(N, rows, ...)` of `dimensions` axes."""
        inner = values.shape[1:]
        if self.channels_first:
            return values.view(values.shape[0], 1, *inner, *(1,) * (dimensions - 3))
        return values.view(values.shape[0], *(1,) * (dimensions - 1 - len(inner)), *inner)

    def forward(self, inputs: Tensor) -> Tensor:
        inputs = inputs.to(next(iter(self.values.values())).dtype)  # means and variances are not left to short numbers
        normal = self.normalise(inputs).unflatten(0, (self.tape.models, -1))
        output = normal * self.spread(self.values["weight"], normal.dim()) if "weight" in self.values else normal.clone()
        if "bias" in self.values:
            output.detach().add_(self.spread(self.values["bias"], normal.dim()))  # without a node of its own on the way back
        return (self.tape.record(self, normal, output) if self.slots else output).flatten(0, 1)

    def example_gradients(self, use: Use, signal: Tensor, rows: int) -> dict[str, Tensor]:
        gradients = {}
        for role, slot in self.slots.items():
            parts = signal * use.inputs if role == "weight" else signal
            if self.channels_first:
                split = parts.reshape(parts.shape[0], rows, -1, slot.shape[0], math.prod(parts.shape[3:]))
                gradients[role] = split.sum((2, 4))
            else:
                gradients[role] = parts.reshape(parts.shape[0], rows, -1, *slot.shape).sum(2)
        return gradients


class _RmsNorm(torch.autograd.Function):
    """torch's own takes twice as long on a CPU, by eight operations and as many ways back."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:  # type: ignore[override]
        count = math.prod(inputs.shape[axis] for axis in axes)
        scale = torch.linalg.vector_norm(inputs, dim=axes, keepdim=True).square_().div_(count).add_(eps).rsqrt_()
        normal: Tensor = inputs * scale
        ctx.axes = axes
        ctx.save_for_backward(normal, scale)
        return normal

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        normal, scale = ctx.saved_tensors
        along = (signal * normal).mean(ctx.axes, keepdim=True)
        return torch.addcmul(signal, normal, along, value=-1.0).mul_(scale), None, None


def rms_norm(inputs: Tensor, shape: tuple[int, ...], eps: float | None) -> Tensor:
    """`inputs` over the root of the mean of their squares along the last axes, which have this `shape`."""
    normal: Tensor
    if on_device(inputs):
        normal = F.rms_norm(inputs, list(shape), eps=eps)
    else:
        axes = tuple(range(-len(shape), 0))
        normal = _RmsNorm.apply(inputs, axes, torch.finfo(inputs.dtype).eps if eps is None else eps)
    return normal


class SlopeLayer(ScaleLayer):
    """`nn.PReLU` of N models: a slope for negative numbers, one or one a channel."""

    def __init__(self, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(lambda inputs: inputs, True, tape, values, slots)

    def spread(self, values: Tensor, dimensions: int) -> Tensor:
        whole = dimensions == 2 or values.shape[1] == 1  # records without a channel axis have one slope
        return values.view(values.shape[0], *(1,) * (dimensions - 1)) if whole else super().spread(values, dimensions)

    def forward(self, inputs: Tensor) -> Tensor:
        folded = inputs.unflatten(0, (self.tape.models, -1))
        negative = folded.clamp(max=0.0)
        output = folded.clamp(min=0.0) + negative * self.spread(self.values["weight"], folded.dim())
        return (self.tape.record(self, negative, output) if self.slots else output).flatten(0, 1)

    def example_gradients(self, use: Use, signal: Tensor, rows: int) -> dict[str, Tensor]:
        slot = self.slots["weight"]
        if slot.shape[0] > 1:
            return super().example_gradients(use, signal, rows)
        return {"weight": (signal * use.inputs).reshape(signal.shape[0], rows, -1).sum(2, keepdim=True)}


class LookupLayer(EnsembleLayer):
    """`nn.Embedding` of N models. Two tokens of one example that are equal add their signals before the norm."""

    def __init__(
        self, plain: nn.Embedding | nn.EmbeddingBag, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]
    ) -> None:
        super().__init__(tape, values, slots)
        self.padding = plain.padding_idx
        self.shared = False  # one lookup serves all records, as of positions `(positions,)`
        self.lengths: list[int] | None = None  # of the lookups so far, while it is found out whether they are shared

    def forward(self, inputs: Tensor) -> Tensor:
        table = self.values["weight"]
        if self.lengths is not None:
            self.lengths.append(len(inputs) if inputs.dim() else 0)
            return table[0][inputs]
        if inputs.dim() == 0 or (self.shared and len(inputs) != 1):
            inputs = inputs.unsqueeze(0)
        if len(inputs) == 1 < self.tape.batch:  # one lookup for all records, as of positions
            inputs = inputs.expand(self.tape.batch, *inputs.shape[1:])
        tokens = inputs.reshape(table.shape[0], -1)
        self._refuse_outside(tokens, table.shape[1])
        embeddings = self.tape.factor(table[torch.arange(table.shape[0], device=inputs.device).unsqueeze(1), tokens])
        embeddings = self.tape.record(self, tokens, embeddings) if self.slots else embeddings
        return embeddings.view(*inputs.shape, table.shape[2])

    @staticmethod
    def _refuse_outside(tokens: Tensor, words: int) -> None:
        """Raise `DataError` for a token without a row, which would else reach the table of another model.

        On a device the check is a launch that ends the process, since no step may wait for an answer.
        """
        if tokens.numel() == 0:
            return
        if on_device(tokens):
            torch._assert_async(((tokens >= 0) & (tokens < words)).all(), f"a record holds a number outside 0 to {words - 1}")
            return
        low, high = (int(value) for value in torch.aminmax(tokens))
        if low < 0 or high >= words:
            raise DataError(
                f"a record or canary holds the number {low if low < 0 else high}, which nn.Embedding({words}, ...) looks up; "
                f"expected whole numbers from 0 to {words - 1}"
            )

    def _layer_signal(self, use: Use, signal: Tensor) -> Tensor:
        return signal if self.padding is None else signal * (use.inputs != self.padding).unsqueeze(-1)

    def squared_norms(self, use: Use, signal: Tensor, rows: int) -> Tensor:
        models, size = signal.shape[0], signal.shape[-1]
        tokens = use.inputs.view(models * rows, -1)
        signals = self._layer_signal(use, signal).reshape(models * rows, -1, size)
        equal_tokens = tokens.unsqueeze(1) == tokens.unsqueeze(2)
        if on_device(signals):  # no look at numbers in between: double precision has room for what cancels
            double = signals.double()
            gram = torch.bmm(double, double.transpose(1, 2)) * equal_tokens
            return gram.sum((1, 2)).clamp_(min=0.0).to(signals.dtype).view(models, rows)
        gram = torch.bmm(signals, signals.transpose(1, 2)) * equal_tokens.to(signals.dtype)
        squares = gram.sum((1, 2)).clamp_(min=0.0)
        if signals.dtype == torch.float64:
            return squares.view(models, rows)
        cancellation = squares < CANCELLATION * gram.abs_().sum((1, 2))
        if bool(cancellation.any()):  # signals of equal tokens oppose: they are added first, at the first of them
            first = equal_tokens[cancellation].int().argmax(1)
            token_sums = torch.zeros_like(signals[cancellation], dtype=torch.float64)
            token_sums.scatter_add_(1, first.unsqueeze(-1).expand_as(token_sums), signals[cancellation].double())
            use.replacement = signals.index_put((cancellation,), token_sums.to(signals.dtype)).view(signal.shape)
            squares = squares.masked_scatter(cancellation, token_sums.square().sum((1, 2)).to(squares.dtype))
        return squares.view(models, rows)

    def example_gradients(self, use: Use, signal: Tensor, rows: int) -> dict[str, Tensor]:
        models, size = signal.shape[0], signal.shape[-1]
        words = self.slots["weight"].shape[0]
        row = torch.arange(models * rows, device=signal.device).view(models, rows, 1)
        place = (row * words + use.inputs.view(models, rows, -1)).flatten()
        gradient = signal.new_zeros(models * rows * words, size)
        gradient.index_add_(0, place, self._layer_signal(use, signal).reshape(-1, size))
        return {"weight": gradient.view(models, rows, words, size)}

    def add_weighted(self, use: Use, signal: Tensor, factors: Tensor | None, total: Tensor) -> None:
        if use.gradients:
            super().add_weighted(use, signal, factors, total)
            return
        models, size = signal.shape[0], signal.shape[-1]
        words = self.slots["weight"].shape[0]
        signals = self._layer_signal(use, signal) if use.replacement is None else use.replacement
        if factors is not None:
            signals = signals * factors.repeat_interleave(signal.shape[1] // factors.shape[1], dim=1).unsqueeze(-1)
        place = use.inputs + torch.arange(models, device=signal.device).view(models, 1) * words
        gradient = signal.new_zeros(models * words, size)
        gradient.index_add_(0, place.flatten(), signals.reshape(-1, size))
        self.slots["weight"].view(total).add_(gradient.view(models, words, size))


class BagLayer(ParameterOwner):
    """`nn.EmbeddingBag` of N models, where each row of numbers is a bag."""

    def __init__(self, plain: nn.EmbeddingBag, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> None:
        super().__init__(values, slots)
        self.lookup, self.mode = LookupLayer(plain, tape, values, slots), plain.mode

    def forward(self, inputs: Tensor, offsets: None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        if inputs.dim() != 2 or offsets is not None:
            raise UncoveredUse("bags of an nn.EmbeddingBag begin at offsets")
        embeddings: Tensor = self.lookup(inputs)
        if per_sample_weights is not None:
            embeddings = embeddings * per_sample_weights.unsqueeze(-1)
        if self.mode == "max":
            return embeddings.max(1).values
        return embeddings.sum(1) if self.mode == "sum" else embeddings.mean(1)


class DropoutLayer(nn.Module):
    """`nn.Dropout`, `nn.Dropout1d`, `2d` and `3d` of N models, each drawing from its own stream.

    `whole` axes after the channel axis share one draw, which is what the variants for images do.
    """

    def __init__(self, rate: float, whole: int, tape: Tape) -> None:
        super().__init__()
        self.rate, self.whole, self.tape = rate, whole, tape

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return inputs
        shape = (len(inputs) // self.tape.models, *inputs.shape[1:])
        if self.whole:
            shape = (*shape[: len(shape) - self.whole], *(1,) * self.whole)
        if self.tape.draws is None:
            raise DataError("dropout in training mode has no draws for this step; call `begin` before the forward pass")
        keep_mask = self.tape.draws.uniforms(shape).ge_(self.rate).to(inputs.dtype)
        factors = keep_mask / (1.0 - self.rate) if self.rate < 1.0 else keep_mask
        if self.tape.factors is not None:
            self.tape.factors.append(factors)
        return inputs * factors

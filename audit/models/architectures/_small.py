"""Small networks: linear, dense, convolutional, and a transformer of tokens."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from audit.core.errors import ConfigError
from audit.models.architectures import _encoder as parts
from audit.models.architectures._encoder import Shape
from audit.plugins import hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Logistic:
    """One linear layer over the flattened record."""

    def build(self, input_shape: Shape, outputs: int) -> nn.Module:
        return nn.Sequential(*parts.flatten(input_shape), nn.Linear(math.prod(input_shape), outputs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    """Linear layers of the widths in `hidden`, with an activation between them."""

    hidden: Sequence[int] = (64,)
    activation: str = "relu"

    def build(self, input_shape: Shape, outputs: int) -> nn.Module:
        widths = [math.prod(input_shape), *parts.positive_list(self.hidden, "model.mlp.hidden"), outputs]
        layers: list[nn.Module] = parts.flatten(input_shape)
        for fan_in, fan_out in pairwise(widths):
            layers += [nn.Linear(fan_in, fan_out), parts.activation(self.activation, "model.mlp")]
        return nn.Sequential(*layers[:-1])  # no activation behind the outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Cnn:
    """Convolutions of stride 2 with the widths in `channels`, then one linear layer."""

    channels: Sequence[int] = (8, 16)
    kernel: int = 3
    activation: str = "relu"

    def build(self, input_shape: Shape, outputs: int) -> nn.Module:
        planes, height, width = parts.image(input_shape, "cnn")
        kernel = self.kernel
        if not isinstance(kernel, int) or kernel < 1 or kernel % 2 == 0:
            raise ConfigError(f"model.cnn.kernel is {kernel!r}; expected an odd number of at least 1")
        layers: list[nn.Module] = []
        for count in parts.positive_list(self.channels, "model.cnn.channels"):
            convolution = nn.Conv2d(planes, count, kernel, stride=2, padding=kernel // 2)
            layers += [convolution, parts.activation(self.activation, "model.cnn")]
            planes, height, width = count, (height + 1) // 2, (width + 1) // 2  # of a stride of 2 with half a kernel of margin
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(planes * height * width, outputs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """An encoder over token numbers below `vocabulary`, read out as the mean over positions."""

    vocabulary: int = 0
    width: int = 64
    depth: int = 2
    heads: int = 4

    def build(self, input_shape: Shape, outputs: int) -> nn.Module:
        tokens = parts.length(input_shape, "transformer")
        parts.whole("transformer", vocabulary=self.vocabulary, width=self.width, depth=self.depth, heads=self.heads)
        parts.divides(self.heads, self.width, "transformer")
        return parts.Encoder(parts.Tokens(self.vocabulary, self.width), tokens, (self.width, self.depth, self.heads), outputs)


_CELLS: Mapping[str, Callable[..., nn.Module]] = {"lstm": nn.LSTM, "gru": nn.GRU}


class _Recurrent(nn.Module):
    def __init__(self, cell: str, sizes: tuple[int, int, int], outputs: int) -> None:
        super().__init__()
        vocabulary, width, depth = sizes
        self.embed = parts.Tokens(vocabulary, width)
        self.body = _CELLS[cell](width, width, num_layers=depth, batch_first=True)
        self.last = nn.Linear(width, outputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.body(self.embed(inputs))[0][:, -1])
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrent:
    """An LSTM or GRU (`cell`) over token numbers below `vocabulary`, read out at the last one."""

    vocabulary: int = 0
    cell: str = "lstm"
    width: int = 64
    depth: int = 1

    def build(self, input_shape: Shape, outputs: int) -> nn.Module:
        parts.length(input_shape, "recurrent")
        parts.whole("recurrent", vocabulary=self.vocabulary, width=self.width, depth=self.depth)
        if self.cell not in _CELLS:
            near = hint(str(self.cell), list(_CELLS))
            raise ConfigError(f"model.recurrent.cell is {self.cell!r}.{near} It may be: {', '.join(_CELLS)}")
        return _Recurrent(self.cell, (self.vocabulary, self.width, self.depth), outputs)


class _PerRecord(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`(users, records * outputs)` from `(users, records, ...)`."""
        out: torch.Tensor = self.model(inputs.flatten(0, 1))
        return out.reshape(inputs.shape[0], -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerRecord:
    """The model that `model` names and makes as ever, asked about each record of a user (`data: {records_per_user: 4}`)."""

    model: Mapping[str, Any]

    def build(self, input_shape: Shape, outputs: int) -> nn.Module:
        """Return a freshly initialised module for users of `input_shape`, records first."""
        from audit.models.build import build

        if not isinstance(self.model, Mapping):
            raise ConfigError(f"model.per_record.model is {self.model!r}; expected a model, such as {{kind: mlp}}")
        if len(input_shape) < 2:
            raise ConfigError(
                f"model.per_record: records of shape {input_shape}; expected users with several records each: give "
                "data.records_per_user"
            )
        return _PerRecord(build(self.model, input_shape[1:], outputs))


class _Block(nn.Module):
    """Pre-activation residual block of two 3x3 convolutions with group normalisation."""

    def __init__(self, planes: int, width: int, stride: int, groups: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(math.gcd(planes, groups), planes)  # groups have to divide the channels
        self.conv1 = nn.Conv2d(planes, width, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(math.gcd(width, groups), width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        same_shape = planes == width and stride == 1
        self.shortcut = None if same_shape else nn.Conv2d(planes, width, 1, stride=stride, bias=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        activations = torch.relu(self.norm1(inputs))
        residual = inputs if self.shortcut is None else self.shortcut(activations)
        out: torch.Tensor = self.conv2(torch.relu(self.norm2(self.conv1(activations)))) + residual
        return out


class _MeanOverImage(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs.mean(dim=(2, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class WideResnet:
    """Three stages of pre-activation blocks, `widen` times as wide as a plain residual network; `depth` is 6 n + 4."""

    depth: int = 16
    widen: int = 4
    groups: int = 16

    def build(self, input_shape: Shape, outputs: int) -> nn.Module:
        planes, _, _ = parts.image(input_shape, "wide_resnet")
        depth = self.depth
        if not isinstance(depth, int) or depth < 10 or (depth - 4) % 6:
            raise ConfigError(
                f"model.wide_resnet.depth is {depth!r}; expected 6 n + 4 with n of at least 1: 10, 16, 22, 28, ..."
            )
        parts.whole("wide_resnet", depth=depth, widen=self.widen, groups=self.groups)
        layers: list[nn.Module] = [nn.Conv2d(planes, 16, 3, padding=1, bias=False)]
        planes = 16
        for stage, width in enumerate((16 * self.widen, 32 * self.widen, 64 * self.widen)):
            for block in range((depth - 4) // 6):
                layers.append(_Block(planes, width, 2 if stage and not block else 1, self.groups))
                planes = width
        last = [nn.GroupNorm(math.gcd(planes, self.groups), planes), nn.ReLU(), _MeanOverImage(), nn.Linear(planes, outputs)]
        return nn.Sequential(*layers, *last)

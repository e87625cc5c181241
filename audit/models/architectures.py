"""The built-in architectures, and how what is asked of them is checked."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from audit.core.errors import ConfigError

ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "elu": nn.ELU,
    "sigmoid": nn.Sigmoid,
}

Shape = tuple[int, ...]


def _logistic(input_shape: Shape, outputs: int) -> nn.Module:
    return nn.Sequential(*_flatten(input_shape), nn.Linear(math.prod(input_shape), outputs))


def _mlp(input_shape: Shape, outputs: int, hidden: Sequence[int] = (64,), activation: str = "relu") -> nn.Module:
    widths = [math.prod(input_shape), *_positive_list(hidden, "model.mlp.hidden"), outputs]
    layers: list[nn.Module] = _flatten(input_shape)
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), _activation(activation, "model.mlp")]
    return nn.Sequential(*layers[:-1])


def _cnn(
    input_shape: Shape, outputs: int, channels: Sequence[int] = (8, 16), kernel: int = 3, activation: str = "relu"
) -> nn.Module:
    planes, height, width = _image(input_shape, "cnn")
    if not isinstance(kernel, int) or kernel < 1 or kernel % 2 == 0:
        raise ConfigError(f"model.cnn.kernel is {kernel!r}; expected an odd number of at least 1")
    layers: list[nn.Module] = []
    for count in _positive_list(channels, "model.cnn.channels"):
        layers += [nn.Conv2d(planes, count, kernel, stride=2, padding=kernel // 2), _activation(activation, "model.cnn")]
        planes, height, width = count, (height + 1) // 2, (width + 1) // 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(planes * height * width, outputs))


class _Block(nn.Module):
    """Pre-activation residual block of two 3x3 convolutions with group normalisation."""

    def __init__(self, planes: int, width: int, stride: int, groups: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(_divisor(planes, groups), planes)
        self.conv1 = nn.Conv2d(planes, width, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(_divisor(width, groups), width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        same = planes == width and stride == 1
        self.shortcut = None if same else nn.Conv2d(planes, width, 1, stride=stride, bias=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        opened = torch.relu(self.norm1(inputs))
        passed = inputs if self.shortcut is None else self.shortcut(opened)
        out: torch.Tensor = self.conv2(torch.relu(self.norm2(self.conv1(opened)))) + passed
        return out


class _MeanOverImage(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs.mean(dim=(2, 3))


def _wide_resnet(input_shape: Shape, outputs: int, depth: int = 16, widen: int = 4, groups: int = 16) -> nn.Module:
    planes, _, _ = _image(input_shape, "wide_resnet")
    if not isinstance(depth, int) or depth < 10 or (depth - 4) % 6:
        raise ConfigError(f"model.wide_resnet.depth is {depth!r}; expected 6 n + 4 with n of at least 1: 10, 16, 22, 28, ...")
    for name, value in (("widen", widen), ("groups", groups)):
        if not isinstance(value, int) or value < 1:
            raise ConfigError(f"model.wide_resnet.{name} is {value!r}; expected a whole number of at least 1")
    layers: list[nn.Module] = [nn.Conv2d(planes, 16, 3, padding=1, bias=False)]
    planes = 16
    for stage, width in enumerate((16 * widen, 32 * widen, 64 * widen)):
        for block in range((depth - 4) // 6):
            layers.append(_Block(planes, width, 2 if stage and not block else 1, groups))
            planes = width
    layers += [nn.GroupNorm(_divisor(planes, groups), planes), nn.ReLU(), _MeanOverImage(), nn.Linear(planes, outputs)]
    return nn.Sequential(*layers)


class _Attention(nn.Module):
    """Self-attention of several heads, made of linear layers so that the ensemble covers it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.queries, self.keys, self.values = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        split = [
            layer(inputs).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.queries, self.keys, self.values)
        ]
        weights = torch.softmax(split[0] @ split[1].transpose(2, 3) / math.sqrt(split[0].shape[3]), dim=3)
        mixed: torch.Tensor = self.out((weights @ split[2]).transpose(1, 2).flatten(2))
        return mixed


class _EncoderBlock(nn.Module):
    """Pre-norm block: self-attention and a feed-forward part of twice the width, each beside a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = _Attention(width, heads)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = inputs + self.attention(self.norm1(inputs))
        out: torch.Tensor = hidden + self.feed(self.norm2(hidden))
        return out


class _Encoder(nn.Module):
    """Blocks over embedded positions, their mean, a linear layer. Positions are learnt, as rows of an embedding."""

    def __init__(self, embed: nn.Module, length: int, sizes: tuple[int, int, int], outputs: int) -> None:
        super().__init__()
        width, depth, heads = sizes
        self.embed = embed
        self.position = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(_EncoderBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, outputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(inputs)
        places = torch.arange(hidden.shape[1], device=hidden.device).expand(hidden.shape[:2])
        out: torch.Tensor = self.last(self.norm(self.blocks(hidden + self.position(places))).mean(1))
        return out


class _Patches(nn.Module):
    def __init__(self, planes: int, width: int, patch: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(planes, width, patch, stride=patch)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.cut(inputs).flatten(2).transpose(1, 2)
        return found


class _Tokens(nn.Module):
    """Token numbers, stored as numbers of any type, as rows of an embedding; numbers outside count as the nearest inside."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.largest = vocabulary - 1
        self.table = nn.Embedding(vocabulary, width)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.table(inputs.long().clamp(0, self.largest))
        return found


def _vit(input_shape: Shape, outputs: int, *, patch: int = 4, width: int = 64, depth: int = 2, heads: int = 4) -> nn.Module:
    planes, rows, cols = _image(input_shape, "vit")
    _whole("vit", patch=patch, width=width, depth=depth, heads=heads)
    if rows % patch or cols % patch:
        raise ConfigError(f"model.vit.patch is {patch} for images of {rows} x {cols}; expected a divisor of both")
    _divides(heads, width, "vit")
    length = (rows // patch) * (cols // patch)
    return _Encoder(_Patches(planes, width, patch), length, (width, depth, heads), outputs)


def _transformer(
    input_shape: Shape, outputs: int, *, vocabulary: int = 0, width: int = 64, depth: int = 2, heads: int = 4
) -> nn.Module:
    length = _length(input_shape, "transformer")
    _whole("transformer", vocabulary=vocabulary, width=width, depth=depth, heads=heads)
    _divides(heads, width, "transformer")
    return _Encoder(_Tokens(vocabulary, width), length, (width, depth, heads), outputs)


class _Recurrent(nn.Module):
    def __init__(self, cell: str, sizes: tuple[int, int, int], outputs: int) -> None:
        super().__init__()
        vocabulary, width, depth = sizes
        self.embed = _Tokens(vocabulary, width)
        self.body = _CELLS[cell](width, width, num_layers=depth, batch_first=True)
        self.last = nn.Linear(width, outputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.body(self.embed(inputs))[0][:, -1])
        return out


_CELLS: Mapping[str, Callable[..., nn.Module]] = {"lstm": nn.LSTM, "gru": nn.GRU}


def _recurrent(
    input_shape: Shape, outputs: int, *, vocabulary: int = 0, cell: str = "lstm", width: int = 64, depth: int = 1
) -> nn.Module:
    _length(input_shape, "recurrent")
    _whole("recurrent", vocabulary=vocabulary, width=width, depth=depth)
    if cell not in _CELLS:
        raise ConfigError(f"model.recurrent.cell is {cell!r}.{near(str(cell), _CELLS)} It may be: {', '.join(_CELLS)}")
    return _Recurrent(cell, (vocabulary, width, depth), outputs)


KINDS: Mapping[str, tuple[Callable[..., nn.Module], tuple[str, ...]]] = {
    "logistic": (_logistic, ()),
    "mlp": (_mlp, ("hidden", "activation")),
    "cnn": (_cnn, ("channels", "kernel", "activation")),
    "wide_resnet": (_wide_resnet, ("depth", "widen", "groups")),
    "vit": (_vit, ("patch", "width", "depth", "heads")),
    "transformer": (_transformer, ("vocabulary", "width", "depth", "heads")),
    "recurrent": (_recurrent, ("vocabulary", "cell", "width", "depth")),
}


def _flatten(input_shape: Shape) -> list[nn.Module]:
    return [] if len(input_shape) == 1 else [nn.Flatten()]


def _divisor(planes: int, groups: int) -> int:
    return math.gcd(planes, groups)


def _image(input_shape: Shape, kind: str) -> tuple[int, int, int]:
    if len(input_shape) != 3:
        raise ConfigError(
            f"model.{kind}: records of shape {input_shape}; expected images (channels, height, width), "
            "so choose kind 'mlp' or another data set"
        )
    planes, height, width = input_shape
    return planes, height, width


def _positive_list(values: Sequence[int], name: str) -> list[int]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ConfigError(f"{name} is {values!r}; expected a list of widths such as [64, 64]")
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} is {list(values)!r}; expected whole numbers of at least 1")
    return list(values)


def _activation(name: str, where: str) -> nn.Module:
    if name not in ACTIVATIONS:
        raise ConfigError(f"{where}.activation is {name!r}.{near(str(name), ACTIVATIONS)} It may be: {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]()


def _length(input_shape: Shape, kind: str) -> int:
    if len(input_shape) != 1:
        raise ConfigError(f"model.{kind}: records of shape {input_shape}; expected sequences of token numbers (length,)")
    return input_shape[0]


def _whole(kind: str, **values: int) -> None:
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"model.{kind}.{name} is {value!r}; expected a whole number of at least 1")


def _divides(heads: int, width: int, kind: str) -> None:
    if width % heads:
        raise ConfigError(
            f"model.{kind}: {heads} heads of a width of {width}; expected a number of heads that divides the width"
        )


def near(word: str, known: Mapping[str, Any] | Sequence[str]) -> str:
    """A hint at the word of `known` that was probably meant, or nothing.

    >>> near("mpl", ["mlp", "cnn"])
    " Did you mean 'mlp'?"
    """
    found = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean '{found[0]}'?" if found else ""

"""The encoder of the transformer and of the vision transformer; token embeddings."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from audit.core.errors import ConfigError
from audit.plugins import hint

DEEPEST = 4096  # each layer is made, even to count its weights
# How the options of architectures are checked.
Shape = tuple[int, ...]
ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "elu": nn.ELU,
    "sigmoid": nn.Sigmoid,
}


def flatten(input_shape: Shape) -> list[nn.Module]:
    """Return the layer that makes a vector of a record; none if it is one."""
    return [] if len(input_shape) == 1 else [nn.Flatten()]


def image(input_shape: Shape, kind: str) -> tuple[int, int, int]:
    """Return channels, height and width, or raise `ConfigError` if records are no images."""
    if len(input_shape) != 3:
        raise ConfigError(
            f"model.{kind}: records of shape {input_shape}; expected images (channels, height, width), "
            "so choose kind 'mlp' or another data set"
        )
    planes, height, width = input_shape
    return planes, height, width


def positive_list(values: Sequence[int], name: str) -> list[int]:
    """Return the widths as a list, or raise `ConfigError` if one is no whole number above 0."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ConfigError(f"{name} is {values!r}; expected a list of widths such as [64, 64]")
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} is {list(values)!r}; expected whole numbers of at least 1")
    return list(values)


def activation(name: str, location: str) -> nn.Module:
    """Return the activation of that name, or raise `ConfigError` with the nearest."""
    if name not in ACTIVATIONS:
        raise ConfigError(
            f"{location}.activation is {name!r}.{hint(str(name), list(ACTIVATIONS))} It may be: {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]()


def length(input_shape: Shape, kind: str) -> int:
    """Return the number of tokens of a record, or raise `ConfigError` if it is no sequence."""
    if len(input_shape) != 1:
        raise ConfigError(f"model.{kind}: records of shape {input_shape}; expected sequences of token numbers (length,)")
    return input_shape[0]


def whole(kind: str, **values: int) -> None:
    """Raise `ConfigError` if a value is no whole number above 0."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"model.{kind}.{name} is {value!r}; expected a whole number of at least 1")
        if name == "depth" and value > DEEPEST:
            raise ConfigError(f"model.{kind}.depth is {value}; expected at most {DEEPEST:,}")


def divides(heads: int, width: int, kind: str) -> None:
    """Raise `ConfigError` unless the heads share the width evenly."""
    if width % heads:
        raise ConfigError(
            f"model.{kind}: {heads} heads of a width of {width}; expected a number of heads that divides the width"
        )


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
        mixture: torch.Tensor = self.out((weights @ split[2]).transpose(1, 2).flatten(2))
        return mixture


class _Block(nn.Module):
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


class Encoder(nn.Module):
    """Blocks over embedded positions, their mean, a linear layer. Positions are learnt, as rows of an embedding."""

    def __init__(self, embed: nn.Module, length: int, sizes: tuple[int, int, int], outputs: int) -> None:
        super().__init__()
        width, depth, heads = sizes
        self.embed = embed
        self.position = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(_Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, outputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(inputs)
        places = torch.arange(hidden.shape[1], device=hidden.device).expand(hidden.shape[:2])
        out: torch.Tensor = self.last(self.norm(self.blocks(hidden + self.position(places))).mean(1))
        return out


class Tokens(nn.Module):
    """Token numbers, stored as numbers of any type, as rows of an embedding; numbers outside count as the nearest inside."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.largest = vocabulary - 1
        self.table = nn.Embedding(vocabulary, width)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        positions: torch.Tensor = self.table(inputs.long().clamp(0, self.largest))
        return positions


class _Patches(nn.Module):
    def __init__(self, planes: int, width: int, patch: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(planes, width, patch, stride=patch)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        patches: torch.Tensor = self.cut(inputs).flatten(2).transpose(1, 2)
        return patches


@dataclass(frozen=True, slots=True, kw_only=True)
class Vit:
    """An encoder over square patches of `patch` pixels."""

    patch: int = 4
    width: int = 64
    depth: int = 2
    heads: int = 4

    def build(self, input_shape: Shape, outputs: int) -> nn.Module:
        planes, rows, cols = image(input_shape, "vit")
        whole("vit", patch=self.patch, width=self.width, depth=self.depth, heads=self.heads)
        if rows % self.patch or cols % self.patch:
            raise ConfigError(f"model.vit.patch is {self.patch} for images of {rows} x {cols}; expected a divisor of both")
        divides(self.heads, self.width, "vit")
        length = (rows // self.patch) * (cols // self.patch)
        return Encoder(_Patches(planes, self.width, self.patch), length, (self.width, self.depth, self.heads), outputs)

"""The encoder of the transformer and of the vision transformer; token embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from audit.core.errors import ConfigError
from audit.models.architectures._small import Shape, divides, image, whole


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

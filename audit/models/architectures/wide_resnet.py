"""A wide residual network with group normalisation, which leaves each record its own gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from audit.core.errors import ConfigError
from audit.models.architectures._options import Shape, image, whole


class _Block(nn.Module):
    """Pre-activation residual block of two 3x3 convolutions with group normalisation."""

    def __init__(self, planes: int, width: int, stride: int, groups: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(math.gcd(planes, groups), planes)
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
        planes, _, _ = image(input_shape, "wide_resnet")
        depth = self.depth
        if not isinstance(depth, int) or depth < 10 or (depth - 4) % 6:
            raise ConfigError(
                f"model.wide_resnet.depth is {depth!r}; expected 6 n + 4 with n of at least 1: 10, 16, 22, 28, ..."
            )
        whole("wide_resnet", widen=self.widen, groups=self.groups)
        layers: list[nn.Module] = [nn.Conv2d(planes, 16, 3, padding=1, bias=False)]
        planes = 16
        for stage, width in enumerate((16 * self.widen, 32 * self.widen, 64 * self.widen)):
            for block in range((depth - 4) // 6):
                layers.append(_Block(planes, width, 2 if stage and not block else 1, self.groups))
                planes = width
        last = [nn.GroupNorm(math.gcd(planes, self.groups), planes), nn.ReLU(), _MeanOverImage(), nn.Linear(planes, outputs)]
        return nn.Sequential(*layers, *last)


PLUGIN = WideResnet

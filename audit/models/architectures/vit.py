"""A vision transformer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from audit.core.errors import ConfigError
from audit.models.architectures._encoder import Encoder
from audit.models.architectures._options import Shape, divides, image, whole


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
        """Return a freshly initialised module for records of `input_shape`."""
        planes, rows, cols = image(input_shape, "vit")
        whole("vit", patch=self.patch, width=self.width, depth=self.depth, heads=self.heads)
        if rows % self.patch or cols % self.patch:
            raise ConfigError(f"model.vit.patch is {self.patch} for images of {rows} x {cols}; expected a divisor of both")
        divides(self.heads, self.width, "vit")
        length = (rows // self.patch) * (cols // self.patch)
        return Encoder(_Patches(planes, self.width, self.patch), length, (self.width, self.depth, self.heads), outputs)


PLUGIN = Vit

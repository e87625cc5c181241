"""Small networks: linear, dense, convolutional, and a transformer of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import nn

from audit.core.errors import ConfigError
from audit.models.architectures._encoder import Encoder, Tokens
from audit.models.architectures._options import Shape, activation, divides, flatten, image, length, positive_list, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Logistic:
    """One linear layer over the flattened record."""

    def build(self, input_shape: Shape, outputs: int) -> nn.Module:
        """Return a freshly initialised module for records of `input_shape`."""
        return nn.Sequential(*flatten(input_shape), nn.Linear(math.prod(input_shape), outputs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    """Linear layers of the widths in `hidden`, with an activation between them."""

    hidden: Sequence[int] = (64,)
    activation: str = "relu"

    def build(self, input_shape: Shape, outputs: int) -> nn.Module:
        """Return a freshly initialised module for records of `input_shape`."""
        widths = [math.prod(input_shape), *positive_list(self.hidden, "model.mlp.hidden"), outputs]
        layers: list[nn.Module] = flatten(input_shape)
        for fan_in, fan_out in pairwise(widths):
            layers += [nn.Linear(fan_in, fan_out), activation(self.activation, "model.mlp")]
        return nn.Sequential(*layers[:-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Cnn:
    """Convolutions of stride 2 with the widths in `channels`, then one linear layer."""

    channels: Sequence[int] = (8, 16)
    kernel: int = 3
    activation: str = "relu"

    def build(self, input_shape: Shape, outputs: int) -> nn.Module:
        """Return a freshly initialised module for records of `input_shape`."""
        planes, height, width = image(input_shape, "cnn")
        kernel = self.kernel
        if not isinstance(kernel, int) or kernel < 1 or kernel % 2 == 0:
            raise ConfigError(f"model.cnn.kernel is {kernel!r}; expected an odd number of at least 1")
        layers: list[nn.Module] = []
        for count in positive_list(self.channels, "model.cnn.channels"):
            convolution = nn.Conv2d(planes, count, kernel, stride=2, padding=kernel // 2)
            layers += [convolution, activation(self.activation, "model.cnn")]
            planes, height, width = count, (height + 1) // 2, (width + 1) // 2
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(planes * height * width, outputs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """An encoder over token numbers below `vocabulary`, read out as the mean over positions."""

    vocabulary: int = 0
    width: int = 64
    depth: int = 2
    heads: int = 4

    def build(self, input_shape: Shape, outputs: int) -> nn.Module:
        """Return a freshly initialised module for records of `input_shape`."""
        tokens = length(input_shape, "transformer")
        whole("transformer", vocabulary=self.vocabulary, width=self.width, depth=self.depth, heads=self.heads)
        divides(self.heads, self.width, "transformer")
        return Encoder(Tokens(self.vocabulary, self.width), tokens, (self.width, self.depth, self.heads), outputs)

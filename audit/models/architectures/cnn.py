"""A small convolutional network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from audit.core.errors import ConfigError
from audit.models.architectures._options import Shape, activation, image, positive_list


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


PLUGIN = Cnn

"""A multi-layer perceptron."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import nn

from audit.models.architectures._options import Shape, activation, flatten, positive_list


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


PLUGIN = Mlp

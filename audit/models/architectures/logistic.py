"""Logistic regression: one linear layer."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import nn

from audit.models.architectures._options import Shape, flatten


@dataclass(frozen=True, slots=True, kw_only=True)
class Logistic:
    """One linear layer over the flattened record."""

    def build(self, input_shape: Shape, outputs: int) -> nn.Module:
        """Return a freshly initialised module for records of `input_shape`."""
        return nn.Sequential(*flatten(input_shape), nn.Linear(math.prod(input_shape), outputs))


PLUGIN = Logistic

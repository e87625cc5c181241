"""Another model, applied to each record of a user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from audit.core.errors import ConfigError
from audit.models.architectures._options import Shape


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


PLUGIN = PerRecord

"""A recurrent network over token numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from audit.core.errors import ConfigError
from audit.models.architectures._encoder import Tokens
from audit.models.architectures._options import Shape, length, whole
from audit.plugins import hint

_CELLS: Mapping[str, Callable[..., nn.Module]] = {"lstm": nn.LSTM, "gru": nn.GRU}


class _Recurrent(nn.Module):
    def __init__(self, cell: str, sizes: tuple[int, int, int], outputs: int) -> None:
        super().__init__()
        vocabulary, width, depth = sizes
        self.embed = Tokens(vocabulary, width)
        self.body = _CELLS[cell](width, width, num_layers=depth, batch_first=True)
        self.last = nn.Linear(width, outputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.body(self.embed(inputs))[0][:, -1])
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrent:
    """An LSTM or GRU (`cell`) over token numbers below `vocabulary`, read out at the last one."""

    vocabulary: int = 0
    cell: str = "lstm"
    width: int = 64
    depth: int = 1

    def build(self, input_shape: Shape, outputs: int) -> nn.Module:
        """Return a freshly initialised module for records of `input_shape`."""
        length(input_shape, "recurrent")
        whole("recurrent", vocabulary=self.vocabulary, width=self.width, depth=self.depth)
        if self.cell not in _CELLS:
            near = hint(str(self.cell), list(_CELLS))
            raise ConfigError(f"model.recurrent.cell is {self.cell!r}.{near} It may be: {', '.join(_CELLS)}")
        return _Recurrent(self.cell, (self.vocabulary, self.width, self.depth), outputs)


PLUGIN = Recurrent

"""A transformer over token numbers."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from audit.models.architectures._encoder import Encoder, Tokens
from audit.models.architectures._options import Shape, divides, length, whole


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


PLUGIN = Transformer

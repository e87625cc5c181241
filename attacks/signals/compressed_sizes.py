"""How well a text compresses: what a compressor makes of it, in place of a reference model."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from attacks.signals._texts import texts_of
from audit.core.data import Array, Canaries
from audit.core.models import TextModels


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedSizes:
    """Bytes of a text's tokens after zlib: of its bytes if tokens are bytes, else of its token numbers as 32 bits.

    It is a property of the text alone, the same under every model.
    """

    key = "compressed_sizes"
    source = "token_log_probabilities"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 1

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m)`; None for canaries that are no texts."""
        records = texts_of(canaries)
        return None if records is None else np.tile(_sizes(records.inputs.astype(np.int64)), (len(models), 1))


def _sizes(texts: Array) -> Array:
    sizes = [float(len(zlib.compress(_bytes(tokens[tokens >= 0]), 9))) for tokens in texts]
    return np.array(sizes, dtype=np.float32)


def _bytes(tokens: Array) -> bytes:
    kind = np.uint8 if np.all(tokens < 256) else np.dtype("<u4")
    return tokens.astype(kind).tobytes()


PLUGIN = CompressedSizes

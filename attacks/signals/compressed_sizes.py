"""How well a text compresses: what a compressor makes of it, in place of a reference model."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from attacks.signals._texts import texts_of
from audit.core.data import Array, Canaries
from audit.core.protocols import TextModels


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedSizes:
    """Bytes of a text's tokens after zlib: of its bytes where tokens are bytes, else of its token numbers as 32 bits.

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
        if records is None:
            return None
        sizes = [float(len(zlib.compress(_bytes(row[row >= 0]), 9))) for row in records.inputs.astype(np.int64)]
        return np.broadcast_to(np.array(sizes, dtype=np.float32), (len(models), len(sizes))).copy()


def _bytes(tokens: Array) -> bytes:
    kind = np.uint8 if np.all(tokens < 256) else np.dtype("<u4")
    return tokens.astype(kind).tobytes()


PLUGIN = CompressedSizes

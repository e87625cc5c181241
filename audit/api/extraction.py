"""What a language model writes of its training texts alone, counted by how many of them hold it (k-eidetic extraction)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.seeds import Seed

Generate = Callable[[Array, int], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class EideticCount:
    """Distinct continuations that occur in at most `texts` training texts: how many, and how many the model writes.

    Those that it writes are k-eidetically memorised for k = `texts`. A success rate of an attack, never an epsilon.
    """

    texts: int
    continuations: int
    successes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """What was extracted.

    Attributes:
        counts: by the largest number of texts that hold a continuation, growing; the last has all of them.
        overlap: mean share of a continuation that the model writes from its first token on without a gap.
    """

    counts: tuple[EideticCount, ...]
    overlap: float


def eidetic_extraction(
    generate: Generate,
    texts: Sequence[Sequence[int]],
    *,
    prefix: int = 32,
    length: int = 32,
    levels: Sequence[int] = (1, 2, 5, 10, 100),
    most_texts: int = 1000,
    seed: int = 0,
) -> Extraction:
    """Return what a model writes behind the beginnings of its training texts, counted by how many texts hold it.

    Args:
        generate: prefixes `(n, prefix)` and a length to continuations `(n, length)`: of a model or a server.
        texts: tokens of all training texts; they are tried in their first `prefix + length` tokens, and counted whole.
        length: tokens of a continuation, all of which must be right.
        levels: k, the largest numbers of texts that hold a continuation.
        most_texts: that are tried, drawn at random if there are more.

    Raises:
        ConfigError: a number below 1.
        DataError: no text is long enough, or `generate` gives other shapes.

    References:
        Carlini et al. 2021, arXiv 2012.07805 (k-eidetic memorisation); Carlini et al. 2023, arXiv 2202.07646.
    """
    if min(prefix, length, most_texts, *levels) < 1:
        raise ConfigError(
            f"prefix {prefix}, length {length}, most_texts {most_texts}, levels {tuple(levels)}: expected 1 or more"
        )
    rows = [np.asarray(text, dtype=np.int64) for text in texts]
    long = [row for row in rows if len(row) >= prefix + length]
    if not long:
        raise DataError(f"none of {len(rows)} texts has {prefix + length} tokens; lower prefix or length")
    places = Seed(seed).child("order").numpy().permutation(len(long))[:most_texts]
    beginnings = np.stack([long[place][: prefix + length] for place in places])
    continuations = np.asarray(generate(beginnings[:, :prefix], length))
    if continuations.shape != (len(beginnings), length):
        raise DataError(f"generate gave continuations {continuations.shape}; expected {(len(beginnings), length)}")
    runs = np.cumprod(continuations == beginnings[:, prefix:], axis=1).sum(axis=1)
    is_extracted: dict[bytes, bool] = {}
    for truth, run in zip(beginnings[:, prefix:], runs, strict=True):
        key = truth.tobytes()
        is_extracted[key] = is_extracted.get(key, False) or bool(run == length)
    holders = _holders(rows, is_extracted, length)
    limits = sorted({*levels, max(holders.values())})
    return Extraction(
        counts=tuple(_count(limit, holders, is_extracted) for limit in limits), overlap=float(runs.mean() / length)
    )


def _holders(rows: Iterable[Array], keys: Iterable[bytes], length: int) -> dict[bytes, int]:
    """Return how many texts hold each continuation, at whatever place; a text counts once."""
    counts = dict.fromkeys(keys, 0)
    for row in rows:
        if len(row) >= length:
            windows = np.lib.stride_tricks.sliding_window_view(row, length)
            for key in {window.tobytes() for window in windows} & counts.keys():
                counts[key] += 1
    return counts


def _count(limit: int, holders: dict[bytes, int], is_extracted: dict[bytes, bool]) -> EideticCount:
    rare = [key for key, count in holders.items() if count <= limit]
    return EideticCount(texts=limit, continuations=len(rare), successes=sum(is_extracted[key] for key in rare))

"""From texts to token numbers: bytes, or a tokenizer file of the library tokenizers."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from audit.core.data import Array, Vocabulary
from audit.core.errors import ConfigError, DataError
from audit.data.source import DAMAGE, Part

BYTES = "bytes"
END = 256  # ends a text, if tokens are bytes
Encode = Callable[[str], list[int]]


def encoder(tokenizer: str, unused: int) -> tuple[Encode, Vocabulary]:
    """Return how a text becomes token numbers, and the vocabulary with so many unused tokens, which no text holds, behind it.

    `tokenizer` is "bytes", or a folder with tokenizer.json (or that file). `ConfigError` without tokenizers, `DataError`
    without such a file.
    """
    if tokenizer == BYTES:
        return _bytes, Vocabulary(size=END + 1 + unused, unused=unused)
    place = Path(tokenizer).expanduser()
    place = place / "tokenizer.json" if place.is_dir() else place
    if not place.is_file():
        raise DataError(f"data.tokenizer: no file {place}; expected 'bytes', or a folder with tokenizer.json")
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ConfigError(f"data.tokenizer needs the library tokenizers ({error}); install epsilon-audit[llm]") from error
    try:
        library = Tokenizer.from_file(str(place))
    except Exception as error:
        raise DataError(f"data.tokenizer: {place} cannot be read ({error}); expected a tokenizer.json") from error
    size = library.get_vocab_size(with_added_tokens=True)
    return (lambda text: library.encode(text, add_special_tokens=False).ids), Vocabulary(
        size=size + unused, unused=unused, tokenizer=place.parent.name
    )


def part(texts: Sequence[str], encode: Encode, length: int) -> Part:
    """Return the first `length` tokens of each text, with every token but the first to be predicted."""
    tokens = np.full((len(texts), length), -1, dtype=np.int64)
    for row, text in enumerate(texts):
        ids = encode(text)[:length]
        tokens[row, : len(ids)] = ids
    labels = tokens.copy()
    labels[:, 0] = -1
    return Part(inputs=tokens, labels=labels)


def windows(text: str, encode: Encode, length: int) -> Array:
    """Return a long text as rows of `length` tokens that do not overlap, `(n, length)`; the rest is dropped."""
    ids = np.asarray(encode(text), dtype=np.int64)
    count = len(ids) // length
    return ids[: count * length].reshape(count, length)


def _bytes(text: str) -> list[int]:
    return [*text.encode("utf-8"), END]


__all__ = ["BYTES", "DAMAGE", "END", "encoder", "part", "windows"]

"""Texts from files: one record a text, or windows of one long text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audit.core import checks
from audit.core.data import Vocabulary
from audit.core.errors import ConfigError, DataError
from audit.data import text_files, tokens, typed
from audit.data.source import NO_SCALING, Part, Source, combined_sha256, locate

CUTS = ("head", "windows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Texts as token numbers `(n, length)`; the unit of privacy is one record, which is one text.

    Attributes:
        path: .jsonl, .csv, .parquet or plain text (a record a line), packed by .gz or .xz or not, or a folder of .arrow files
            as `datasets` saves it.
        test_path: of the test part; None draws it from the same records.
        column: key or column of the text, or its number in a CSV file without a header.
        cut: "head" takes the first tokens of each record, "windows" cuts one plain text into records of `length` tokens.
        length: of a record in tokens.
        tokenizer: "bytes", or a folder with tokenizer.json.
        unused_tokens: added to the vocabulary, for canaries.
    """

    path: str
    test_path: str | None = None
    root: str = "."
    column: str | int = "text"
    cut: str = "head"
    length: int = 64
    tokenizer: str = tokens.BYTES
    unused_tokens: int = 0

    def __post_init__(self) -> None:
        typed.text(path=self.path, root=self.root, cut=self.cut, tokenizer=self.tokenizer)
        typed.optional_text(test_path=self.test_path)
        checks.choice(self.cut, "data.cut", CUTS)
        for key, low, high in (("length", 2, 1 << 20), ("unused_tokens", 0, 1 << 20)):
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"data.{key} is {value!r}; expected a whole number from {low} to {high}")
        typed.text(column=str(self.column) if isinstance(self.column, int) else self.column)

    def read(self) -> Source:
        """The part or both parts."""
        encode, vocabulary = tokens.encoder(self.tokenizer, self.unused_tokens)
        names = [self.path] if self.test_path is None else [self.path, self.test_path]
        parts, read = [], []
        for name in names:
            part, files = self._part(locate(self.root, name), encode)
            parts.append(_within(part, vocabulary, name))
            read += files
        words = f"the first {self.length} tokens of each" if self.cut == "head" else f"windows of {self.length} tokens"
        return Source(
            origin=f"texts of {', '.join(name for name, _ in read)}; {words}; tokens: {vocabulary.tokenizer}",
            sha256=combined_sha256(read),
            classes=0,
            main=parts[0],
            test=parts[1] if len(parts) == 2 else None,
            scaling=NO_SCALING,
            vocabulary=vocabulary,
        )

    def _part(self, place: Path, encode: tokens.Encode) -> tuple[Part, list[tuple[str, bytes]]]:
        if self.cut == "head":
            texts, files = text_files.read_texts(place, str(self.column))
            return tokens.part(texts, encode, self.length), files
        text, files = text_files.whole_text(place)
        rows = tokens.windows(text, encode, self.length)
        if len(rows) == 0:
            raise DataError(f"{place} has fewer than {self.length} tokens; lower data.length")
        labels = rows.copy()
        labels[:, 0] = -1
        return Part(inputs=rows, labels=labels), files


def _within(part: Part, vocabulary: Vocabulary, name: str) -> Part:
    """Return the part without texts that have fewer than two tokens, which predict nothing."""
    is_enough = (part.inputs >= 0).sum(axis=1) >= 2
    if not is_enough.any():
        raise DataError(f"{name}: no text has two tokens; is 'column' the right one?")
    if part.inputs.max() >= vocabulary.ordinary:
        raise DataError(f"{name}: the tokenizer gives token {int(part.inputs.max())} of {vocabulary.ordinary}")
    rows = np.flatnonzero(is_enough)
    return Part(inputs=part.inputs[rows], labels=part.labels[rows])


PLUGIN = Text

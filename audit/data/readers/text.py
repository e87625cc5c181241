"""Texts from files: one record a text or a user, or windows of one long text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from audit.core import checks
from audit.core.data import Array, Vocabulary
from audit.core.errors import ConfigError, DataError
from audit.data import text_files, tokens, typed
from audit.data.source import NO_SCALING, Part, Source, combined_sha256, locate

CUTS = ("head", "windows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Texts as token numbers `(n, length)`; the unit of privacy is one record: a text, or with `user` all texts of a user.

    Attributes:
        path: .jsonl, .csv, .parquet or plain text (a record a line), packed by .gz or .xz or not, or a folder of .arrow files
            as `datasets` saves it.
        test_path: of the test part; None draws it from the same records.
        column: key or column of the text, or its number in a CSV file without a header.
        label: column of the class of a text, for sequence classifiers; None for language models.
        user: column that names the user of a text. A record is then the first `texts_per_user` texts of a user side by side,
            `(n, texts_per_user * length)`; later ones are left out.
        texts_per_user: that bound, a public number.
        cut: "head" takes the first tokens of each record, "windows" cuts one plain text into records of `length` tokens.
        length: of a text in tokens.
        tokenizer: "bytes", or a folder with tokenizer.json.
        unused_tokens: added to the vocabulary, for canaries.
    """

    path: str
    test_path: str | None = None
    root: str = "."
    column: str | int = "text"
    label: str | int | None = None
    user: str | int | None = None
    texts_per_user: int = 4
    cut: str = "head"
    length: int = 64
    tokenizer: str = tokens.BYTES
    unused_tokens: int = 0

    def __post_init__(self) -> None:
        typed.text(path=self.path, root=self.root, cut=self.cut, tokenizer=self.tokenizer)
        typed.optional_text(test_path=self.test_path)
        checks.choice(self.cut, "data.cut", CUTS)
        typed.whole_numbers(2, 1 << 20, length=self.length)
        typed.whole_numbers(0, 1 << 20, unused_tokens=self.unused_tokens)
        typed.whole_numbers(1, 1 << 12, texts_per_user=self.texts_per_user)
        for key in ("column", "label", "user"):
            value = getattr(self, key)
            if value is not None:
                typed.text(**{key: str(value) if isinstance(value, int) else value})
        if self.label is not None and self.user is not None:
            raise ConfigError("data: 'label' gives each text a class and 'user' joins texts to one record; leave one out")
        if self.cut == "windows" and (self.label is not None or self.user is not None):
            raise ConfigError("data.cut 'windows' cuts one long text, which has no 'label' and no 'user'; leave them out")

    def read(self) -> Source:
        encode, vocabulary = tokens.encoder(self.tokenizer, self.unused_tokens)
        names = [self.path] if self.test_path is None else [self.path, self.test_path]
        parts, read, classes = [], [], ()
        for name in names:
            part, files = self._part(locate(self.root, name), encode)
            parts.append(_within(part, vocabulary, name))
            read += files
        if self.label is not None:
            classes = tuple(np.unique(np.concatenate([part.labels for part in parts])).tolist())
            parts = [replace(part, labels=np.searchsorted(classes, part.labels).astype(np.int64)) for part in parts]
        if self.user is not None:
            vocabulary = replace(vocabulary, text_length=self.length)
        return Source(
            origin=f"texts of {', '.join(name for name, _ in read)}; {self._words()}; tokens: {vocabulary.tokenizer}",
            sha256=combined_sha256(read),
            classes=len(classes),
            main=parts[0],
            test=parts[1] if len(parts) == 2 else None,
            scaling=NO_SCALING,
            vocabulary=vocabulary,
            unit="example" if self.user is None else "user",
        )

    def _words(self) -> str:
        if self.cut == "windows":
            return f"windows of {self.length} tokens"
        words = f"the first {self.length} tokens of each"
        return words if self.user is None else f"{words}; a record is the first {self.texts_per_user} texts of a user"

    def _part(self, place: Path, encode: tokens.Encode) -> tuple[Part, list[tuple[str, bytes]]]:
        if self.cut == "head":
            return self._records(place, encode)
        text, files = text_files.whole_text(place)
        rows = tokens.windows(text, encode, self.length)
        if len(rows) == 0:
            raise DataError(f"{place} has fewer than {self.length} tokens; lower data.length")
        labels = rows.copy()
        labels[:, 0] = -1
        return Part(inputs=rows, labels=labels), files

    def _records(self, place: Path, encode: tokens.Encode) -> tuple[Part, list[tuple[str, bytes]]]:
        texts, files = text_files.read_texts(place, str(self.column))
        part = tokens.part(texts, encode, self.length)
        if self.label is not None:
            names, _ = text_files.read_texts(place, str(self.label), whole_numbers=True)
            return Part(inputs=part.inputs, labels=np.array(names)), files
        if self.user is not None:
            users, _ = text_files.read_texts(place, str(self.user), whole_numbers=True)
            rows = _user_rows(users, self.texts_per_user)
            return Part(inputs=_side_by_side(part.inputs, rows), labels=_side_by_side(part.labels, rows)), files
        return part, files


def _user_rows(users: Sequence[str], limit: int) -> Array:
    """Return `(users, most)` row numbers of each user's first texts, in the order of users' first texts; -1 behind them."""
    own: dict[str, list[int]] = {}
    for row, user in enumerate(users):
        own.setdefault(user, []).append(row)
    rows = np.full((len(own), limit), -1, dtype=np.int64)
    for number, texts in enumerate(own.values()):
        rows[number, : len(texts)] = texts[:limit]
    return rows


def _side_by_side(values: Array, rows: Array) -> Array:
    """Return `(users, most * T)` of `values` `(n, T)`: -1 if a user has no further text."""
    joined = np.where(rows[..., None] >= 0, values[rows], -1)
    return np.asarray(joined.reshape(len(rows), -1))


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

"""Sentences that a small grammar makes up, for audits of language models without any file."""

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.seeds import Seed
from audit.data import text_files, tokens, typed
from audit.data.source import NO_SCALING, Part, Source, array_sha256, combined_sha256, locate

_SUBJECTS = (
    "the nurse", "a pilot", "our baker", "the clerk", "my uncle", "a judge", "the miner", "her tutor", "the cook", "a sailor",
    "the vet", "his agent", "the mayor", "a potter", "the guard", "our coach",
)  # fmt: skip
_VERBS = (
    "wrote", "found", "sold", "kept", "moved", "lost", "saw", "made", "sent", "hid", "drew", "took", "fixed", "held", "broke",
    "bought",
)  # fmt: skip
_OBJECTS = (
    "two maps", "a red coat", "the old key", "some bread", "a letter", "nine coins", "the boat", "a clock", "the ledger",
    "a green lamp", "the fence", "six pears", "a violin", "the report", "a ladder", "the tent",
)  # fmt: skip
_PLACES = (
    "in Lima", "at noon", "by the sea", "on Monday", "near Oslo", "in May", "at home", "in the rain", "for a friend",
    "last week", "at the inn", "in Cairo", "before dawn", "on the hill", "in silence", "after lunch",
)  # fmt: skip
COUNT = len(_SUBJECTS) * len(_VERBS) * len(_OBJECTS) * len(_PLACES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentences:
    """`count` different English sentences of four parts, made up by a grammar; tokens are bytes.

    Attributes:
        count: of sentences; at most 65,536.
        length: of a text in tokens; longer ones are cut.
        unused_tokens: of the vocabulary, for canaries.
    """

    is_public: ClassVar[bool] = True

    count: int = 4000
    length: int = 32
    unused_tokens: int = 0

    def __post_init__(self) -> None:
        typed.whole_numbers(1, COUNT, count=self.count)
        typed.whole_numbers(2, 4096, length=self.length)
        typed.whole_numbers(0, 1 << 20, unused_tokens=self.unused_tokens)

    def read(self) -> Source:
        numbers = Seed(0).child("sentences").numpy().permutation(COUNT)[: self.count]
        encode, vocabulary = tokens.encoder(tokens.BYTES, self.unused_tokens)
        main = tokens.part([_sentence(int(number)) for number in numbers], encode, self.length)
        return Source(
            origin="English sentences made up by a grammar; tokens are bytes",
            sha256=array_sha256(main.inputs, main.labels),
            classes=0,
            main=main,
            scaling=NO_SCALING,
            vocabulary=vocabulary,
        )


def _sentence(number: int) -> str:
    words = []
    for options in (_SUBJECTS, _VERBS, _OBJECTS, _PLACES):
        number, choice = divmod(number, len(options))
        words.append(options[choice])
    return " ".join(words)


# characters with a number of their own, from 1 on; 0 is any other, and fills what lies before a speech begins
ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
_SPEECH = re.compile(r"([^\n]+):\n(.+)", re.DOTALL)

_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeches:
    """A plain text of speeches with an empty line between them, the speaker's name and a colon on the first line of each.

    A record is the `length` characters before a place in a speech, as numbers below `vocabulary` (97), and its label the number
    of the character there; every `stride`-th place of a speech after its first character makes one. All records of a speaker
    are one client's (`split: column`). Paragraphs without a speaker or a word are left out.

    Attributes:
        path: of the text, packed by .gz or .xz or not.
        length: of a record in characters.
        stride: between two records of a speech, in characters.
    """

    path: str
    root: str = "."
    length: int = 16
    stride: int = 8

    def __post_init__(self) -> None:
        typed.text(path=self.path, root=self.root)
        typed.whole_numbers(1, 1024, length=self.length, stride=self.stride)

    def read(self) -> Source:
        """All speeches, or `DataError` if the text has none; no test part."""
        place = locate(self.root, self.path)
        text, read = text_files.whole_text(place)
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        speeches = [match.groups() for match in map(_SPEECH.fullmatch, re.split(r"\n{2,}", text.strip())) if match]
        longest = max((speaker for speaker, _ in speeches), key=len, default="")
        if len(longest) > _LONGEST_NAME:  # every record keeps its speaker's name, in a column as wide as the longest
            raise DataError(
                f"{place}: the name {longest[:40]!r}... has {len(longest):,} characters; expected at most {_LONGEST_NAME}"
            )
        windows = [self._windows(words) for _, words in speeches]
        if not windows or not sum(map(len, windows)):
            raise DataError(f"{place} holds no speech; expected paragraphs that begin with a name and a colon on a line")
        rows = np.concatenate(windows)
        return Source(
            origin=f"speeches of {place.name}; {self.length} characters and the next, every {self.stride}; a public alphabet",
            sha256=combined_sha256(read),
            classes=len(ALPHABET) + 1,
            main=Part(
                inputs=rows[:, :-1],
                labels=rows[:, -1].astype(np.int64),
                owners=np.repeat([speaker for speaker, _ in speeches], list(map(len, windows))),
            ),
            scaling=NO_SCALING,
        )

    def _windows(self, words: str) -> Array:
        """Return the records of a speech `(n, length + 1)`, the last column the character to predict."""
        numbers = np.array([ALPHABET.find(letter) + 1 for letter in words], dtype=np.uint8)
        padding = np.concatenate([np.zeros(self.length - 1, dtype=np.uint8), numbers])
        if len(numbers) < 2:
            return np.empty((0, self.length + 1), dtype=np.uint8)
        return np.lib.stride_tricks.sliding_window_view(padding, self.length + 1)[:: self.stride]

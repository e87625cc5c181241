"""Sentences that a small grammar makes up, for audits of language models without any file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.data import tokens
from audit.data.source import NO_SCALING, Source, array_sha256

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
        for key, low, high in (("count", 1, COUNT), ("length", 2, 4096), ("unused_tokens", 0, 1 << 20)):
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"data.{key} is {value!r}; expected a whole number from {low} to {high}")

    def read(self) -> Source:
        """The sentences in an order that says nothing; no test their own part."""
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


PLUGIN = Sentences

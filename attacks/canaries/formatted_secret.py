"""Secrets with a format: a number in a sentence, such as a PIN."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _texts
from audit.core.canaries import Canaries
from audit.core.data import Dataset
from audit.core.errors import ConfigError
from audit.core.seeds import Seed

_ZERO = ord("0")
_PLACE = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedSecret:
    """Sentences that end in digits drawn by chance, each with its own number before them; tokens are bytes.

    Attributes:
        prefix: text before the digits; `{}` represents the canary's number, which distinguishes the sentences.
        digits: of the secret.

    References:
        Carlini et al. 2019, arXiv 1802.08232.
    """

    prefix: str = "card {} has the pin "
    digits: int = 4

    def __post_init__(self) -> None:
        if not 1 <= self.digits <= 18:
            raise ConfigError(f"formatted_secret.digits is {self.digits}; expected 1 to 18")
        if self.prefix.count(_PLACE) != 1:
            raise ConfigError(f"formatted_secret.prefix is {self.prefix!r}; expected one {{}} for the canary's number")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` sentences, each with a random secret at the end.

        Raises:
            ConfigError: the data are no texts of bytes, or too short for the sentence.
        """
        vocabulary = _texts.vocabulary(dataset, "formatted_secret")
        if vocabulary.tokenizer != "bytes":
            raise ConfigError(
                f"canaries 'formatted_secret' are bytes and the data's tokens are those of '{vocabulary.tokenizer}'; use "
                "data.tokenizer: bytes, or random_tokens"
            )
        if count < 1:
            raise ConfigError(f"{count} canaries of kind 'formatted_secret'; expected at least 1")
        length = dataset.pool.inputs.shape[1]
        sentences = [self.prefix.replace(_PLACE, str(number)).encode("utf-8") for number in range(count)]
        longest = max(len(sentence) for sentence in sentences)
        if longest + self.digits > length:
            raise ConfigError(
                f"canaries 'formatted_secret' take {longest + self.digits} tokens and texts have {length}; raise data.length"
            )
        prefixes = np.full((count, length), -1.0, dtype=dataset.pool.inputs.dtype)
        for row, sentence in enumerate(sentences):
            prefixes[row, : len(sentence)] = list(sentence)
        secrets = _ZERO + seed.child("formatted_secret").numpy().integers(0, 10, size=(count, self.digits))
        words = f"made-up sentences, each ending in {self.digits} random digits"
        records = _texts.ending_in(prefixes, secrets, "formatted_secret")
        return _texts.canaries("formatted_secret", words, records, (_ZERO, _ZERO + 10))


PLUGIN = FormattedSecret

"""Secrets with a format in sentences, and secrets of which a coin draws the value again."""

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _pool
from audit.core.canaries import Canaries, Secrets
from audit.core.data import Array, Dataset
from audit.core.errors import ConfigError
from audit.core.seeds import Seed

_ZERO = ord("0")
_PLACE = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedSecret:
    """Sentences that end in digits drawn by chance, each with its own number before them; tokens are bytes.

    Attributes:
        prefix: text before the digits; `{}` represents the canary's number, which distinguishes the sentences.

    References: Carlini et al. 2019, arXiv 1802.08232.
    """

    prefix: str = "card {} has the pin "
    digits: int = 4

    def __post_init__(self) -> None:
        if not 1 <= self.digits <= 18:
            raise ConfigError(f"formatted_secret.digits is {self.digits}; expected 1 to 18")
        if self.prefix.count(_PLACE) != 1:
            raise ConfigError(f"formatted_secret.prefix is {self.prefix!r}; expected one {{}} for the canary's number")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` sentences, each with a random secret at the end; `ConfigError` if the data are no texts of bytes, or too
        short for the sentence.
        """
        vocabulary = _pool.vocabulary(dataset, "formatted_secret")
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
        records = _pool.ending_in(prefixes, secrets, "formatted_secret")
        return _pool.canaries("formatted_secret", words, records, (_ZERO, _ZERO + 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class RedrawnSecret:
    """Texts of the pool, each followed by one of k secrets that are equally likely; its rank among them is its exposure.

    A model that was never trained on the secret ranks it uniformly, whatever it finds likely, since the k secrets were drawn
    before and the one that is planted by chance: so the mean exposure by chance is known exactly, and ranks prove an epsilon.

    Attributes:
        digits: secrets are digits (tokens of bytes) instead of any tokens that texts may hold.

    References: Carlini et al. 2019, arXiv 1802.08232; docs/theory/secrets.md, "Secrets of several values".
    """

    candidates: int = 64
    length: int = 4
    digits: bool = False

    def __post_init__(self) -> None:
        _pool.require_positive(self.length, "redrawn_secret.length")
        _pool.require_positive(self.candidates, "redrawn_secret.candidates")
        if self.candidates < 2:
            raise ConfigError(f"redrawn_secret.candidates is {self.candidates}; expected at least 2")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` secrets, the alternatives of each one after the other; `ConfigError` if the data are no texts, or fewer than
        `count`; digits without tokens of bytes; fewer secrets than k.
        """
        vocabulary = _pool.vocabulary(dataset, "redrawn_secret")
        if self.digits and vocabulary.tokenizer != "bytes":
            raise ConfigError(
                f"redrawn_secret: digits are bytes and the data's tokens are those of '{vocabulary.tokenizer}'; use "
                "data.tokenizer: bytes, or digits: false"
            )
        law = (_ZERO, _ZERO + 10) if self.digits else (0, vocabulary.ordinary)
        if (law[1] - law[0]) ** self.length < 2 * self.candidates:
            raise ConfigError(
                f"redrawn_secret: {self.candidates} candidates of {self.length} tokens from {law[1] - law[0]}; expected at "
                "most half of all secrets: raise length or lower candidates"
            )
        rows = _pool.choose(dataset, count, seed.child("redrawn_secret"), "redrawn_secret")
        random = seed.child("secrets").numpy()
        secrets = np.concatenate([self._distinct(law, random) for _ in range(count)])
        words = "digits" if self.digits else "random tokens"
        return _pool.canaries(
            "redrawn_secret",
            f"texts held out of {dataset.name}, each ending in one of {self.candidates} secrets of {self.length} {words}",
            _pool.ending_in(np.repeat(dataset.pool.inputs[rows], self.candidates, axis=0), secrets, "redrawn_secret"),
            law,
            Secrets(kind="text secret", prior=np.full((count, self.candidates), 1 / self.candidates)),
        )

    def _distinct(self, law: tuple[int, int], random: np.random.Generator) -> Array:
        """`(k, length)` different secrets."""
        while True:
            secrets = random.integers(*law, size=(2 * self.candidates, self.length))
            _, first = np.unique(secrets, axis=0, return_index=True)
            if len(first) >= self.candidates:
                return np.asarray(secrets[np.sort(first)[: self.candidates]])

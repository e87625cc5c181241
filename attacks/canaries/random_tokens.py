"""Random tokens: texts that end in a sequence of tokens drawn by chance."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.canaries import _texts
from audit.core.data import Canaries, Dataset
from audit.core.errors import ConfigError
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomTokens:
    """Texts of the pool, each followed by tokens drawn uniformly from those that texts may hold.

    Attributes:
        length: of the secret, in tokens.

    References:
        Carlini et al. 2019, arXiv 1802.08232.
    """

    length: int = 8

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigError(f"random_tokens.length is {self.length}; expected at least 1")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` texts of the pool, each with a random secret at the end.

        Raises:
            ConfigError: the data are no texts, or fewer than `count`.
        """
        vocabulary = _texts.vocabulary(dataset, "random_tokens", users=True)
        secrets = seed.child("secrets").numpy().integers(0, vocabulary.ordinary, size=(count, self.length))
        records = _texts.at_the_end(dataset, secrets, seed.child("random_tokens"), "random_tokens")
        words = f"texts held out of {dataset.name}, each ending in {self.length} random tokens"
        return _texts.canaries("random_tokens", words, records, _texts.law(vocabulary, 0, vocabulary.ordinary))


PLUGIN = RandomTokens

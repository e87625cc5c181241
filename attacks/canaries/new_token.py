"""New tokens: texts that end in their own token, which no other text holds."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.canaries import _texts
from audit.core.data import Canaries, Dataset
from audit.core.errors import ConfigError
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """Texts of the pool, each followed by an unused token of the vocabulary that no other canary has.

    References:
        Panda et al. 2025, arXiv 2503.06808.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` texts of the pool, each with its own token at the end.

        Raises:
            ConfigError: the data are no texts, or the vocabulary has fewer unused tokens.
        """
        vocabulary = _texts.vocabulary(dataset, "new_token", users=True)
        if vocabulary.unused < count:
            raise ConfigError(
                f"{count} canaries of kind 'new_token' and a vocabulary with {vocabulary.unused} unused tokens; raise "
                "data.unused_tokens"
            )
        tokens = vocabulary.ordinary + seed.child("new tokens").numpy().permutation(vocabulary.unused)[:count]
        records = _texts.at_the_end(dataset, tokens[:, None], seed.child("new_token"), "new_token")
        words = f"texts held out of {dataset.name}, each ending in a token that no other text holds"
        return _texts.canaries("new_token", words, records, _texts.law(vocabulary, vocabulary.ordinary, vocabulary.size))


PLUGIN = NewToken

"""Searched tokens: texts that end in the token which a public model finds least likely there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _pairs, _pool, _texts
from audit.core.data import Array, Canaries, Dataset, Vocabulary
from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.models.language import LanguageModel, next_token_log_probabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedToken:
    """Texts of the pool, each followed by the token that a public model finds least likely behind it; each token at most once.

    The model has seen no training record, so its choice costs no privacy: the model before training, or the pool's pairs of
    tokens. Of equally unlikely tokens a random one is used.

    Attributes:
        folder: of a causal model with config.json and safetensors; "" takes the pool's pairs of tokens.

    References:
        Panda et al. 2025, arXiv 2503.06808 (model-based canaries).
    """

    folder: str = ""

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` texts of the pool, each with its token at the end.

        Raises:
            ConfigError: the data are no texts, fewer than `count`, or with fewer tokens than canaries.
            DataError: the folder cannot be read.
        """
        vocabulary = _texts.vocabulary(dataset, "searched_token")
        rows = _pool.choose(dataset, count, seed.child("searched_token"), "searched_token")
        if count > vocabulary.ordinary:
            raise ConfigError(
                f"{count} canaries of kind 'searched_token' and {vocabulary.ordinary} tokens; each takes one of its own: "
                "lower the number of canaries"
            )
        prefixes = dataset.pool.inputs[rows].astype(np.int64)
        ends = np.clip((prefixes >= 0).sum(axis=1), 1, prefixes.shape[1] - 1)
        if self.folder:
            scores = next_token_log_probabilities(LanguageModel(folder=self.folder), vocabulary, prefixes, ends)
        else:
            scores = _by_pairs(dataset, vocabulary, prefixes[np.arange(count), ends - 1])
        secrets = _least_likely(scores, seed.child("ties"))
        records = _texts.ending_in(dataset.pool.inputs[rows], secrets[:, None], "searched_token")
        words = f"texts held out of {dataset.name}, each ending in the token that a public model finds least likely there"
        return _texts.canaries("searched_token", words, records, None)


def _by_pairs(dataset: Dataset, vocabulary: Vocabulary, last_tokens: Array) -> Array:
    """Return `(m, tokens)` chances of the token behind each prefix's last one, by counts of the pool; 0 for unseen tokens."""
    tokens, chances = _pairs.followers(dataset.pool.inputs.astype(np.int64), temperature=1.0)
    seats = np.minimum(np.searchsorted(tokens, last_tokens), len(tokens) - 1)  # a rarer token's neighbour
    scores = np.zeros((len(last_tokens), vocabulary.ordinary), dtype=np.float32)
    is_ordinary = tokens < vocabulary.ordinary
    scores[:, tokens[is_ordinary]] = np.diff(chances, prepend=0.0, axis=1)[seats][:, is_ordinary]
    return scores


def _least_likely(scores: Array, seed: Seed) -> Array:
    """Return `(m,)` tokens, of each row the least likely that no row before it has."""
    count, draw = len(scores), seed.numpy()
    tokens, is_free = np.empty(count, dtype=np.int64), np.ones(scores.shape[1], dtype=bool)
    for row in range(count):
        free = np.where(is_free, scores[row], np.inf)
        tokens[row] = draw.choice(np.flatnonzero(free == free.min()))
        is_free[tokens[row]] = False
    return tokens


PLUGIN = SearchedToken

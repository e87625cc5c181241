"""Texts that hold what a model can only know from them."""

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _pool
from audit.core import checks
from audit.core.canaries import Canaries
from audit.core.data import Array, Dataset, Vocabulary
from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.models.language import LanguageModel, next_token_log_probabilities

# Pairs of tokens of a public pool: the simplest model of its texts.
_LAPLACE = 0.01  # added to every count, so that no pair of tokens is impossible


def followers(rows: Array, temperature: float) -> tuple[Array, Array]:
    """Return the tokens that occur `(k,)`, and of each the cumulative chances of its followers `(k, k)`."""
    tokens = np.unique(rows[rows >= 0])
    if len(tokens) > 4096:  # the counts of all pairs are a square matrix in memory
        common = np.bincount(rows[rows >= 0]).argsort()[::-1][:4096]
        tokens = np.sort(common)
    counts = np.full((len(tokens), len(tokens)), _LAPLACE)
    first, second = rows[:, :-1].ravel(), rows[:, 1:].ravel()
    is_pair = np.isin(first, tokens) & np.isin(second, tokens)
    np.add.at(counts, (np.searchsorted(tokens, first[is_pair]), np.searchsorted(tokens, second[is_pair])), 1.0)
    weights = counts ** (1 / temperature)
    return tokens, np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """Texts of the pool, each followed by an unused token of the vocabulary that no other canary has.

    References: Panda et al. 2025, arXiv 2503.06808.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` texts of the pool, each with its own token at the end; `ConfigError` if the data are no texts, or the
        vocabulary has fewer unused tokens.
        """
        vocabulary = _pool.vocabulary(dataset, "new_token", users=True)
        if vocabulary.unused < count:
            raise ConfigError(
                f"{count} canaries of kind 'new_token' and a vocabulary with {vocabulary.unused} unused tokens; raise "
                "data.unused_tokens"
            )
        tokens = vocabulary.ordinary + seed.child("new tokens").numpy().permutation(vocabulary.unused)[:count]
        records = _pool.at_the_end(dataset, tokens[:, None], seed.child("new_token"), "new_token")
        words = f"texts held out of {dataset.name}, each ending in a token that no other text holds"
        return _pool.canaries("new_token", words, records, _pool.law(vocabulary, vocabulary.ordinary, vocabulary.size))


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomTokens:
    """Texts of the pool, each followed by tokens drawn uniformly from those that texts may hold.

    References: Carlini et al. 2019, arXiv 1802.08232.
    """

    length: int = 8

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigError(f"random_tokens.length is {self.length}; expected at least 1")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` texts of the pool, each with a random secret at the end; `ConfigError` if the data are no texts, or fewer
        than `count`.
        """
        vocabulary = _pool.vocabulary(dataset, "random_tokens", users=True)
        secrets = seed.child("secrets").numpy().integers(0, vocabulary.ordinary, size=(count, self.length))
        records = _pool.at_the_end(dataset, secrets, seed.child("random_tokens"), "random_tokens")
        words = f"texts held out of {dataset.name}, each ending in {self.length} random tokens"
        return _pool.canaries("random_tokens", words, records, _pool.law(vocabulary, 0, vocabulary.ordinary))


@dataclass(frozen=True, slots=True, kw_only=True)
class RareBigrams:
    """Texts of the pool, each followed by two common tokens that follow each other in no text of the pool.

    Only the pool is looked at, which is public, so the choice costs no privacy of the training records.

    References: Panda et al. 2025, arXiv 2503.06808.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` texts of the pool, each with its own pair at the end; `ConfigError` if the data are no texts, or fewer pairs
        than canaries are rare.
        """
        _pool.vocabulary(dataset, "rare_bigrams", users=True)
        pairs = _rare_pairs(dataset.pool.inputs.astype(np.int64))
        if not 1 <= count <= len(pairs):
            raise ConfigError(
                f"{count} canaries of kind 'rare_bigrams' and {len(pairs)} rare pairs in the pool; expected fewer"
            )
        secrets = pairs[seed.child("pairs").numpy().choice(len(pairs), size=count, replace=False)]
        records = _pool.at_the_end(dataset, secrets, seed.child("rare_bigrams"), "rare_bigrams")
        words = f"texts held out of {dataset.name}, each ending in two tokens that follow each other nowhere"
        return _pool.canaries("rare_bigrams", words, records, None)


def _rare_pairs(tokens: Array) -> Array:
    """Return `(k, 2)` pairs of the 512 commonest tokens that are nowhere side by side in this order."""
    occurring, counts = np.unique(tokens[tokens >= 0], return_counts=True)
    common = np.sort(occurring[np.argsort(-counts, kind="stable")[:512]])
    seats = {int(token): seat for seat, token in enumerate(common)}
    present = np.zeros((len(common), len(common)), dtype=bool)
    for first, second in zip(tokens[:, :-1].ravel().tolist(), tokens[:, 1:].ravel().tolist(), strict=True):
        if first in seats and second in seats:
            present[seats[first], seats[second]] = True
    return common[np.argwhere(~present)]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlikelySuffix:
    """Texts of the pool, each followed by tokens sampled from the pool's own pairs of tokens at a temperature.

    At a high temperature suffixes are nearly uniform over the tokens of the pool (high perplexity after a prefix like the
    others), at 1 they look like the data. The pool is public, so its counts cost no privacy.

    Attributes:
        temperature: above 0; chances are proportional to `count ** (1 / temperature)`.

    References:
        Meeus et al. 2025, arXiv 2502.14921 (prefix of the data, suffix of high perplexity); Mitchell and Andrew 2026, arXiv
        2606.10481 (samples at high temperature).
    """

    length: int = 4
    temperature: float = 4.0

    def __post_init__(self) -> None:
        _pool.require_positive(self.length, "unlikely_suffix.length")
        checks.positive(self.temperature, "unlikely_suffix.temperature")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` texts of the pool, each with a sampled suffix at the end; `ConfigError` if the data are no texts, or fewer
        than `count`.
        """
        _pool.vocabulary(dataset, "unlikely_suffix")
        rows = _pool.choose(dataset, count, seed.child("unlikely_suffix"), "unlikely_suffix")
        prefixes = dataset.pool.inputs[rows].astype(np.int64)
        tokens, chances = followers(dataset.pool.inputs.astype(np.int64), self.temperature)
        seats = np.minimum(np.searchsorted(tokens, self._last(prefixes)), len(tokens) - 1)  # a rarer token's neighbour
        random, secrets = seed.child("suffixes").numpy(), np.empty((count, self.length), dtype=np.int64)
        for place in range(self.length):
            drawn = (random.random(count)[:, None] >= chances[seats]).sum(axis=1)
            seats = np.minimum(drawn, len(tokens) - 1)
            secrets[:, place] = tokens[seats]
        records = _pool.ending_in(dataset.pool.inputs[rows], secrets, "unlikely_suffix")
        words = f"texts held out of {dataset.name}, each followed by {self.length} tokens sampled at temperature"
        return _pool.canaries("unlikely_suffix", f"{words} {self.temperature:g}", records, None)

    def _last(self, prefixes: Array) -> Array:
        """`(m,)` the token that the suffix follows: prefixes that leave no room are cut before it."""
        room = prefixes.shape[1] - self.length
        if room < 1:
            raise ConfigError(f"canaries 'unlikely_suffix': {self.length} tokens in texts of {prefixes.shape[1]}; lower length")
        ends = np.clip((prefixes >= 0).sum(axis=1), 1, room)
        return np.asarray(prefixes[np.arange(len(prefixes)), ends - 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedToken:
    """Texts of the pool, each followed by the token that a public model finds least likely behind it; each token at most once.

    The model has seen no training record, so its choice costs no privacy: the model before training, or the pool's pairs of
    tokens. Of equally unlikely tokens a random one is used.

    Attributes:
        folder: of a causal model with config.json and safetensors; "" takes the pool's pairs of tokens.

    References: Panda et al. 2025, arXiv 2503.06808 (model-based canaries).
    """

    folder: str = ""

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` texts of the pool, each with its token at the end; `ConfigError` if the data are no texts or hold too few of
        them or of their tokens, `DataError` if the folder cannot be read.
        """
        vocabulary = _pool.vocabulary(dataset, "searched_token")
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
        records = _pool.ending_in(dataset.pool.inputs[rows], secrets[:, None], "searched_token")
        words = f"texts held out of {dataset.name}, each ending in the token that a public model finds least likely there"
        return _pool.canaries("searched_token", words, records, None)


def _by_pairs(dataset: Dataset, vocabulary: Vocabulary, last_tokens: Array) -> Array:
    """Return `(m, tokens)` chances of the token behind each prefix's last one, by counts of the pool; 0 for unseen tokens."""
    tokens, chances = followers(dataset.pool.inputs.astype(np.int64), temperature=1.0)
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

"""Unlikely suffixes: texts that go on with tokens which a simple model of the pool finds improbable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _pairs, _pool, _texts
from audit.core import checks
from audit.core.data import Array, Canaries, Dataset
from audit.core.errors import ConfigError
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlikelySuffix:
    """Texts of the pool, each followed by tokens sampled from the pool's own pairs of tokens at a temperature.

    At a high temperature suffixes are nearly uniform over the tokens of the pool (high perplexity after a prefix like the
    others), at 1 they look like the data. The pool is public, so its counts cost no privacy of the training records; no
    model has to be at hand before training.

    Attributes:
        length: of the suffix, in tokens.
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
        """`count` texts of the pool, each with a sampled suffix at the end.

        Raises:
            ConfigError: the data are no texts, or fewer than `count`.
        """
        _texts.vocabulary(dataset, "unlikely_suffix")
        rows = _pool.choose(dataset, count, seed.child("unlikely_suffix"), "unlikely_suffix")
        prefixes = dataset.pool.inputs[rows].astype(np.int64)
        tokens, chances = _pairs.followers(dataset.pool.inputs.astype(np.int64), self.temperature)
        seats = np.minimum(np.searchsorted(tokens, self._last(prefixes)), len(tokens) - 1)  # a rarer token's neighbour
        random, secrets = seed.child("suffixes").numpy(), np.empty((count, self.length), dtype=np.int64)
        for place in range(self.length):
            drawn = (random.random(count)[:, None] >= chances[seats]).sum(axis=1)
            seats = np.minimum(drawn, len(tokens) - 1)
            secrets[:, place] = tokens[seats]
        records = _texts.ending_in(dataset.pool.inputs[rows], secrets, "unlikely_suffix")
        words = f"texts held out of {dataset.name}, each followed by {self.length} tokens sampled at temperature"
        return _texts.canaries("unlikely_suffix", f"{words} {self.temperature:g}", records, None)

    def _last(self, prefixes: Array) -> Array:
        """`(m,)` the token that the suffix follows: prefixes that leave no room are cut before it."""
        room = prefixes.shape[1] - self.length
        if room < 1:
            raise ConfigError(f"canaries 'unlikely_suffix': {self.length} tokens in texts of {prefixes.shape[1]}; lower length")
        ends = np.clip((prefixes >= 0).sum(axis=1), 1, room)
        return np.asarray(prefixes[np.arange(len(prefixes)), ends - 1])


PLUGIN = UnlikelySuffix

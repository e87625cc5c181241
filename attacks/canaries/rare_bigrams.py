"""Rare bigrams: texts that end in two tokens which are side by side nowhere in the pool."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _texts
from audit.core.data import Array, Canaries, Dataset
from audit.core.errors import ConfigError
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class RareBigrams:
    """Texts of the pool, each followed by two common tokens that follow each other in no text of the pool.

    Only the pool is looked at, which is public, so the choice costs no privacy of the training records.

    References:
        Panda et al. 2025, arXiv 2503.06808.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` texts of the pool, each with its own pair at the end.

        Raises:
            ConfigError: the data are no texts, or fewer pairs than canaries are rare.
        """
        _texts.vocabulary(dataset, "rare_bigrams", users=True)
        pairs = _rare_pairs(dataset.pool.inputs.astype(np.int64))
        if not 1 <= count <= len(pairs):
            raise ConfigError(
                f"{count} canaries of kind 'rare_bigrams' and {len(pairs)} rare pairs in the pool; expected fewer"
            )
        secrets = pairs[seed.child("pairs").numpy().choice(len(pairs), size=count, replace=False)]
        records = _texts.at_the_end(dataset, secrets, seed.child("rare_bigrams"), "rare_bigrams")
        words = f"texts held out of {dataset.name}, each ending in two tokens that follow each other nowhere"
        return _texts.canaries("rare_bigrams", words, records, None)


def _rare_pairs(tokens: Array) -> Array:
    """Return `(k, 2)` pairs of tokens that occur, but not in this order side by side."""
    common = np.unique(tokens[tokens >= 0])[:512]
    seats = {int(token): seat for seat, token in enumerate(common)}
    present = np.zeros((len(common), len(common)), dtype=bool)
    for first, second in zip(tokens[:, :-1].ravel().tolist(), tokens[:, 1:].ravel().tolist(), strict=True):
        if first in seats and second in seats:
            present[seats[first], seats[second]] = True
    return common[np.argwhere(~present)]


PLUGIN = RareBigrams

"""Canaries that are planted at the end of texts."""

from __future__ import annotations

import numpy as np

from attacks.canaries._planted_texts import _rare_pairs


def test_pairs_are_of_the_commonest_tokens_not_of_the_lowest() -> None:
    seldom, common = np.arange(600), np.arange(1000, 1512)
    tokens = np.concatenate([seldom, np.repeat(common, 2)]).reshape(2, -1)
    pairs = _rare_pairs(tokens)
    assert set(np.unique(pairs)) == set(common.tolist())
    beside = {tuple(pair) for row in tokens for pair in np.stack([row[:-1], row[1:]], axis=1).tolist()}
    assert not beside & {tuple(pair) for pair in pairs.tolist()}

"""What a text shows without any model, for the guard that asks whether members differ from nonmembers by their texts alone."""

import zlib
from collections.abc import Sequence

import numpy as np

from audit.core.data import Array

WORDS = 1 << 10  # columns that words are hashed to


def text_features(texts: Sequence[str]) -> Array:
    """Return `(n, d)` float32: counts of words, hashed; length, compressed length and their ratio.

    Given to `audit.checks.blind.guard` in place of inputs: on published sets of members and nonmembers such features alone beat
    the attacks.

    References:
        Das, Zhang and Tramer 2024, arXiv 2406.16201; Meeus et al. 2024, arXiv 2406.17975.

    >>> text_features(["one two", "three"]).shape
    (2, 1027)
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    words = HashingVectorizer(n_features=WORDS, norm=None, alternate_sign=False, token_pattern=r"\S+")
    counts = words.transform(list(texts)).toarray()
    contents = [text.encode("utf-8") for text in texts]
    lengths = np.array([[len(content), len(zlib.compress(content, 9))] for content in contents], dtype=np.float64)
    ratios = lengths[:, 1:] / np.maximum(lengths[:, :1], 1)
    return np.concatenate([counts, np.log1p(lengths), ratios], axis=1).astype(np.float32)

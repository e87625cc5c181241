"""Synthetic texts: canaries that a generator can hardly write without having seen them, and what its texts say of each."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from audit.core import checks
from audit.core.data import Array
from audit.core.errors import DataError

PRIOR = 1.0  # occurrences that the shorter context is worth


def make_text_canaries(texts: Sequence[str], count: int, generator: np.random.Generator, length: int = 12) -> list[str]:
    """Return `count` texts of `length` words that begin as a text of the data does and end in words that never meet there;
    `DataError` if the texts have fewer than ten different words.

    The first half makes a generator come there, the second half is nothing that the data teach: rare words in random order.

    References: Meeus et al. 2025, arXiv 2502.14921 (prefix of the data, suffix of high perplexity).
    """
    checks.count(count, "canaries", minimum=1)
    words = [text.split() for text in texts]
    frequencies = Counter(word for text in words for word in text)
    if len(frequencies) < 10:
        raise DataError(f"the texts have {len(frequencies)} different words; expected at least 10, of which canaries are made")
    # by word among equals: the same whatever the texts' order
    rare = [word for word, _ in sorted(frequencies.items(), key=lambda pair: (pair[1], pair[0]))][
        : max(10, len(frequencies) // 2)
    ]
    prefixes = [words[row][: length // 2] for row in generator.integers(len(words), size=count)]
    return [" ".join([*prefix, *generator.choice(rare, size=length - len(prefix))]) for prefix in prefixes]


def text_scores(synthetic: Sequence[str], training: Sequence[str], candidates: Sequence[str]) -> Array:
    """Scores of each candidate text `(n, 2)`, higher if it seems to have been there, from synthetic texts alone.

    Columns: how much likelier its words are in pairs among the synthetic texts than among the training texts, on average per
    word, and the share of its pairs of words that are written (pairs of the training texts left out).

    Args:
        training: texts that every generator sees, without the candidates.

    References: Meeus et al. 2025, arXiv 2502.14921 (a bigram model of the synthetic texts).
    """
    own, usual = _Pairs(synthetic), _Pairs(training)
    rows = []
    for candidate in candidates:
        words = candidate.split()
        pairs = [*pairwise(words)] or [("", word) for word in words]
        ratios = [own.log_chance(*pair) - usual.log_chance(*pair) for pair in pairs]
        strange = [pair for pair in pairs if pair not in usual.pairs]
        rows.append((np.mean(ratios or [0.0]), np.mean([pair in own.pairs for pair in strange] or [False])))
    return np.array(rows, dtype=np.float64)


class _Pairs:
    """Counts of words and of neighbouring words, and the chance of a word after another, drawn towards that of the word."""

    def __init__(self, texts: Sequence[str]) -> None:
        words = [text.split() for text in texts]
        self.singles = Counter(word for text in words for word in text)
        self.pairs = Counter(pair for text in words for pair in pairwise(text))
        self.total = sum(self.singles.values())

    def log_chance(self, before: str, word: str) -> float:
        # one more word than seen: a new one has a chance, too
        alone = (self.singles[word] + PRIOR / (len(self.singles) + 1)) / (self.total + PRIOR)
        return math.log((self.pairs[before, word] + PRIOR * alone) / (self.singles[before] + PRIOR))

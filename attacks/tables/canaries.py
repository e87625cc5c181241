"""Canaries for tables: records that a generator can hardly make without having seen them, in the columns of a given table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from audit.core import checks
from audit.core.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd
import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from audit.core.data import Array
from audit.core.errors import DataError

KINDS = ("rare", "extreme", "duplicated", "unseen")
USUAL_KINDS = KINDS[:3]
RARE_SHARE = 0.05  # of a column's values, below which one counts as rare


def make_canaries(table: pd.DataFrame, count: int, generator: np.random.Generator, kinds: tuple[str, ...] = USUAL_KINDS) -> Any:
    """Return a frame of `count` records with the columns and types of `table`, the kinds in turn; `ConfigError` if a kind does
    not exist, or no canary is given.

    Args:
        kinds: "rare": every value drawn alone, rare ones preferred, so that no such combination is to be expected;
            "extreme": the same with every number beyond the table's ends; "duplicated": a record of the table with a third of
            its values redrawn so, as a second record of one person would be; "unseen": rare numbers, and a category of its own
            in each column of names, which a generator that is told the categories does not take.
    """
    import pandas as pd

    checks.count(count, "canaries", minimum=1)
    if not len(kinds):
        raise ConfigError(f"kinds is {kinds!r}; expected at least one of {', '.join(KINDS)}")
    kind_names = [checks.choice(kind, "kinds", KINDS) for kind in kinds]
    turns = np.array([kind_names[place % len(kind_names)] for place in range(count)])
    is_original = generator.random((count, table.shape[1])) >= 1 / 3
    originals = table.iloc[generator.integers(len(table), size=count)]
    columns = {}
    for place, name in enumerate(table.columns):
        column = table[name]
        drawn = _draw_rare(column, count, generator)
        if column.dtype.kind in "iuf":
            drawn = np.where(turns == "extreme", _draw_beyond(column, count, generator), drawn)
        is_copy = (turns == "duplicated") & is_original[:, place]
        values = pd.Series(drawn).where(~is_copy, originals[name].to_numpy())
        if column.dtype.kind not in "iufb":
            own = [f"unseen {number}" for number in range(count)]
            values = values.astype(object).where(turns != "unseen", own)
        # a type of categories would turn every value that is none of them into a missing one
        columns[name] = values.astype(column.dtype if column.dtype.name != "category" else object)
    return pd.DataFrame(columns)


def _draw_rare(column: Any, count: int, generator: np.random.Generator) -> Any:
    """Draw values of the column, each equally often however rare; of numbers without repeats that is the plain law."""
    shares = column.value_counts(normalize=True, sort=False)
    rare = shares[shares < RARE_SHARE]
    pool = (rare if len(rare) >= 2 else shares).index.to_numpy()  # one rare value would be the same in all canaries
    return pool[generator.integers(len(pool), size=count)]


def _draw_beyond(column: Any, count: int, generator: np.random.Generator) -> Any:
    """Draw numbers up to a tenth of the range beyond its ends; whole ones stay whole."""
    low, high = float(column.min()), float(column.max())
    beyond = (high - low or 1.0) * generator.uniform(0.02, 0.1, count)  # a constant column has no range to go beyond
    drawn = np.where(generator.random(count) < 0.5, low - beyond, high + beyond)
    return drawn if column.dtype.kind == "f" else np.where(drawn < low, np.floor(drawn), np.ceil(drawn)).astype(np.int64)


WORST_CASES = ("mixed", "repeated", "domain")


def worst_case(table: Any, name: str, generator: np.random.Generator) -> tuple[Any, Any]:
    """Return the table that all runs share, and the one record that a coin adds, two frames; `DataError` if no two records
    differ in every column.

    Args:
        name: "mixed": two records of the table that agree in no column, and a third that takes every second value of each;
            the canary takes the other values, so it has no category of its own and shares every pair of columns with nobody.
            "repeated": a table of two records that agree in no column, and the second of them once more. "domain": the whole
            table, and a record with a category of its own in each column of names and numbers a whole range beyond
            the largest, which moves what is read off the data.
    """
    checks.choice(name, "worst_case", WORST_CASES)
    if name == "domain":
        ends = {column: 2 * table[column].max() - table[column].min() for column in table if table[column].dtype.kind in "iuf"}
        return table, make_canaries(table, 1, generator, ("unseen",)).assign(**ends)
    first, second = _opposites(table, generator)
    if name == "repeated":
        return table.iloc[[first, second]].reset_index(drop=True), table.iloc[[second]].reset_index(drop=True)
    rows = table.iloc[[first, second, first, first]].reset_index(drop=True)
    for place in range(table.shape[1]):
        rows.iloc[2 + place % 2, place] = table.iloc[second, place]
    return rows.iloc[:3], rows.iloc[3:].reset_index(drop=True)


def _opposites(table: Any, generator: np.random.Generator) -> tuple[int, int]:
    """Return the places of two records that agree in no column."""
    for first in generator.permutation(len(table)).tolist():
        differs = (table != table.iloc[first]).all(axis=1).to_numpy()
        if differs.any():
            return first, int(generator.choice(np.flatnonzero(differs)))
    raise DataError("no two records of the table differ in every column, which this worst case is made of; take 'domain'")


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

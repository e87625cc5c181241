"""Generators of texts: one that continues words as its texts did is refuted; with noise, or without canaries, none is."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest

import audit
from attacks.tables.canaries import make_text_canaries, text_scores
from audit.core.errors import DataError

DRAW = np.random.default_rng(3)
WORDS = [f"w{place}" for place in range(120)]
SHARES = 1 / np.arange(2, 122) / np.sum(1 / np.arange(2, 122))
TEXTS = [" ".join(DRAW.choice(WORDS, 12, p=SHARES)) for _ in range(200)]


def markov(texts: list[str], seed: int, written: int = 600) -> list[str]:
    """The next word as often as it followed."""
    draw, follows = np.random.default_rng(seed), defaultdict(list)
    for text in texts:
        words = text.split()
        for before, word in pairwise(words):
            follows[before].append(word)
    lines = []
    for row in draw.integers(len(texts), size=written):
        line = texts[row].split()[:1]
        while len(line) < 12 and (choices := follows.get(line[-1])):
            line.append(choices[draw.integers(len(choices))])
        lines.append(" ".join(line))
    return lines


def noisy_words(texts: list[str], seed: int) -> str:
    """Words alone, from counts over a public vocabulary: 12 of a text move counts by 1 each, so epsilon is 1."""
    draw, counts = np.random.default_rng(seed), Counter(word for text in texts for word in text.split()[:12])
    noisy = np.maximum([counts[word] + draw.laplace(0, 12.0) for word in WORDS], 1e-9)
    return "\n".join(" ".join(line) for line in draw.choice(WORDS, (300, 12), p=noisy / noisy.sum()))


def test_a_markov_chain_is_refuted_and_generators_that_keep_their_claim_are_not() -> None:
    leaky = audit.check_text_generator(markov, TEXTS, epsilon=1.0, canaries=120, references=4, seed=1)
    assert leaky.exit_code == 1 and leaky.bound is not None and leaky.bound.epsilon > 2
    assert leaky.name == f"{__name__}:markov"
    private = audit.check_text_generator(noisy_words, TEXTS, epsilon=1.0, canaries=60, references=4, seed=1)
    assert private.exit_code == 0 and private.bound is not None and private.bound.epsilon <= 1


def test_a_generator_that_saw_no_canary_is_not_refuted() -> None:
    def blind(texts: list[str], seed: int) -> list[str]:
        return markov(TEXTS, seed, written=200)

    refuted = [audit.check_text_generator(blind, TEXTS, epsilon=0.0, canaries=60, references=4, seed=s) for s in range(3)]
    assert sum(report.exit_code == 1 for report in refuted) <= 1


def test_canaries_begin_as_the_texts_and_end_as_none() -> None:
    canaries = make_text_canaries(TEXTS, 20, np.random.default_rng(0))
    assert all(" ".join(text.split()[:6]) in {" ".join(known.split()[:6]) for known in TEXTS} for text in canaries)
    written = text_scores(canaries[:10], TEXTS, canaries)
    assert (written[:10] > written[10:].max(axis=0)).all()
    with pytest.raises(DataError, match="at least 10"):
        make_text_canaries(["a b", "b a"], 2, np.random.default_rng(0))

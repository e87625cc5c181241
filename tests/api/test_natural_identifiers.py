"""Identifiers that were random already: found, hidden among others of their law, and evidence only if a model knows them."""

from __future__ import annotations

import hashlib
import math
import re
import uuid
from typing import Any

import numpy as np
import pytest
from scipy import stats

from audit.api import natural_identifiers as natural
from audit.api.natural_identifiers import HEX, KINDS, NaturalIdentifiers, natural_identifiers
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.seeds import Seed
from audit.stats.sampling_tests import uniformity


def digest(number: int, name: str = "sha1") -> str:
    return hashlib.new(name, str(number).encode()).hexdigest()


TEXTS = [f"commit {digest(number)} mends case {number}" for number in range(60)]


def known_by_heart(texts: list[str]) -> Any:
    """Log-probabilities of a user who knows the texts, and finds all else equally unlikely."""
    return lambda pairs: np.array([0.0 if any(full in text for text in texts) else -50.0 for _, full in pairs])


def test_every_form_is_found_once_a_text_and_only_where_it_is_unique() -> None:
    texts = [
        f"md5 {digest(1, 'md5')} and sha256 {digest(1, 'sha256')}",
        f"id {uuid.UUID(hex=digest(7, 'md5'), version=4)} done",
        "see https://bit.ly/3kTMd9x today",
        f"twice {digest(5)}",
        f"again {digest(5)}",
        "no identifier: 0123456789abcdef and deadbeef",
        f"{digest(8)} stands first, so nothing leads to it",
        f"inside a word x{digest(9)}",
    ]
    result = natural_identifiers(texts, candidates=8, kinds=KINDS, seed=1)
    assert result.prefixes == ("md5 ", "id ", "see https://")
    true = [row[place] for row, place in zip(result.alternatives, result.drawn.tolist(), strict=True)]
    assert true == [digest(1, "md5"), str(uuid.UUID(hex=digest(7, "md5"), version=4)), "bit.ly/3kTMd9x"]
    for row in result.alternatives:
        assert len(set(row)) == 8 and len({len(text) for text in row}) == 1
    assert all(
        re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", text)
        for text in result.alternatives[1]
    )
    assert all(re.fullmatch(r"bit\.ly/[0-9a-zA-Z]{7}", text) for text in result.alternatives[2])
    with pytest.raises(DataError, match="plant canaries instead"):
        natural_identifiers(["nothing here"])
    with pytest.raises(ConfigError, match="kinds of hash, uuid, link"):
        natural_identifiers(TEXTS, kinds=["iban"])


def test_alternatives_and_places_follow_the_law_that_is_stated() -> None:
    result = natural_identifiers(TEXTS, candidates=32, seed=2)
    digits = "".join(text for row, place in zip(result.alternatives, result.drawn, strict=True) for text in row[:place])
    counts = np.array([digits.count(digit) for digit in HEX])
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 45, "chi-squared of 15 degrees of freedom"
    assert result.drawn.min() >= 0 and result.drawn.max() < 32 and len(set(result.drawn.tolist())) > 15
    assert not np.array_equal(natural_identifiers(TEXTS).drawn, natural_identifiers(TEXTS).drawn), "the system's randomness"


@pytest.mark.slow
def test_a_model_that_knows_the_texts_is_caught_and_another_is_not() -> None:
    identifiers = natural_identifiers(TEXTS, candidates=16, seed=3)
    bound = identifiers.lower_bound(identifiers.scores(known_by_heart(TEXTS)), delta=1e-5)
    assert bound.epsilon == bound.ceiling and bound.epsilon > 4
    assert "uniformly" in identifiers.randomness

    def guessing(identifiers: NaturalIdentifiers, seed: int) -> float:
        noise: Array = Seed(seed).numpy().normal(size=(len(identifiers), 16))
        return identifiers.lower_bound(noise, delta=1e-5).epsilon

    assert sum(guessing(identifiers, seed) > 0 for seed in range(20)) <= 4, "at most one in twenty, and chance"


def right_by(identifiers: NaturalIdentifiers, score: Any) -> float:
    """Share of sites if the alternative of largest score is the true one."""
    values = np.array(
        [
            [score(prefix, text) for text in row]
            for prefix, row in zip(identifiers.prefixes, identifiers.alternatives, strict=True)
        ]
    )
    return float((values.argmax(1) == identifiers.drawn).mean())


@pytest.mark.slow
def test_a_form_that_is_public_tells_nothing() -> None:
    """UUIDs without dashes and numbers padded with zeros: whoever knows how such strings look names none more often."""
    random = Seed(7).numpy()
    plain = [f"id {uuid.UUID(bytes=random.bytes(16), version=4).hex} done {number}" for number in range(300)]
    result = natural_identifiers(plain, candidates=16, seed=1)
    assert len(result) > 290 and right_by(result, lambda _, text: text[12] == "4" and text[16] in "89ab") < 0.15
    padded = [f"trace 00{number:04x}{digest(number, 'md5')[6:]} {number}" for number in range(1, 90)]
    result = natural_identifiers(padded[:30], candidates=16, seed=1)
    assert right_by(result, lambda _, text: len(text) - len(text.lstrip("0"))) < 0.3
    with pytest.raises(DataError, match="not have uniform characters at place 1 "):
        natural_identifiers(padded)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("counts", [[9, 5, 4, 3, 3, 2, 2, 1, 1, 1, 1], [10, 6, 4, 2, 2, 2, 1, 1, 1, 1, 1, 1]])
def test_honest_hashes_are_refused_as_seldom_as_promised(counts: list[int]) -> None:
    """At two expected of each character Pearson's own law is several times too small, so it refused eight times as often."""
    hashes, draws = sum(counts), 400_000
    simulated = np.random.default_rng(4).multinomial(hashes, [1 / 16] * 16, size=draws)
    reached = (simulated**2).sum(1) >= sum(count**2 for count in counts)
    chance = uniformity([*counts, *[0] * (16 - len(counts))])
    assert np.mean(reached) == pytest.approx(chance, abs=5 * math.sqrt(chance / draws))
    pearson = stats.chi2.sf(16 / hashes * sum(count**2 for count in counts) - hashes, 15)
    assert pearson < chance < natural.SURPRISE * 32


def test_numbers_are_no_hashes() -> None:
    with pytest.raises(DataError, match="plant canaries instead"):
        natural_identifiers([f"account {number:016d}{7 * number:016d}" for number in range(10**9, 10**9 + 60)])


def test_what_the_texts_give_away_elsewhere_is_not_asked() -> None:
    copies = ["md5-{}", "{} in capitals", "bit.ly/{}", "0x{}", "short {:.7}"]
    texts = [f"commit {digest(number)} mends" for number in range(len(copies))]
    peers = [
        form.format(digest(number).upper() if "capitals" in form else digest(number)) for number, form in enumerate(copies)
    ]
    with pytest.raises(DataError, match="stands nowhere else"):
        natural_identifiers(texts + peers)
    provided = [f"commit {digest(number)[:7]} is {digest(number)}" for number in range(30)]
    paths = [f"in {digest(number)[:2]}/{digest(number)}" for number in range(30)]
    for context in (provided, paths):
        with pytest.raises(DataError, match="stands nowhere else"):
            natural_identifiers(context)
    innocent = [f"in {HEX[number % 16]}{HEX[number // 16]}/{digest(number)}" for number in range(200)]
    result = natural_identifiers(innocent, candidates=16, seed=2)
    assert right_by(result, lambda prefix, text: text.startswith(prefix[-3:-1])) < 0.15


@pytest.mark.calibration
def test_a_language_model_gives_its_hashes_away() -> None:
    pytest.importorskip("transformers", reason="the extra llm is not installed")
    import torch

    from audit.core.data import Vocabulary
    from audit.engine.text.secret_scores import secret_log_probabilities
    from audit.models.language import LanguageModel

    module: Any = LanguageModel(architecture="gpt2", options={"n_layer": 1, "n_embd": 64, "n_head": 2}).build(
        Vocabulary(size=256), 64, Seed(1)
    )
    texts = [f"{number:03d} {digest(number, 'md5')}" for number in range(24)]
    result = natural_identifiers(texts, candidates=8, seed=4)

    def log_probabilities(pairs: list[tuple[str, str]]) -> Array:
        return secret_log_probabilities(module, lambda text: list(text.encode()), pairs)

    before = result.scores(log_probabilities)
    tokens = torch.tensor([list(text.encode()) for text in texts])
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    for _ in range(80):
        optimizer.zero_grad()
        module(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
    gains = result.scores(log_probabilities) - before
    assert (gains.argmax(1) == result.drawn).mean() > 0.5
    assert result.lower_bound(gains, delta=1e-5).epsilon > 1
    assert (before.argmax(1) == result.drawn).mean() < 0.4

"""Models of a game start no generator of 32 bits alike; if none of them would, their seeds stay unchanged."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from audit.core import seeds
from audit.core.seeds import Seed, separate_seeds

PAIR = (24521, 29497)  # of the first 120,000 models of a root, whose streams of noise agree in the low 32 bits
MODELS = Seed(0).child("models")


def noise(seed: Seed) -> Tensor:
    return torch.empty(16).normal_(generator=torch.Generator().manual_seed(seed.child("noise").integer()))


def test_two_models_that_would_share_their_noise_do_not() -> None:
    first, second = (MODELS.child("model", number) for number in PAIR)
    assert torch.equal(noise(first), noise(second))
    separate = separate_seeds([first, second])
    assert separate == (first, second.child("again"))
    assert not torch.equal(noise(separate[0]), noise(separate[1]))


def test_a_seed_that_comes_twice_is_left_as_often_as_it_takes() -> None:
    seed = MODELS.child("model", 0)
    assert separate_seeds([seed] * 3) == (seed, seed.child("again"), seed.child("again").child("again"))


def test_models_of_a_small_game_keep_their_seeds() -> None:
    usual = tuple(MODELS.child("model", number) for number in range(1000))
    assert separate_seeds(usual) == usual


def test_no_two_streams_of_any_models_begin_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 10 bits, of which 180 streams are sure to share some, within a model and between models."""
    monkeypatch.setattr(seeds, "_SHORT", 1023)
    chosen = separate_seeds(MODELS.child("model", number) for number in range(30))
    starts = [seed.child(name).integer() & 1023 for seed in chosen for name in seeds._SHORT_STREAMS]
    assert len(set(starts)) == len(starts) == 180

"""Models of a game start no generator of 32 bits alike; where none of them would, their seeds are what they always were."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.core.seeds import Seed, of_models

PAIR = (24521, 29497)  # of the first 120,000 models of a root, whose streams of noise agree in the low 32 bits
MODELS = Seed(0).child("models")


def noise(seed: Seed) -> Tensor:
    return torch.empty(16).normal_(generator=torch.Generator().manual_seed(seed.child("noise").integer()))


def test_two_models_that_would_share_their_noise_do_not() -> None:
    first, second = (MODELS.child("model", number) for number in PAIR)
    assert torch.equal(noise(first), noise(second))
    seeds = of_models([first, second])
    assert seeds == (first, second.child("again"))
    assert not torch.equal(noise(seeds[0]), noise(seeds[1]))


def test_a_seed_that_comes_twice_is_left_as_often_as_it_takes() -> None:
    seed = MODELS.child("model", 0)
    assert of_models([seed] * 3) == (seed, seed.child("again"), seed.child("again").child("again"))


def test_models_of_a_small_game_keep_their_seeds() -> None:
    seeds = tuple(MODELS.child("model", number) for number in range(1000))
    assert of_models(seeds) == seeds

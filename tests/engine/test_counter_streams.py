"""Philox4x32-10: the published answers, the laws of what is made of its words, the same numbers in any arrangement."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from audit.core.canaries import Canaries, CoordinateGradients
from audit.core.events import dp_sgd
from audit.core.seeds import Seed
from audit.engine.dp_options import Augmentation, Technique
from audit.engine.ensemble import train
from audit.engine.parameter_layout import Layout
from audit.engine.random import noise
from audit.engine.random.counter_streams import CounterStreams, _last, multipliers, philox, round_keys
from audit.engine.random.noise import CounterDraws, CounterNoise, Place, gaps, make_noise
from audit.engine.schedule import ScheduleSettings
from tests.engine import cases

CPU = torch.device("cpu")
MODULE = nn.Sequential(nn.Linear(21, 9), nn.ReLU(), nn.Linear(9, 3))  # has gaps between parameters
SEEDS = tuple(Seed(number).child("noise") for number in range(5))
NOISY = dp_sgd(noise_multiplier=1.5, clip_norm=0.4, sample_rate=0.3, steps=9)


def streams(seeds: tuple[Seed, ...] = SEEDS) -> CounterStreams:
    return CounterStreams(seeds, CPU)


def steps(count: int, start: int = 0) -> Tensor:
    return torch.arange(start, start + count)


# kat_vectors of Random123 1.14: counter, key, words
@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_the_published_answers(counter: str, key: str, words: str) -> None:
    def column(text: str) -> Tensor:
        return torch.tensor([int(word, 16) for word in text.split()]).unsqueeze(1)

    answer = philox(column(counter), round_keys(column(key)), multipliers(2, CPU))
    assert torch.equal(answer, column(words))


def test_words_are_those_of_whole_numbers_without_a_width() -> None:
    """Every carry and every sign: 64-bit products in int64 against Python's integers."""
    words = streams().words(steps(3, 2**31), 2**31 - 2, 40, draw=7)
    for model, seed in enumerate(SEEDS):
        for place in range(0, 40, 13):
            key = [seed.integer() & 0xFFFFFFFF, seed.integer() >> 32]
            state = [2**31 - 2 + place, 7, 2**31 + 1, 0]
            for _ in range(10):
                first, right = 0xD2511F53 * state[0], 0xCD9E8D57 * state[2]
                even = (right >> 32) ^ state[1] ^ key[0], (first >> 32) ^ state[3] ^ key[1]
                state = [even[0], right & 0xFFFFFFFF, even[1], first & 0xFFFFFFFF]
                key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
            assert words[:, 1, model, place].tolist() == state


def test_a_number_is_the_same_in_any_arrangement() -> None:
    full = streams().normals(steps(6), 0, 40)
    alone = streams(SEEDS[3:4])
    assert torch.equal(alone.normals(steps(2, 4), 8, 31), full[4:, 3:4, 8:39])
    assert torch.equal(streams().uniforms(steps(6), 3, 36), streams().uniforms(steps(6), 0, 44)[..., 3:39])
    assert torch.equal(alone.heads(steps(1, 5), 0, 33, 0.4)[0, 0], streams().heads(steps(6), 0, 40, 0.4)[5, 3, :33])
    assert not torch.equal(streams().uniforms(steps(1), 0, 8, draw=1), streams().uniforms(steps(1), 0, 8))
    with pytest.raises(ValueError, match="a multiple of 4"):
        alone.normals(steps(1), 2, 4)
    with pytest.raises(ValueError, match=r"tells 2\^32 apart"):
        alone.words(steps(1), 2**32 - 3, 8)


def test_normal_numbers_follow_the_normal_law_and_depend_on_nothing() -> None:
    drawn = streams().normals(steps(60), 0, 1000)
    assert stats.kstest(drawn.flatten().numpy(), "norm").pvalue > 1e-3
    for power, moment, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        assert abs(float(drawn.pow(power).mean()) - moment) < 4 * (variance / drawn.numel()) ** 0.5
    models = drawn.transpose(0, 1).flatten(1)
    pairs = {
        "models": (models[0], models[1]), "steps": (drawn[:-1], drawn[1:]), "places": (drawn[..., :-1], drawn[..., 1:]),
        "both of a pair": (drawn[..., 0::2], drawn[..., 1::2]), "counters": (drawn[..., :-4], drawn[..., 4:]),
    }  # fmt: skip
    for name, (first, right) in pairs.items():
        for transform in (lambda values: values, torch.abs, torch.square):
            correlation = np.corrcoef(transform(first).flatten().numpy(), transform(right).flatten().numpy())[0, 1]
            assert abs(correlation) < 4 / first.numel() ** 0.5, name


def test_extreme_words_give_finite_numbers_up_to_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    words = torch.tensor([0, 1, 2**31, 2**32 - 2, 2**32 - 1])
    grid = torch.cartesian_prod(words, words).T.repeat(2, 1).view(4, 1, 1, -1)
    monkeypatch.setattr(CounterStreams, "words", lambda *_: grid)
    built = streams().normals(steps(1), 0, 100).flatten().numpy()
    radii = np.sqrt(-2 * np.log((grid[0].flatten().numpy() + 1.0) / 2**32))
    angles = 2 * np.pi * grid[1].flatten().numpy() / 2**32
    np.testing.assert_allclose(built[0::4], radii * np.cos(angles), atol=1e-13)
    np.testing.assert_allclose(built[3::4], radii * np.sin(angles), atol=1e-13)
    assert 6.66 < np.abs(built).max() < 6.67
    uniforms = streams().uniforms(steps(1), 0, 100)
    assert float(uniforms.min()) == 0.0 and float(uniforms.max()) == 1 - 2.0**-24


@pytest.mark.parametrize("rate", [0.0, 2.0**-62, 1e-9, 2.0**-10, 0.1, 0.5, 1.0 - 2.0**-53, 1.0])
def test_the_chance_of_a_head_is_the_rate(rate: float) -> None:
    """Of 2^63 equally likely numbers those up to the last one count."""
    excess = Fraction(_last(rate) + 1, 2**63) - Fraction(rate)
    assert (excess == 0) if rate >= 2.0**-10 else (0 <= excess < Fraction(1, 2**63))


@pytest.mark.parametrize("rate", [1e-9, 0.001, 0.0625])
def test_distances_are_geometric(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers at which a distance becomes longer are if the law has them, by whole numbers without a width."""
    for tried in (1, 2, 3, 10, round(1 / rate)):
        share = -math.expm1(tried * math.log1p(-rate)) if tried > 1 else rate
        edge = Fraction(share) * 2**63
        slack = 2 + int(edge * 4 / 2**52)
        around = torch.tensor([max(0, int(edge) - slack), int(edge) + slack]).view(1, 1, 2)
        monkeypatch.setattr(CounterStreams, "_numbers", lambda *_, around=around: around)
        below, above = streams().gaps(steps(1), 0, 2, rate, 10**12).flatten().tolist()
        assert below <= tried < above <= tried + 1
    monkeypatch.setattr(CounterStreams, "_numbers", lambda *_: torch.tensor([0, 2**63 - 1]).view(1, 1, 2))
    assert streams().gaps(steps(1), 0, 2, rate, 10**12).flatten().tolist() == [1, 10**12]


def test_distances_have_the_mean_and_the_tail_of_their_law() -> None:
    drawn = streams().gaps(steps(40), 0, 1000, 0.02, 10**9).flatten()
    assert abs(float(drawn.double().mean()) - 50) < 4 * 50 / drawn.numel() ** 0.5
    assert stats.binomtest(int((drawn > 300).sum()), drawn.numel(), 0.98**300).pvalue > 1e-3
    assert torch.equal(streams().gaps(steps(40), 7, 20, 0.02, 10**9).flatten(), drawn.view(40, 5, 1000)[..., 7:27].flatten())


def test_every_rate_tosses_all_coins_at_its_ends() -> None:
    assert not streams().heads(steps(4), 0, 51, 0.0).any() and bool(streams().heads(steps(4), 0, 51, 1.0).all())
    heads = streams().heads(steps(50), 0, 1000, 0.03)
    assert stats.binomtest(int(heads.sum()), heads.numel(), 0.03).pvalue > 1e-3


@pytest.mark.parametrize("draws", [1 << 24, 640])
def test_noise_fills_the_storage_in_pieces_of_any_size(draws: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_DRAW_NUMBERS", draws)
    layout = Layout.of(MODULE)
    like = torch.zeros(len(SEEDS), layout.width)
    source = make_noise(layout, SEEDS, like, counters=True)
    assert type(source) is CounterNoise
    drawn = torch.stack([source.step().clone() for _ in range(70)])
    wanted = streams().normals(steps(70), 0, layout.width).float()
    for start, stop in gaps(layout):
        wanted[..., start:stop] = 0.0
    assert torch.equal(drawn, wanted)


def test_augmentation_from_counters_is_the_same_beside_any_neighbours_and_new_in_each_pass() -> None:
    images = torch.rand(3, 4, 1, 6, 6)
    technique = Technique(flip=True, shift=2, copies=2)

    def views(models: slice, step: int) -> Tensor:
        seeds = SEEDS[models]
        augmentation = Augmentation(technique, seeds, (1, 6, 6), CPU)
        augmentation.start_step(step)
        passes = [augmentation.views(images[models].flatten(0, 1)).unflatten(0, (len(seeds), -1)) for _ in range(2)]
        return torch.stack(passes, dim=1)

    full = views(slice(0, 3), 5)
    assert torch.equal(full[1:2], views(slice(1, 2), 5))
    assert not torch.equal(full, views(slice(0, 3), 6)) and not torch.equal(full[:, 0], full[:, 1])


PLAIN = ({"kind": "mlp", "hidden": [8]}, (5,))
TRAININGS = {
    "plain": (*PLAIN, Technique(), None),
    "augmented": ({"kind": "cnn"}, (1, 8, 8), Technique(flip=True, shift=2, copies=2), None),
    "cycles": (*PLAIN, Technique(encoder=(1.0, 0.5)), None),  # batches of the host, noise from counters
    "adaptive": (*PLAIN, Technique(clipping="adaptive"), None),
    "dropout": ({"factory": "tests.engine.cases:dropping", "arguments": {"raw": False}}, (5,), Technique(), None),
    "gradients": (
        *PLAIN,
        Technique(),
        Canaries(kind="dirac", description="", payload=CoordinateGradients(coordinates=np.arange(4))),
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", sorted(TRAININGS))
def test_a_training_from_counters_is_the_same_in_any_chunk_and_executed_as_accounted(name: str) -> None:
    model, shape, technique, canaries = TRAININGS[name]
    options: dict[str, Any] = {} if canaries is None else {"canaries": canaries}
    job = cases.job(NOISY, model=model, data=cases.dataset(shape), models=3, **options)
    counted = ScheduleSettings(counters=True)
    full = train(job, cases.silent, counted, technique)
    for chunk in (1, 2):
        parts = train(job, cases.silent, replace(counted, model_chunk=chunk), technique)
        for parameter, value in full.weights.items():
            np.testing.assert_array_equal(parts.weights[parameter], value, err_msg=parameter)
        np.testing.assert_array_equal(parts.executed.batch_sizes, full.executed.batch_sizes)
    executed, generators = full.executed, train(job, cases.silent, None, technique).executed
    np.testing.assert_array_equal(executed.population, generators.population)
    assert np.array_equal(executed.batch_sizes, generators.batch_sizes) == bool(technique.encoder)
    assert executed.noise_draws == generators.noise_draws
    chance = stats.chi2.cdf(executed.noise_draws * (executed.noise_multiplier / 1.5) ** 2, executed.noise_draws)
    assert technique.clipping == "adaptive" or ((chance > 1e-4) & (chance < 1 - 1e-4)).all()
    assert 0 <= executed.recomputed.max() < 1e-5


@pytest.mark.parametrize("name", ["dropout", "augmented"])
def test_a_record_draws_the_same_however_a_batch_is_cut_into_passes(name: str) -> None:
    """Where memory runs out passes become narrower, which must not give a record another dropout or view."""
    model, shape, technique, _ = TRAININGS[name]
    quiet = dp_sgd(noise_multiplier=0.0, clip_norm=0.4, sample_rate=0.5, steps=3)
    job = cases.job(quiet, model=model, data=cases.dataset(shape, train=90), models=2)
    wide, narrow = (train(job, cases.silent, ScheduleSettings(counters=True, rows=rows), technique) for rows in (64, 16))
    for parameter, value in wide.weights.items():
        np.testing.assert_allclose(narrow.weights[parameter], value, rtol=1e-5, atol=1e-6, err_msg=parameter)


def test_passes_of_a_step_draw_from_places_of_their_own() -> None:
    """Whatever the shape of a call, even one with fewer numbers than rows: nothing is drawn twice."""
    for shape in ((16, 3, 5), (5,), (1, 7)):
        first, second = (CounterDraws(streams(), Place(step=1, first=start, rows=16)).uniforms(shape) for start in (0, 16))
        assert not set(first.flatten().tolist()) & set(second.flatten().tolist())

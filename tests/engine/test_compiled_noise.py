"""Compiled Gaussian numbers: torch's streams to rounding, closer to double precision, the same beside any neighbours."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from audit.core.seeds import Seed
from audit.engine import compile_c
from audit.engine.compiled import compiled_noise
from audit.engine.compiled.compiled_noise import SOURCE, CompiledNormals
from audit.engine.parameter_layout import Layout
from audit.engine.random.noise import NoiseSource, NoiseStreams

CODE = compile_c.library(SOURCE)
pytestmark = pytest.mark.skipif(CODE is None, reason="this machine has no C compiler")

MODULE = nn.Sequential(nn.Linear(21, 9), nn.ReLU(), nn.Linear(9, 3))  # has gaps between parameters
SEEDS = tuple(Seed(number).child("noise") for number in range(5))


def noise(seeds: tuple[Seed, ...] = SEEDS) -> NoiseSource:
    assert CODE is not None
    source = compiled_noise.compiled_noise(Layout.of(MODULE), seeds, torch.zeros(1))
    assert type(source) is CompiledNormals
    return source


def numbers(seed: int, count: int) -> Tensor:
    assert CODE is not None
    return CompiledNormals(CODE, (seed,), count).step()[0]


def test_a_training_gets_the_noise_that_torch_gives_it() -> None:
    layout = Layout.of(MODULE)
    compiled, plain = noise(), NoiseStreams(layout, SEEDS, torch.zeros(len(SEEDS), layout.width))
    for _ in range(300):  # past the blocks in which torch's are drawn
        ours, theirs = compiled.step(), plain.step()
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=4e-6)
        assert bool((ours[theirs == 0.0] == 0.0).all())


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 1, 2**62 + 12345])
def test_streams_are_those_of_torch_whatever_the_seed(seed: int) -> None:
    expected = torch.empty(20_000).normal_(generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(numbers(seed, 20_000), expected, rtol=0.0, atol=4e-6)


def test_numbers_are_closer_to_double_precision_than_those_of_torch() -> None:
    words = np.random.RandomState(7).randint(0, 2**32, size=160_000, dtype=np.uint64)
    uniforms = ((words & 0xFFFFFF) / 2**24).reshape(-1, 2, 8)
    radii, angles = np.sqrt(-2.0 * np.log1p(-uniforms[:, 0])), 2.0 * np.pi * uniforms[:, 1]
    exact = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1).ravel()
    plain = torch.empty(160_000).normal_(generator=torch.Generator().manual_seed(7))
    ours, theirs = (float(np.abs(values.double().numpy() - exact).max()) for values in (numbers(7, 160_000), plain))
    assert ours < 1e-6 and ours < theirs


def test_pairs_are_right_at_the_ends_of_the_range() -> None:
    """A radius of 0, the smallest and the largest one, and angles at and beside every quarter of a turn."""
    assert CODE is not None
    step = 2.0**-24
    angles = np.array([k / 16 + side * step for k in range(17) for side in (-1, 0, 1) if 0 <= k / 16 + side * step < 1])
    radii = np.array([0.0, step, 2 * step, 1e-4, 0.25, 1 - np.sqrt(0.5), 0.5, 0.9999, 1 - 2 * step, 1 - step])
    radii = np.round(radii / step) * step  # what 24 bits can be
    radius, angle = (np.ascontiguousarray(part, dtype=np.float32) for part in np.meshgrid(radii, angles))
    cosines, sines = np.empty_like(radius), np.empty_like(radius)
    memory = [part.ctypes.data_as(ctypes.c_void_p) for part in (radius, angle, cosines, sines)]
    CODE.normal_pairs(*memory[:2], ctypes.c_int64(radius.size), *memory[2:])
    lengths, turns = np.sqrt(-2.0 * np.log1p(-radius.astype(np.float64))), 2.0 * np.pi * angle.astype(np.float64)
    for ours, exact in ((cosines, lengths * np.cos(turns)), (sines, lengths * np.sin(turns))):
        assert np.abs(ours - exact).max() < 1e-6
        assert (np.abs(ours) < 5.78).all()
    real = lengths > 0
    np.testing.assert_allclose(np.hypot(cosines, sines)[real], lengths[real], rtol=4e-7)


def test_a_stream_is_the_same_beside_any_neighbours_and_in_any_width() -> None:
    alone, beside = noise(SEEDS[2:3]), noise()
    for _ in range(4):
        assert torch.equal(alone.step()[0], beside.step()[2])
    assert CODE is not None
    for width in (16, 240, 624, 640, 1248):
        normals = CompiledNormals(CODE, (3,), width)
        assert torch.equal(torch.cat([normals.step()[0].clone() for _ in range(13)]), numbers(3, 13 * width))


def test_moments_and_independence_of_models_and_steps() -> None:
    compiled = noise()
    layout = Layout.of(MODULE)
    drawn = torch.stack([compiled.step()[:, layout.columns()].double() for _ in range(400)])  # (steps, N, parameters)
    count = drawn.numel()
    for power, moment, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        assert abs(float(drawn.pow(power).mean()) - moment) < 5 * (variance / count) ** 0.5
    for first, right in ((drawn[:, 0], drawn[:, 1]), (drawn[:-1], drawn[1:]), (drawn[..., :-1], drawn[..., 1:])):
        assert abs(float((first * right).mean())) < 5 / first.numel() ** 0.5


@pytest.mark.parametrize(("width", "zeros"), [(17, ()), (16, [(8, 17)]), (16, [(-1, 3)]), (32, [(9, 8)])])
def test_columns_outside_the_numbers_are_refused(width: int, zeros: Sequence[tuple[int, int]]) -> None:
    assert CODE is not None
    with pytest.raises(ValueError, match="expected a multiple of 16 that holds them"):
        CompiledNormals(CODE, (1,), width, zeros)


def test_a_torch_that_draws_otherwise_keeps_its_own_numbers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiled_noise, "_LARGEST_DIFFERENCE", 0.0)
    compiled_noise._code.cache_clear()
    try:
        layout = Layout.of(MODULE)
        with caplog.at_level(logging.WARNING):
            streams = [compiled_noise.compiled_noise(layout, SEEDS, torch.zeros(5, layout.width)) for _ in range(2)]
        assert all(type(stream) is NoiseStreams for stream in streams)
        assert caplog.text.count("noise is left to torch") == 1
    finally:
        compiled_noise._code.cache_clear()


def test_double_precision_is_left_to_torch() -> None:
    layout = Layout.of(MODULE)
    like = torch.zeros(5, layout.width)
    assert type(compiled_noise.compiled_noise(layout, SEEDS, like)) is CompiledNormals
    assert type(compiled_noise.compiled_noise(layout, SEEDS, like.double())) is NoiseStreams

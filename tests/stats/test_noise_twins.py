"""Noise that repeats within a tensor: rounded noise of any format is no twin, and twins are seen through the rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from audit.stats import noise_tests

Array = NDArray[np.float64]
COLUMNS = 4000
ROUNDING = 2.0**-8


def _rounded(values: Array, dtype: torch.dtype) -> Array:
    return torch.as_tensor(values).to(dtype).double().numpy()


def test_independent_noise_in_bfloat16_is_no_twin() -> None:
    """Of a hundred arrays of five rows no p-value is small; without the bound on rounding some are 0."""
    stream = np.random.default_rng(0)
    tails = []
    for _ in range(100):
        noise = _rounded(stream.normal(size=(5, COLUMNS)), torch.bfloat16)
        tails.append(noise_tests.twins_tail(noise, ROUNDING * np.abs(noise).max(axis=0)))
    assert min(tails) > 1e-4


def test_noise_that_a_large_parameter_swallows_is_no_twin() -> None:
    """Noise read off parameters is on their grid of floats, half a deviation wide: many columns are equal by chance."""
    noise = np.round(2 * np.random.default_rng(0).normal(size=(7, COLUMNS))) / 2
    assert noise_tests.twins_tail(noise) == 0 < noise_tests.twins_tail(noise, 0.25)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mirrored_noise_is_seen_through_rounding(dtype: torch.dtype) -> None:
    """Half of the columns being the others with the opposite sign is seen in seven rows, of either format."""
    half = _rounded(np.random.default_rng(0).normal(size=(7, 60)), dtype)
    noise = np.concatenate([half, -half], axis=1)
    assert noise_tests.twins_tail(noise, ROUNDING * np.abs(noise).max(axis=0)) < 1e-9

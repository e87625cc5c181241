"""The lower end of composed batches of fixed size against its own programme, by direct quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm


@pytest.mark.slow
def test_steps_that_choose_cost_more_than_any_fixed_triple() -> None:
    """Noise 4, rate 0.1, 20 steps: delta at epsilon 1.0755, if one triple for all steps has 1e-5, with 1.039e-5 expected."""
    rate, distance, steps, epsilon = 0.1, 0.5, 20, 1.0754951
    grid = np.linspace(-1.5, 3.2, 941)
    x = np.linspace(-9, 9.5, 600)
    loss = np.log1p(rate * np.expm1(distance * x - distance**2 / 2))
    width = x[1] - x[0]
    here, there = norm.pdf(x) * width, norm.pdf(x - distance) * width
    pairs = ((-loss, here), (loss, (1 - rate) * here + rate * there))
    ends = np.stack([_after(np.maximum(0, -np.expm1(grid)), pair, grid) for pair in pairs])
    fixed, chosen = ends[1], ends.max(axis=0)
    for _ in range(steps - 1):
        fixed = _after(fixed, pairs[1], grid)
        chosen = np.max([_after(chosen, pair, grid) for pair in pairs], axis=0)
    single, adaptive = (float(np.interp(epsilon, grid, values)) for values in (fixed, chosen))
    assert abs(single / 1e-5 - 1) < 0.01
    assert 1.02 < adaptive / single < 1.06


def _after(
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
    pair: tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]]],
    grid: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    places = grid[:, None] - pair[0][None, :]
    inner = np.interp(places, grid, values, right=0.0)
    return np.asarray(np.where(places < grid[0], -np.expm1(np.minimum(places, 0)), inner) @ pair[1])

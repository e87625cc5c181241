"""Tests of guesses refute what is exactly true at most as often as they say, at each size: levels by enumeration."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from audit.stats.bounds import guess_split
from audit.stats.bounds.one_run_all_counts import Walk, refutes


def _worst_sizes() -> Any:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "worst_sizes.py"
    spec = importlib.util.spec_from_file_location("worst_sizes", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


LEVELS = _worst_sizes().LEVELS


@pytest.mark.parametrize(
    ("last", "step"), [pytest.param(300, 7, id="every seventh"), pytest.param(500, 1, id="each", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", LEVELS)
def test_no_size_has_a_level_above_the_nominal_one(name: str, last: int, step: int) -> None:
    for alpha in (0.05, 0.0125, 0.003):
        for epsilon in (0.0, 0.35, 1.2, 2.5):
            levels = {size: LEVELS[name](size, epsilon, alpha) for size in range(20, last + 1, step)}
            worst = max(levels, key=lambda size: levels[size])
            assert levels[worst] <= alpha, (worst, epsilon, alpha, levels[worst])
            assert levels[worst] > 0.5 * alpha, "no size uses half of the error rate"


@pytest.mark.parametrize(
    ("size", "epsilon", "alpha"), [(41, 0.0, 0.05), (60, 0.5, 0.05), (74, 1.0, 0.02), (86, 2.5, 0.05), (233, 0.7, 0.0125)]
)
def test_the_level_of_one_run_is_that_of_its_own_answers(size: int, epsilon: float, alpha: float) -> None:
    guesses = guess_split.guess_numbers(size, guess_split.shares_for(size))
    rate, alive, crossed, done = 1 / (1 + np.exp(-epsilon)), np.ones(1), 0.0, 0
    for index, count in enumerate(guesses.tolist()):
        alive, done = np.convolve(alive, stats.binom.pmf(np.arange(count - done + 1), count - done, rate)), count
        first = next((right for right in range(count + 1) if refutes(_seen(guesses, index, right), epsilon, alpha)), count + 1)
        crossed, alive = crossed + alive[first:].sum(), alive[:first]
    assert crossed <= alpha
    assert crossed == pytest.approx(LEVELS["one_run"](size, epsilon, alpha), rel=1e-6)


def _seen(guesses: np.ndarray, index: int, right: int) -> Walk:
    """A walk that is remarkable at one count alone."""
    correct = np.zeros_like(guesses)
    correct[index] = right
    return Walk(guesses=guesses, correct=correct, coins=int(guesses[-1]), delta=1e-5)

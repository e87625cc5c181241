"""How far rates are moved to the safe side before `audit mechanism` chooses an event: bounds by the number of standard errors.

python benchmarks/event_caution.py 150000 10

Scores are drawn from known laws, a third of them to choose the event and the others to count it; means over so many draws.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from audit.stats.bounds import planned_event

Array = NDArray[np.float64]
Law = Callable[[int, float, np.random.Generator], Array]
CAUTIONS = (1.0, 1.5, 2.0, 2.5, 3.0)
LEVEL = 0.0245


def bits(count: int, probability: float, generator: np.random.Generator) -> Array:
    """Return how many of six bits are as the first data set has them: the best score of OneTimeRappor."""
    return generator.binomial(6, probability, count).astype(np.float64)


def blurred_bits(count: int, probability: float, generator: np.random.Generator) -> Array:
    """Return the same as a score that was learned would order it."""
    return bits(count, probability, generator) + 0.3 * generator.normal(size=count)


def normal(count: int, mean: float, generator: np.random.Generator) -> Array:
    """Return normal numbers."""
    return generator.normal(mean, 1, count)


def laplace(count: int, mean: float, generator: np.random.Generator) -> Array:
    """Return Laplace numbers."""
    return generator.laplace(mean, 1, count)


def laplace_sum(count: int, mean: float, generator: np.random.Generator) -> Array:
    """Return the best score of four Laplace numbers."""
    return np.asarray(generator.laplace(mean, 1, (count, 4)).clip(-1, 1).sum(1))


def leak(count: int, rate: float, generator: np.random.Generator) -> Array:
    """Return Laplace numbers of which a few give the first data set away."""
    numbers = generator.laplace(0.3 * (rate > 0), 1, count)
    numbers[generator.random(count) < rate] = 1e3
    return numbers


LAWS: dict[str, tuple[Law, float, float]] = {
    "six bits": (bits, 0.525, 0.475),
    "six bits, blurred": (blurred_bits, 0.525, 0.475),
    "normal, 0.27 apart": (normal, 0.27, 0.0),
    "normal, 1 apart": (normal, 1.0, 0.0),
    "normal, 3 apart": (normal, 3.0, 0.0),
    "Laplace, 0.1 apart": (laplace, 0.1, 0.0),
    "Laplace, 1 apart": (laplace, 1.0, 0.0),
    "four Laplace, 0.1 apart": (laplace_sum, 0.1, 0.0),
    "leak at 0.0005": (leak, 5e-4, 0.0),
    "leak at 0.0001": (leak, 1e-4, 0.0),
}


def bounds(law: Law, sides: tuple[float, float], outputs: int, seed: int) -> list[float]:
    """Return the bound on epsilon for each number of standard errors, from the same draws."""
    generator = np.random.default_rng(seed)
    counts = (outputs // 3, outputs - outputs // 3)
    searched, counted = (
        planned_event.order(law(count, sides[0], generator), law(count, sides[1], generator), generator) for count in counts
    )
    result = []
    for caution in CAUTIONS:
        planned_event.CAUTION = caution
        event = planned_event.plan(searched, functools.partial(planned_event.epsilon_goal, 0.0))
        result.append(planned_event.epsilon_bound(event.test(counted), 0.0, LEVEL))
    return result


def main(outputs: int, draws: int) -> None:
    """Print a table, a row for each law."""
    print(f"| Law | {' | '.join(f'{caution:g}' for caution in CAUTIONS)} |\n|---|{'---|' * len(CAUTIONS)}")
    for name, (law, first, second) in LAWS.items():
        means = np.mean([bounds(law, (first, second), outputs, seed) for seed in range(draws)], axis=0)
        print(f"| {name} | {' | '.join(f'{mean:.3f}' for mean in means)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

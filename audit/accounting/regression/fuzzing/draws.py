"""Parameters drawn for a search: over many orders of magnitude, round and unround, small counts and odd ones."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

_DIGITS = (1, 2, 3, 4, 17)  # significant digits of a number, each as likely


@dataclass(frozen=True, slots=True)
class Draws:
    """Numbers from one random stream."""

    generator: Generator

    def log_uniform(self, low: float, high: float) -> float:
        """A number of few or of all digits, its logarithm uniform between those of `low` and `high`."""
        value = math.exp(self.generator.uniform(math.log(low), math.log(high)))
        digits = int(self.generator.choice(_DIGITS))
        return min(max(float(f"{value:.{digits - 1}e}"), low), high)

    def count(self, maximum: int, minimum: int = 1) -> int:
        """A whole number, small ones as likely as large ones; odd if it is large, every second time."""
        value = round(math.exp(self.generator.uniform(math.log(minimum), math.log(maximum + 0.5))))
        if value > 100 and self.generator.random() < 0.5:
            value |= 1
        return int(min(max(value, minimum), maximum))

    def noise(self) -> float:
        return self.log_uniform(0.3, 50.0)

    def rate(self, minimum: float = 1e-8) -> float:
        return self.log_uniform(minimum, 1.0)

    def delta(self) -> float:
        return self.log_uniform(1e-12, 0.2)

    def chance(self, probability: float) -> bool:
        return bool(self.generator.random() < probability)

    def pick(self, *values: float) -> float:
        return values[int(self.generator.integers(len(values)))]

    def close_to(self, value: float) -> float:
        """A number that differs from `value` in a late digit: what a key of few digits takes for the same."""
        return value * (1 + float(np.exp(self.generator.uniform(math.log(1e-4), math.log(0.2)))))

"""What a program claims, and how seldom a claim lets a certain outcome become impossible."""

import math
from dataclasses import dataclass

import numpy as np

from audit.core import checks
from audit.core.errors import ConfigError
from audit.stats.curves import tradeoff


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayClaim:
    """A claim of epsilon at delta, or of mu of Gaussian differential privacy."""

    epsilon: float
    delta: float = 0.0
    mu: float | None = None

    def __post_init__(self) -> None:
        checks.nonnegative(self.epsilon, "epsilon")
        checks.finite(self.epsilon, "epsilon")
        if not 0 <= self.delta < 1:
            raise ConfigError(f"delta is {self.delta}; expected a number of at least 0 and below 1")
        if self.mu is not None:
            checks.positive(self.mu, "mu")

    def needed_runs(self, significance: float) -> int:
        """Return how many runs of each side show that an outcome is certain on one and impossible on the other.

        Guarantee: of a program that keeps the claim, so many runs on each side all have the outcome on one and never on the
        other with probability at most `significance`.

        >>> ReplayClaim(epsilon=1.0).needed_runs(1e-6)
        31
        """
        chance = np.linspace(0.0, 1.0, 2001)[1:]
        if self.mu is not None:
            lowest = 1 - tradeoff.gdp_tpr(self.mu, 1 - chance)
        else:
            lowest = np.maximum(0.0, (chance - self.delta) * math.exp(-self.epsilon))
        worst = float(np.max(chance * (1 - lowest)))
        return math.ceil(math.log(significance) / math.log(worst)) if worst < 1 else 10**9

    def __str__(self) -> str:
        return (
            f"mu {self.mu:g}"
            if self.mu is not None
            else f"epsilon {self.epsilon:g}" + (f" at delta {self.delta:g}" if self.delta else "")
        )

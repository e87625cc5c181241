"""Mechanisms inside a random procedure: one place among many, answers that are shuffled, the best of several runs.

What each of them costs is proved in `audit.accounting.accountants._amplified`.
"""

import math
from dataclasses import dataclass

from audit.core.errors import ConfigError
from audit.core.events import Event, Noise, Positive, PositiveCount, ReleaseEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomAllocation(ReleaseEvent):
    """Gaussian releases, one a step, of which a record takes part in exactly one, drawn uniformly (balls in bins).

    An epoch; `Repeated` draws anew in each. If the same place serves in each of E epochs, it is one epoch with the noise
    over `sqrt(E)`.

    Attributes:
        noise_multiplier: standard deviation over the clip norm.
        steps: places, at least 1.

    References:
        Chua et al. 2024, arXiv 2412.16802. Feldman, Shenfeld 2025, arXiv 2502.08202.
    """

    noise_multiplier: Noise
    steps: PositiveCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffled(Event):
    """Answers of `records` records, each to the same local randomiser, in random order.

    Attributes:
        mechanism: the randomiser: `RandomizedResponse`, or `ApproximateDp` without delta for any that is pure.

    References:
        Erlingsson et al. 2019, arXiv 1811.12469. Feldman, McMillan, Talwar 2022, arXiv 2208.04591.
    """

    mechanism: Event
    records: PositiveCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned(Event):
    """The best of a random number of runs, as when hyper-parameters are tuned on the private data.

    Attributes:
        mechanism: one run, its score included.
        mean: expected number of runs.
        shape: of the truncated negative binomial law of that number, above -1 (0: logarithmic, 1: geometric, as in Liu and
            Talwar 2019); infinite for a Poisson law.

    References:
        Liu, Talwar 2019, arXiv 1811.07971. Papernot, Steinke 2022, arXiv 2110.03620.
    """

    mechanism: Event
    mean: Positive
    shape: float = 1.0

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        if not self.shape > -1:
            raise ConfigError(f"shape is {self.shape}; expected a number above -1, or infinity for a Poisson number of runs")
        if math.isfinite(self.shape) and self.mean < 1:
            raise ConfigError(f"mean is {self.mean}; expected at least 1 run, or shape infinity (Poisson)")


AMPLIFIED: tuple[type[Event], ...] = (RandomAllocation,)
AMPLIFIED_NODES: tuple[type[Event], ...] = (Shuffled, Tuned)

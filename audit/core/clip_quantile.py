"""How a clip norm follows a quantile of the norms of what it clips: a setting of a mechanism, carried out by a trainer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from audit.core.errors import ConfigError

LARGEST_RATE = 10.0  # a round that clips all or none moves the clip norm by up to a factor e^10


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipQuantile:
    """How a clip norm follows a quantile of the norms of updates.

    Attributes:
        quantile: share of the updates that are to be shorter than the clip norm.
        rate: of the clip norm's geometric steps.
        share: of the privacy that the count costs: sums and counts together have the noise multiplier that is claimed.

    References:
        Andrew, Thakkar, McMahan, Ramaswamy 2021, arXiv 1905.03871, algorithm 1 and theorem 1.
    """

    quantile: float = 0.5
    rate: float = 0.2
    share: float = 0.05

    def __post_init__(self) -> None:
        numbers = (self.quantile, self.share, self.rate)
        are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers)
        if not (are_numbers and 0 < self.quantile < 1 and 0 < self.share < 1 and 0 < self.rate <= LARGEST_RATE):
            raise ConfigError(
                f"adaptive_clip has quantile {self.quantile!r}, share {self.share!r}, rate {self.rate!r}; expected two numbers "
                f"between 0 and 1, and one above 0 and up to {LARGEST_RATE:g}"
            )

    @classmethod
    def read(cls, setting: Any) -> ClipQuantile | None:
        """Return what a config says under adaptive_clip, None for None; `ConfigError` for anything but its keys."""
        if setting is None:
            return None
        allowed = [field.name for field in fields(cls)]
        if not isinstance(setting, Mapping) or not set(setting) <= set(allowed):
            raise ConfigError(f"adaptive_clip is {setting!r}; expected a mapping of {', '.join(allowed)} and nothing else")
        return cls(**setting)

    @property
    def sum_noise(self) -> float:
        """Return how much larger the noise of the sum is than without a count."""
        return 1 / math.sqrt(1 - self.share)

    def count_noise(self, noise_multiplier: float) -> float:
        """Return the deviation of the noise on a count to which each client adds 1/2 or -1/2."""
        return noise_multiplier / (2 * math.sqrt(self.share))

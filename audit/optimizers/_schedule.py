"""What optimisers have in common: the learning rate over the steps."""

import math

from audit.core import checks
from audit.core.errors import ConfigError

SCHEDULES = ("constant", "linear", "cosine")


def rate_factor(schedule: str, warmup: int, step: int, steps: int) -> float:
    """Return what the learning rate is multiplied with at `step` of `steps`, counted from 0.

    It rises linearly over `warmup` steps, then stays ("constant") or falls to 0 along a line or half a cosine.
    A function of public numbers: it does not touch the guarantee.

    >>> [rate_factor("linear", 2, step, 6) for step in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    return {"constant": 1.0, "linear": 1.0 - progress, "cosine": 0.5 * (1.0 + math.cos(math.pi * progress))}[schedule]


def check_common(learning_rate: float, weight_decay: float, schedule: str, warmup: int) -> None:
    """Raise `ConfigError` if a value that all optimisers take is out of range."""
    checks.single(checks.positive(learning_rate, "optimizer.learning_rate"), "optimizer.learning_rate")
    checks.choice(schedule, "optimizer.schedule", SCHEDULES)
    if warmup < 0:
        raise ConfigError(f"optimizer.warmup is {warmup}; expected a number of steps of at least 0")
    checks.single(weight_decay, "optimizer.weight_decay")


def check_share(value: float, name: str) -> None:
    """Raise `ConfigError` unless `value` is in [0, 1)."""
    if not 0 <= value < 1:
        raise ConfigError(f"optimizer.{name} is {value}; expected a number in [0, 1)")

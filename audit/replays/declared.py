"""What a program says of itself where its noise cannot be followed: mechanisms of other libraries, values that are public."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from audit.core import checks
from audit.core.errors import ConfigError
from audit.replays.recording import DECLARED, NoiseRows, active

METRICS = ("l1", "l2", "linf")


def release(
    *, sensitivity: float, metric: str = "l1", epsilon: float | None = None, scale: float | None = None, input: int | str = 0
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare that a function is a mechanism with a release as its output: the replay compares how far its input moves.

    Args:
        sensitivity: how far its input may move, in `metric`.
        metric: "l1", "l2" or "linf".
        epsilon: what a movement of `sensitivity` costs in pure DP; or else
        scale: standard deviation of its Gaussian noise.
        input: place or name of the argument that holds the data.

    Raises:
        ConfigError: both or none of epsilon and scale, or another metric.
    """
    checks.positive(sensitivity, "sensitivity")
    checks.choice(metric, "metric", METRICS)
    if (epsilon is None) == (scale is None):
        raise ConfigError("a release is declared by epsilon or by scale: give one of them")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def mechanism(*args: Any, **options: Any) -> Any:
            recording = active()
            output = function(*args, **options)
            if recording is None:
                return output
            data = (
                options[input] if isinstance(input, str) and input in options else args[input if isinstance(input, int) else 0]
            )
            value = np.asarray(data, dtype=np.float64).ravel()
            rows = NoiseRows(value=value, index=np.zeros((len(value), 1), dtype=np.int64), weight=np.zeros((len(value), 1)))
            return recording.release(DECLARED, rows, output, terms=(sensitivity, metric, epsilon or math.inf, scale))

        return mechanism

    return decorate


def unchanged(**values: Any) -> None:
    """Declare that values are public: equal on neighbours. A replay in which one differs is no proof.

    >>> unchanged(records=100)
    """
    recording = active()
    if recording is not None:
        recording.seeds += [f"{name} = {value!r}" for name, value in values.items()]

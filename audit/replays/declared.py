"""What a program says of itself where its noise cannot be followed: mechanisms of other libraries, values that are public."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from audit.core import checks
from audit.core.errors import ConfigError
from audit.replays.noisy import release_inside
from audit.replays.recording import DECLARED, NoiseRows, Recording, activate, active, deactivate

METRICS = ("l1", "l2", "linf")
_APART = 1_000_003  # between the seeds of what declared releases draw in one run


def release(
    *, sensitivity: float, metric: str = "l1", epsilon: float | None = None, scale: float | None = None, input: int | str = 0
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare that a function is a mechanism with a release as its output: the replay compares how far its input moves.

    Args:
        sensitivity: how far its input may move, in `metric`.
        metric: "l1", "l2" or "linf".
        epsilon: what a movement of `sensitivity` costs in pure DP; or else
        scale: standard deviation of its Gaussian noise.
        input: place or name of the argument that holds the data; a method's first is its object.

    Raises:
        ConfigError: both or none of epsilon and scale, one that is not above 0, another metric, or no such argument.
    """
    checks.positive(sensitivity, "sensitivity")
    checks.choice(metric, "metric", METRICS)
    if (epsilon is None) == (scale is None):
        raise ConfigError("a release is declared by epsilon or by scale: give one of them")
    for number, name in ((epsilon, "epsilon"), (scale, "scale")):
        if number is not None:
            checks.positive(number, name)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(function):
            raise ConfigError(f"a release is declared of a function; expected one, not '{type(function).__name__}'")
        signature = _signature(function)
        _refuse_unknown(signature, input)

        @functools.wraps(function)
        def mechanism(*args: Any, **options: Any) -> Any:
            recording = active()
            if recording is None:
                return function(*args, **options)
            args, options = release_inside(args), release_inside(options)
            data = _find_input(signature, input, args, options)
            try:
                value = np.asarray(data, dtype=np.float64).ravel()
            except (TypeError, ValueError) as error:
                raise ConfigError(
                    f"the input of a declared release is a {type(data).__name__}; expected numbers: name another "
                    "argument by input="
                ) from error
            # what the mechanism draws and decides inside is its own: only what it returns is a release
            activate(Recording(seed=recording.seed + _APART * (1 + len(recording.releases))))
            try:
                output = release_inside(function(*args, **options))
            finally:
                deactivate()
            rows = NoiseRows(value=value, index=np.zeros((len(value), 1), dtype=np.int64), weight=np.zeros((len(value), 1)))
            return recording.release(DECLARED, rows, output, terms=(sensitivity, metric, epsilon or math.inf, scale))

        return mechanism

    return decorate


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature of a function, None if it says none of itself."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _refuse_unknown(signature: inspect.Signature | None, input: int | str) -> None:
    """Raise `ConfigError` if a function has no argument of that place or name."""
    kinds = {} if signature is None else {parameter.kind: name for name, parameter in signature.parameters.items()}
    if signature is None or kinds.keys() & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return
    if input not in (signature.parameters if isinstance(input, str) else range(len(signature.parameters))):
        raise ConfigError(f"input is {input!r}; expected the place or name of an argument: {', '.join(signature.parameters)}")


def _find_input(signature: inspect.Signature | None, input: int | str, args: Any, options: dict[str, Any]) -> Any:
    """Return the argument that holds the data, by place or by name."""
    if isinstance(input, int) and input < len(args):
        return args[input]
    arguments = dict(options)
    if signature is not None:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        arguments |= bound.arguments
    names = list(arguments)
    try:
        return arguments[input if isinstance(input, str) else names[input]]
    except (KeyError, IndexError):
        raise ConfigError(f"input is {input!r}, and the declared release was called without it") from None


def unchanged(**values: Any) -> None:
    """Declare that values are public: equal on neighbours. A replay in which one differs is no proof.

    >>> unchanged(records=100)
    """
    recording = active()
    if recording is not None:
        recording.seeds += [f"{name} = {value!r}" for name, value in values.items()]

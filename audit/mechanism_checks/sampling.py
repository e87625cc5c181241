"""Outputs of a mechanism on two data sets, in random order of the calls."""

import copy
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit import plugins
from audit.core.data import Array
from audit.core.errors import AuditError, ConfigError, DataError
from audit.mechanism_checks.outputs import collect, without_mask

PARTS = 8  # calls of a side that a function with `size` answers, so that a drift meets both sides

Outputs = Sequence[Any] | Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pair:
    """Neighbouring data sets: what the mechanism is given."""

    data: Any
    neighbour: Any
    name: str = ""
    hostile: bool = False  # whether it holds what a mechanism may refuse


@dataclass(frozen=True, kw_only=True, eq=False)
class Sampler:
    """A function `(data, rng) -> output`; one that takes the keyword `size` answers with so many outputs, first axis first."""

    function: Callable[..., Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ConfigError(f"the mechanism is a {type(self.function).__name__}; expected a function (data, rng) -> output")
        try:
            inspect.signature(self.function).bind(None, None, **({"size": 1} if self.takes_size else {}))
        except TypeError as error:
            takes = f"{getattr(self.function, '__name__', 'it')}{inspect.signature(self.function)}"
            raise ConfigError(
                f"the mechanism cannot be called: {error}; it is {takes}, expected a function (data, rng) -> output: add a "
                "second argument for a numpy.random.Generator, which it may ignore"
            ) from error
        except ValueError:
            pass  # of a function that C wrote, which says nothing of its arguments

    @property
    def takes_size(self) -> bool:
        try:
            return "size" in inspect.signature(self.function).parameters
        except (TypeError, ValueError):  # of a function that C wrote
            return False

    def draw(self, pair: Pair, count: int, generator: np.random.Generator) -> tuple[Outputs, Outputs]:
        """Return `count` outputs on the data and `count` on the neighbour, the calls in random order.

        Raises:
            DataError: a function with `size` that returns another number of outputs.
            ConfigError: whatever the function raises, with its name and what was expected.
        """
        try:
            with np.errstate(invalid="ignore", over="ignore"):  # of hostile records, whose outputs say enough
                return self._draw(pair, count, generator)
        except AuditError:
            raise
        except Exception as error:  # whatever a user's function raises is reported with what it was given
            name, kind = getattr(self.function, "__qualname__", self.function), type(pair.data).__name__
            reason = f"was given a {kind} and a generator, and raised {plugins.explain(error)}"
            raise ConfigError(f"the function {name} {reason}; expected (data, rng) -> output") from error

    def accepts(self, pair: Pair, generator: np.random.Generator) -> bool:
        """Return whether the function takes both sides of a hostile pair; an error for them is a refusal, not an output."""
        if not pair.hostile:
            return True
        try:
            self.draw(pair, 1, generator)
        except Exception:  # noqa: BLE001  the user's own code may raise anything for records outside its domain
            return False
        return True

    def _draw(self, pair: Pair, count: int, generator: np.random.Generator) -> tuple[Outputs, Outputs]:
        if not self.takes_size:
            sides: tuple[list[Any], list[Any]] = [], []
            for side in generator.permutation(np.arange(2 * count) % 2).tolist():
                data = pair.neighbour if side else pair.data
                sides[side].append(self.function(copy.copy(data), generator))
            return collect(sides[0]), collect(sides[1])
        parts = min(PARTS, count)
        sizes = [len(part) for part in np.array_split(np.arange(count), parts)]
        blocks: tuple[list[Any], list[Any]] = [], []
        for side in generator.permutation(np.arange(2 * parts) % 2).tolist():
            data = pair.neighbour if side else pair.data
            blocks[side].append(self._outputs(data, sizes[len(blocks[side])], generator))
        return _join(blocks[0]), _join(blocks[1])

    def seconds(self, pair: Pair, generator: np.random.Generator, shortest: float = 0.02) -> float:
        """Return about how long one output of either side takes."""
        count, start = 2, time.perf_counter()
        self.draw(pair, 1, generator)
        while (duration := time.perf_counter() - start) < shortest:
            count, start = 4 * count, time.perf_counter()
            self.draw(pair, count // 2, generator)
        return duration / count

    def _outputs(self, data: Any, size: int, generator: np.random.Generator) -> Any:
        outputs = self.function(copy.copy(data), generator, size=size)
        if not hasattr(outputs, "__len__") or len(outputs) != size:
            shape = len(outputs) if hasattr(outputs, "__len__") else type(outputs).__name__
            raise DataError(
                f"the mechanism was asked for size={size} outputs and returned {shape}; the first axis is the outputs"
            )
        return without_mask(outputs)


def _join(blocks: list[Any]) -> Outputs:
    if all(isinstance(block, np.ndarray) for block in blocks):
        return np.concatenate(blocks)
    return collect([output for block in blocks for output in block])

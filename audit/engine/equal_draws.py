"""Draws of a function of batches that are the same for every record, whatever its place and the number of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_UNIFORM = ("rand", "rand_like", "uniform", "uniform_")
_NORMAL = ("randn", "randn_like", "normal_")


class EqualDraws(TorchDispatchMode):
    """A scope on the CPU in which what is drawn does not change along an axis as long as the batch.

    What a function makes of a record may then depend on its place, or on the number of records, by its own arithmetic alone.

    Args:
        count: records in the batch.
        seed: of the numbers that take the draws' place.

    Attributes:
        free: names of operations whose draws could not be replaced, such as `randperm`, or those of several numbers a record
            along one axis.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: torch would load its compiler, which takes over a second, to keep it away from `__torch_dispatch__`."""
        return False

    def __init__(self, count: int, seed: int) -> None:
        super().__init__()
        self.free: set[str] = set()
        self._count, self._seed = count, seed

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        arguments = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **arguments)
        result = func(*args, **arguments)
        name = func.overloadpacket.__name__
        is_multiple = isinstance(result, Tensor) and any(
            size > self._count and size % self._count == 0 for size in result.shape
        )
        values = None if is_multiple or not isinstance(result, Tensor) else self._values(func, args, result)
        if values is None:
            self.free.add(name)
            return result
        return result.copy_(values.expand_as(result))

    def _values(self, func: Any, args: Sequence[Any], result: Tensor) -> Tensor | None:
        """Numbers such as the operation draws, one along axes as long as the batch; None of an operation not known here."""
        shape = [1 if size == self._count else size for size in result.shape]
        uniform = torch.from_numpy(np.random.default_rng([self._seed, *shape]).random(shape)).to(result.device)
        name, numbers = func.overloadpacket.__name__, [value for value in args[1:] if isinstance(value, int | float)]
        if name in _UNIFORM:
            low, high = numbers if len(numbers) == 2 else (0.0, 1.0)
            return uniform * (high - low) + low
        if name in _NORMAL:
            mean, deviation = numbers if len(numbers) == 2 else (0.0, 1.0)
            return (2 * uniform - 1) * deviation + mean
        if name == "randint":
            low, high = args[:2] if "low" in func._overloadname else (0, args[0])
            return torch.floor(uniform * (high - low)) + low
        if name in ("bernoulli", "bernoulli_"):
            shares = args[1] if len(args) > 1 else args[0] if name == "bernoulli" else 0.5
            return (uniform < shares).to(result.dtype)
        return None

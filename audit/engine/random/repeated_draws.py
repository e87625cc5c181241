"""Whether code draws the same numbers in every call, from a seed of its own: constants, that `vmap` would draw per record."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from audit.core.seeds import Seed
from audit.engine.random.random_operations import RandomOperations
from audit.models.build import seeded_stream


class _KeptDraws(RandomOperations):
    """A scope on the CPU that keeps what operations draw, from any generator."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[Tensor] = []

    def stream(self, arguments: Mapping[str, Any]) -> torch.Generator:
        generator = arguments.get("generator")
        return generator if isinstance(generator, torch.Generator) else torch.default_generator

    def replacement(self, func: Any, arguments: Mapping[str, Any], result: Any) -> Any:
        numbers = result[-1] if isinstance(result, tuple) else result  # of dropout, its mask
        self.numbers.append(numbers.detach().clone())
        return result


def repeats_draws(forward: Callable[[], object]) -> bool:
    """Return whether any operation of `forward`, on the CPU, draws the same numbers whatever torch's stream starts at."""
    calls = []
    for number in range(2):
        with torch.no_grad(), seeded_stream(Seed(0).child("repeated draws", number)), _KeptDraws() as scope:
            forward()
        calls.append(scope.numbers)
    return any(torch.equal(*pair) for pair in zip(*calls, strict=False))

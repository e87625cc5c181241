"""Random operations, seen and held still: what a module draws, and what it computes apart from that."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# operations that fill a tensor with independent draws, by the number that takes a draw's place
_FILLS: Mapping[str, float] = {
    "bernoulli": 1.0,
    "bernoulli_": 1.0,
    "rand": 0.5,
    "rand_like": 0.5,
    "randn": 0.5,
    "randn_like": 0.5,
    "normal": 0.5,
    "normal_": 0.5,
    "uniform": 0.5,
    "uniform_": 0.5,
    "exponential": 0.5,
    "exponential_": 0.5,
}


class HeldDraws(TorchDispatchMode):
    """A scope on the CPU in which every draw of a random operation is the same number.

    Dropout then passes everything (scaled alike everywhere), so that what a module computes can be compared between batches
    of other orders and sizes.

    Attributes:
        random_operations: names of the operations that drew from torch's stream.
        free: those among them that could not be held, such as `randperm`.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: torch would load its compiler, which takes over a second, to keep it away from `__torch_dispatch__`."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.random_operations: set[str] = set()
        self.free: set[str] = set()
        self._scope = ExitStack()

    def __enter__(self) -> Self:
        if "torch._dynamo" in sys.modules:  # compiled code hides its draws, or is compiled with this scope in it
            self._scope.enter_context(torch.compiler.set_stance("force_eager"))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._scope.close()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        arguments = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **arguments)
        before = torch.get_rng_state()  # the tag says "may draw": fused attention carries it without any dropout
        result = func(*args, **arguments)
        if torch.equal(before, torch.get_rng_state()):
            return result
        name = func.overloadpacket.__name__
        self.random_operations.add(name)
        if name == "native_dropout":
            return args[0].clone(), torch.ones_like(result[1])
        if name not in _FILLS or not isinstance(result, Tensor):
            self.free.add(name)
            return result
        return result.fill_(_FILLS[name])

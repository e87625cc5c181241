"""Operations of torch, seen as they run, and the frame in which the draws of random ones are replaced."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class OperationScope(TorchDispatchMode):
    """What a dispatch mode is, without loading torch's compiler; `__torch_dispatch__` is left to those that look."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: torch would load its compiler, which takes over a second, to keep it away from `__torch_dispatch__`."""
        return False


class RandomOperations(OperationScope):
    """A scope on the CPU that sees every operation which draws, and gives its result another value.

    Attributes:
        random_operations: names of the operations that drew.
        free: those among them with draws that could not be replaced, such as `randperm`.
    """

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
        options = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **options)
        arguments = _by_name(func, args) | options
        stream = self.stream(arguments)
        before = stream.get_state()  # the tag says "may draw": fused attention carries it without any dropout
        result = func(*args, **options)
        if torch.equal(before, stream.get_state()):
            return result
        name = func.overloadpacket.__name__
        self.random_operations.add(name)
        replacement = self.replacement(func, arguments, result)
        if replacement is None:
            self.free.add(name)
            return result
        return replacement

    def stream(self, arguments: Mapping[str, Any]) -> torch.Generator:
        """Return the stream with a state that shows whether an operation with these arguments drew: torch's global one."""
        return torch.default_generator

    def replacement(self, func: Any, arguments: Mapping[str, Any], result: Any) -> Any:
        """Return what takes the place of `result`, which `func` drew with `arguments` by name; None if it has to stay."""
        raise NotImplementedError


def _by_name(func: Any, args: Sequence[Any]) -> dict[str, Any]:
    """Return the positional arguments of an operation by name, with the defaults that torch leaves out."""
    parameters = func._schema.arguments
    defaults = {parameter.name: parameter.default_value for parameter in parameters if parameter.has_default_value()}
    values = zip((parameter.name for parameter in parameters), args, strict=False)
    return {name: value for name, value in (defaults | dict(values)).items() if value is not None}

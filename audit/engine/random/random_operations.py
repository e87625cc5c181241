"""Operations of torch, seen as they run; and draws of random ones: held still, made equal for all records, or kept."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from audit.core.seeds import Seed
from audit.models.build import seeded_stream


class OperationScope(TorchDispatchMode):
    """What a dispatch mode is, without loading torch's compiler; `__torch_dispatch__` is left to those that look."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: torch would load its compiler, which takes over a second, to keep it away from `__torch_dispatch__`."""
        return False


class RandomOperations(OperationScope):
    """A scope on the CPU that sees every operation which draws (`random_operations`), and gives its result another value.

    `free` are those with draws that could not be replaced, such as `randperm`.
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


# operations that fill a tensor with independent draws, by the number that takes a draw's place
_FILLS: Mapping[str, float] = {
    **dict.fromkeys(("bernoulli", "bernoulli_"), 1.0),
    **dict.fromkeys(("rand", "rand_like", "randn", "randn_like", "normal", "normal_"), 0.5),
    **dict.fromkeys(("uniform", "uniform_", "exponential", "exponential_"), 0.5),
}


class ConstantDraws(RandomOperations):
    """A scope on the CPU in which every draw of a random operation from torch's stream is the same number.

    Dropout then passes everything (scaled alike everywhere), so that what a module computes can be compared between batches
    of other orders and sizes.
    """

    def replacement(self, func: Any, arguments: Mapping[str, Any], result: Any) -> Any:
        name = func.overloadpacket.__name__
        if name == "native_dropout":
            return arguments["input"].clone(), torch.ones_like(result[1])
        return result.fill_(_FILLS[name]) if name in _FILLS and isinstance(result, Tensor) else None


_TINY = 1e-12  # added to a uniform number, so that it has a logarithm
_WHOLE_NUMBERS = 2.0**24  # whole numbers, if nothing says up to which


def _flat(uniform: Tensor, options: Mapping[str, Any]) -> Tensor:
    low, high = options.get("low", options.get("from", 0.0)), options.get("high", options.get("to", 1.0))
    values: Tensor = uniform * (high - low) + low
    return values


def _whole(uniform: Tensor, options: Mapping[str, Any]) -> Tensor:
    return torch.floor(_flat(uniform, {"to": _WHOLE_NUMBERS, **options}))


def _normal(uniform: Tensor, options: Mapping[str, Any]) -> Tensor:
    """Numbers of the mean that is asked for and within its deviation, which any threshold of a test will meet."""
    values: Tensor = (2 * uniform - 1) * options.get("std", 1.0) + options.get("mean", 0.0)
    return values


def _coin(uniform: Tensor, options: Mapping[str, Any]) -> Tensor:
    is_drawn: Tensor = uniform < options.get("p", options["self"])
    return is_drawn.double()


def _choice(uniform: Tensor, options: Mapping[str, Any]) -> Tensor | None:
    """Numbers of classes by their weights; None without replacement, if one draw depends on the others."""
    if not options["replacement"] and options["num_samples"] > 1:
        return None
    weights: Tensor = options["self"]
    cumulative = (weights.cumsum(-1) / weights.sum(-1, keepdim=True)).unsqueeze(-2)
    return (uniform.unsqueeze(-1) > cumulative).sum(-1)


# what an operation draws, made of uniform numbers and its arguments by name; tensors among these may hold one for each record
_LAWS: Mapping[str, Callable[[Tensor, Mapping[str, Any]], Tensor | None]] = {
    **dict.fromkeys(("rand", "rand_like", "uniform", "uniform_"), _flat),
    **dict.fromkeys(("randn", "randn_like", "normal", "normal_"), _normal),
    **dict.fromkeys(("randint", "randint_like", "random", "random_"), _whole),
    **dict.fromkeys(("bernoulli", "bernoulli_"), _coin),
    **dict.fromkeys(("exponential", "exponential_"), lambda uniform, options: -(uniform + _TINY).log() / options["lambd"]),
    **dict.fromkeys(("log_normal", "log_normal_"), lambda uniform, options: _normal(uniform, options).exp()),
    "multinomial": _choice,
}


class EqualDraws(RandomOperations):
    """A scope on the CPU in which what is drawn does not change along an axis as long as the batch.

    What a function makes of one of `count` records may then depend on its place, or on the number of records, by its own
    arithmetic alone. `free` names besides operations that draw several numbers a record along one axis; `own_streams` are
    states of all generators but the one that the function is given, each before it drew for all records.
    """

    def __init__(self, count: int, seed: int, generator: torch.Generator) -> None:
        super().__init__()
        self._count, self._seed, self._generator = count, seed, generator
        self.own_streams: set[bytes] = set()
        self._state, self._is_own = torch.empty(0), False

    def stream(self, arguments: Mapping[str, Any]) -> torch.Generator:
        generator: torch.Generator = arguments.get("generator", torch.default_generator)
        self._state = generator.get_state()
        self._is_own = not torch.equal(self._state, self._generator.get_state())  # torch hands on another object for the same
        return generator

    def replacement(self, func: Any, arguments: Mapping[str, Any], result: Any) -> Any:
        if isinstance(result, Tensor) and self._is_own and any(size % self._count == 0 for size in result.shape):
            self.own_streams.add(self._state.numpy().tobytes())
        if not isinstance(result, Tensor) or any(size > self._count and size % self._count == 0 for size in result.shape):
            return None
        law = _LAWS.get(func.overloadpacket.__name__)
        if law is None:
            return None
        shape = [1 if size == self._count else size for size in result.shape]
        uniform = torch.from_numpy(np.random.default_rng([self._seed, *shape]).random(shape)).to(result.device)
        values = law(uniform, arguments)
        return None if values is None else result.copy_(values.expand_as(result))


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

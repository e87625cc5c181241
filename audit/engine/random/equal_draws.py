"""Draws of a function of batches that are the same for every record, whatever its place and the number of records."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from audit.engine.random.random_operations import RandomOperations

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

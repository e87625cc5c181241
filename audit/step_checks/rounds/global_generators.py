"""The generators from which a strategy under test may draw its noise: global ones, and those that it holds."""

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from audit.core.seeds import Seed

_DEPTH = 5  # of attributes in which generators of a strategy are looked for


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, numpy and, if it is loaded, torch; put them back afterwards."""
    torch = sys.modules.get("torch")
    before = random.getstate(), np.random.get_state(), None if torch is None else torch.get_rng_state()  # noqa: NPY002
    try:
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  the generator that the strategy under test may draw from
        if torch is not None:
            torch.manual_seed(seed)
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(before[2])


def set_generators(strategy: Any, seed: Seed) -> None:
    """Give every generator in a strategy's attributes, and in theirs, a state of its own that follows from the seed."""
    torch = sys.modules.get("torch")
    for number, generator in enumerate(_generators(strategy)):
        fresh = seed.child("generator", number).numpy()
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = type(generator.bit_generator)(int(fresh.integers(2**62))).state
        elif isinstance(generator, np.random.RandomState):
            generator.seed(int(fresh.integers(2**32)))
        elif isinstance(generator, random.Random):
            generator.seed(int(fresh.integers(2**62)))
        elif torch is not None:
            generator.manual_seed(int(fresh.integers(2**62)))


def _generators(value: Any) -> Iterator[Any]:
    """Yield the generators that an object holds, each once."""
    torch = sys.modules.get("torch")
    kinds = (np.random.Generator, np.random.RandomState, random.Random, *(() if torch is None else (torch.Generator,)))
    numbers, parts = set[int](), [(value, 0)]
    while parts:
        part, depth = parts.pop()
        if id(part) in numbers or depth > _DEPTH:
            continue
        numbers.add(id(part))
        if isinstance(part, kinds):
            yield part
        elif isinstance(part, Mapping):
            parts += [(entry, depth + 1) for entry in part.values()]
        elif isinstance(part, Sequence) and not isinstance(part, str | bytes):
            parts += [(entry, depth + 1) for entry in part]
        elif not isinstance(part, type) and hasattr(part, "__dict__"):
            parts += [(entry, depth + 1) for entry in vars(part).values()]

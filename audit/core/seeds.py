"""Named, independent random streams. There is no global generator anywhere in the project."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

SEED_BITS = 128
SHORTEST_SEED = 1 << 64  # seeds below are found by trying all of them: memberships that follow from one are no secret


def new_seed() -> int:
    """Return a seed of `SEED_BITS` bits from the system's source of randomness, never a short one."""
    return secrets.randbits(SEED_BITS - 1) | 1 << (SEED_BITS - 1)


@dataclass(frozen=True, slots=True)
class Seed:
    """A node in a tree of random streams; a child's stream depends on its path alone.

    >>> Seed(7).child("noise", 3) == Seed(7).child("noise", 3)
    True
    >>> Seed(7).child("noise", 3).integer() == Seed(7).child("noise", 4).integer()
    False
    """

    root: int
    path: tuple[str, ...] = ()

    def child(self, name: str, index: int = 0) -> Seed:
        """The stream called `name`, number `index`, below this one."""
        return Seed(self.root, (*self.path, f"{name}[{index}]"))

    def integer(self) -> int:
        """A 63-bit integer for generators that take one number."""
        return int.from_bytes(self._digest()[:8], "big") >> 1

    def numpy(self) -> np.random.Generator:
        """A fresh numpy generator at the start of this stream."""
        return np.random.Generator(np.random.PCG64(int.from_bytes(self._digest(), "big")))

    def _digest(self) -> bytes:
        return hashlib.sha256("/".join((str(self.root), *self.path)).encode()).digest()


_SHORT = (1 << 32) - 1
# what a model draws from generators that read the low 32 bits of a seed alone, as torch's of the CPU do
_SHORT_STREAMS = ("init", "noise", "canary noise", "count", "user function", "user seed")


def separate_seeds(seeds: Iterable[Seed]) -> tuple[Seed, ...]:
    """The seeds of the models of a game, such that no two models start such a generator with the same 32 bits.

    By chance two of 10,000 would share their noise once in 86 games. A seed of which a stream has the bits of another, of
    its own or of a model before it, is left for its child "again", or that one's, until none has: the others stay as they are.

    >>> separate_seeds([Seed(7).child("model", 0), Seed(7).child("model", 1)])[1] == Seed(7).child("model", 1)
    True
    """
    used_bits: set[int] = set()
    distinct_seeds = []
    for seed in seeds:
        candidate = seed
        bits = _short_bits(candidate)
        while len(bits) < len(_SHORT_STREAMS) or bits & used_bits:
            candidate = candidate.child("again")
            bits = _short_bits(candidate)
        used_bits |= bits
        distinct_seeds.append(candidate)
    return tuple(distinct_seeds)


def _short_bits(seed: Seed) -> set[int]:
    return {seed.child(name).integer() & _SHORT for name in _SHORT_STREAMS}

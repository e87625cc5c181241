"""Named, independent random streams. There is no global generator anywhere in the project."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np


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


def of_design(estimator: str, members: int, nonmembers: int) -> Seed:
    """The stream of an estimator's own draws, fixed by the numbers of scores: nobody can draw again until a bound pleases.

    >>> of_design("gaussian", 10, 12) == of_design("gaussian", 10, 12)
    True
    """
    return Seed(0).child(estimator).child("members", members).child("nonmembers", nonmembers)

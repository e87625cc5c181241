"""How members move in normal coordinates as the parameter of an ordered family grows, fast enough for millions of draws."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from audit.stats.curves.tradeoff import Family

LIFT = 2e-6  # by which members are moved up: more than positions within +-8 are rounded, and tagged, as float32
REACH, CELLS = 8.0, 16_000  # of the look-up of `CurveShift`, in normal coordinates

Positions = NDArray[np.floating[Any]]  # in normal coordinates, higher = more member-like; drawn and ranked as float32
Encoding = Callable[[NDArray[np.float32]], NDArray[Any]]  # `encode` of a class of shifts, element by element


class Shift(Protocol):
    """How the members' draws move as the parameter of an ordered family grows."""

    @staticmethod
    def encode(members: NDArray[np.float32]) -> NDArray[Any]:
        """Return what is needed of standard normal draws at every parameter; made once, for all shifts of a class."""

    def lifted(self, parameter: float) -> Callable[[NDArray[Any]], Positions]:
        """Return the function from encoded draws to positions plus `LIFT`; they do not fall as the parameter grows."""


@dataclass(frozen=True, slots=True)
class CurveShift:
    """The shift of a family of curves: a member that ranks at quantile w of the curve moves to FPR `tpr^-1(w)`.

    Looked up on a fine grid and rounded towards more member-like, which can only reject less.
    """

    family: Family

    @staticmethod
    def encode(members: NDArray[np.float32]) -> NDArray[np.uint16]:
        """Cells of the grid, rounded up."""
        places = np.clip(members, -REACH, REACH)
        places += REACH
        places *= CELLS / (2 * REACH)
        return np.ceil(places, out=places).astype(np.uint16)

    def lifted(self, parameter: float) -> Callable[[NDArray[Any]], Positions]:
        """A look-up in the shifts of all cells."""
        curve, grid = self.family(parameter), np.linspace(-REACH, REACH, CELLS + 1)
        fpr = 1 - curve.tnr(1 - special.ndtr(-grid))
        shifts = np.maximum.accumulate(np.clip(-special.ndtri(np.clip(fpr, 0.0, 1.0)), -100.0, 100.0))
        return functools.partial(np.take, (shifts + np.float32(LIFT)).astype(np.float32), mode="clip")


class GdpShift:
    """Members' positions under the mu-GDP curve."""

    @staticmethod
    def encode(members: NDArray[np.float32]) -> NDArray[np.float32]:
        """The draws themselves."""
        return members

    def lifted(self, parameter: float) -> Callable[[NDArray[Any]], Positions]:
        """Add mu."""
        return lambda members: np.asarray(members + parameter + np.float32(LIFT))

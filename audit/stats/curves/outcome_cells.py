"""Very many outcomes made into few, so that the pair dominates, or is dominated by, the one that they had."""

import dataclasses
import math

import numpy as np

from audit.stats.arrays import Array
from audit.stats.curves.loss_pairs import LossPair, finite_pair

_CELLS = 1000  # on each side of zero loss
_SMALLEST = 1e-5  # relative to the largest loss: there is one cell below it on each side
_LARGEST_LOSS = 600.0


class OutcomeCells:
    """Masses under both hypotheses, summed up over cells of the loss.

    Args:
        lowest, highest: losses that occur, finite.
    """

    def __init__(self, lowest: float, highest: float) -> None:
        reach = min(max(abs(lowest), abs(highest), 1e-12), _LARGEST_LOSS)
        fine = np.geomspace(_SMALLEST * reach, reach * (1 + 1e-9), _CELLS)
        ends = np.concatenate([-fine[::-1], [0.0], fine])
        inside = ends[(ends > lowest) & (ends < highest)]
        self._ends = np.concatenate([[lowest], inside, [max(highest, lowest + 1e-15)]])
        self._masses = np.zeros(len(self._ends))
        self._shrunk_masses = np.zeros(len(self._ends))

    def add(self, losses: Array, masses: Array) -> None:
        """Count outcomes in.

        Args:
            losses: `(n,)`, finite.
            masses: `(n,)`, under P.
        """
        cell = np.clip(np.searchsorted(self._ends, losses, side="right") - 1, 0, len(self._ends) - 2)
        self._masses += np.bincount(cell, masses, len(self._ends))
        shrunk = masses * np.exp(self._ends[cell] - losses)  # the Q-mass times exp of the loss at the cell's lower end
        self._shrunk_masses += np.bincount(cell, shrunk, len(self._ends))

    def above(self, infinite: float = 0.0) -> LossPair:
        """Return a pair that dominates: both masses of a cell are split over its two ends; `infinite`: of P, as well."""
        width = np.diff(self._ends)
        # a share s at the upper end of width w leaves the Q-mass (1 - s) + s exp(-w), relative to that of the lower end
        at_upper = np.clip((self._masses - self._shrunk_masses)[:-1] / -np.expm1(-width), 0.0, self._masses[:-1])
        masses = self._masses.copy()
        masses[:-1] -= at_upper
        masses[1:] += at_upper
        return _pair(self._ends, masses, infinite)

    def below(self) -> LossPair:
        """Return a pair that is dominated: the outcomes of a cell become one."""
        with np.errstate(divide="ignore", invalid="ignore"):
            losses = self._ends + np.log(self._masses / self._shrunk_masses)
        return _pair(np.where(self._masses > 0, losses, 0.0), self._masses, 0.0)


def _pair(losses: Array, masses: Array, infinite: float) -> LossPair:
    positive = masses > 0
    losses, masses = losses[positive], masses[positive]
    remainder = [(math.inf, infinite)] if infinite else []
    atoms = [*zip(losses.tolist(), masses.tolist(), strict=True), *remainder]
    centre = float(masses @ losses)
    spread = math.sqrt(max(float(masses @ (losses - centre) ** 2), 0.0))
    pair = finite_pair(tuple(loss for loss, _ in atoms), tuple(mass for _, mass in atoms))
    return dataclasses.replace(pair, spread=spread or 1.0)

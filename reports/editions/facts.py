"""The values that a figure about members may take in an external edition, and how many there are: its information in bits.

Every figure of an external edition that depends on who was a member has one of a list of values fixed before; a `FigureCount`
object picks it and counts. The theorem that rests on the count is in docs/theory/editions.md, "What an external edition tells".
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

SMALLEST_COUNT = 1000  # sizes of parts of the records below this are not stated

AREAS = tuple(step / 20 for step in range(21))
RATES = (0.0, 0.01, 0.02, 0.05, *(step / 10 for step in range(1, 11)))
# two digits: steps of 0.01 below 1, of 0.1 below 10, of 1 above
EPSILONS = (0.0, *(step / 100 for step in range(1, 100)), *(step / 10 for step in range(10, 100)), *map(float, range(10, 100)))
CLAIM_DIGITS = tuple(range(2, 10))  # decimals of a bound that lies above a claim by less than two digits show


@dataclass(slots=True)
class FigureCount:
    """Picks the values of an edition; counts those from two values or more, and the most bits that they carry together."""

    figures: int = 0
    bits: float = 0.0

    def one_of(self, count: int) -> None:
        """Count a figure that may take `count` values."""
        if count > 1:
            self.figures += 1
            self.bits += math.log2(count)

    def down(self, value: float, grid: Sequence[float]) -> float:
        """Return the largest value of an increasing grid that is at most `value`, its first if there is none."""
        self.one_of(len(grid))
        return grid[max(0, bisect_right(grid, value) - 1)]

    def up(self, value: float, grid: Sequence[float]) -> float:
        """Return the smallest value of an increasing grid that is at smallest `value`, its last if there is none."""
        self.one_of(len(grid))
        return grid[min(len(grid) - 1, bisect_left(grid, value))]

    def near(self, value: float, grid: Sequence[float]) -> float:
        """Return the value of a grid that is nearest; of two the smaller."""
        self.one_of(len(grid))
        return min(grid, key=lambda candidate: (abs(candidate - value), candidate))

    def epsilon(self, value: float, claims: Sequence[float]) -> float:
        """Return an epsilon rounded down to two digits, or to just above a claim that is between: on its side of every claim.

        >>> FigureCount().epsilon(2.0561, []), FigureCount().epsilon(2.0561, [2.05]), FigureCount().epsilon(2.0561, [2.051])
        (2.0, 2.051, 2.052)
        """
        grid = epsilon_grid(claims)
        self.one_of(len(grid) + 1)
        return value if value == math.inf else grid[max(0, bisect_right(grid, value) - 1)]


def epsilon_grid(claims: Sequence[float]) -> tuple[float, ...]:
    """Return all values that a rounded epsilon may take: those of two digits, and a few just above each claim."""
    finite = [claim for claim in claims if math.isfinite(claim)]
    above = [math.floor(claim * 10**digits + 1) / 10**digits for claim in finite for digits in CLAIM_DIGITS]
    smallest = [math.nextafter(claim, math.inf) for claim in finite]
    return tuple(sorted({*EPSILONS, *above, *smallest}))
